"""A person clones the desk, starts it, signs in with the printed link, and stops it with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from project.embedded import CannotStart, chosen_port
from project.services import free_port

LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S{20,}")
ENOUGH = 60  # seconds; a machine may be busy
OWN = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HTTPS", "COLLECT_STATIC", "DJANGO_SETTINGS_MODULE", "REDIS_PREFIX"}


def start(data: Path, *program: str, **environment: str) -> subprocess.Popen[str]:
    """Start the desk as `make run` does, or a ``program`` of Python, with nothing of the test run's own environment."""
    base = {name: value for name, value in os.environ.items() if name not in OWN}
    return subprocess.Popen(
        [sys.executable, *(program or ("-m", "project.embedded"))],
        env={**base, "DATA_DIR": str(data), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed_link(desk: subprocess.Popen[str]) -> str:
    """Read what the desk prints until its link comes."""
    assert desk.stdout is not None
    for line in desk.stdout:
        if found := LINK.search(line):
            return found.group()
    assert desk.stderr is not None
    raise AssertionError(f"no link was printed: {desk.stderr.read()}")


def stopped(desk: subprocess.Popen[str]) -> str:
    """Press Ctrl-C; return what was written to stderr."""
    desk.send_signal(signal.SIGINT)
    _, errors = desk.communicate(timeout=ENOUGH)
    assert desk.returncode == 0, errors
    return errors


@pytest.fixture
def desks() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that the test starts; whatever still lives is ended afterwards."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for desk in started:
        if desk.poll() is None:
            desk.kill()
        desk.communicate()


class Browser:
    """A browser without JavaScript: it keeps cookies, follows redirects, and posts the form of the page it is on."""

    def __init__(self) -> None:
        self._client = httpx.Client(follow_redirects=True, trust_env=False, timeout=ENOUGH)
        self._url = self._page = ""

    def open(self, url: str, **fields: str) -> str:
        answer = self._client.post(url, data=fields) if fields else self._client.get(url)
        assert answer.is_success, answer.text
        self._url, self._page = str(answer.url), answer.text
        return self._page

    def submit(self, **fields: str) -> str:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self._page)
        assert token, self._page
        return self.open(self._url, csrfmiddlewaretoken=token.group(1), **fields)

    @contextmanager
    def watch(self, url: str, words: str) -> Iterator[None]:
        """Stay on the page at ``url`` as its script does: look again at each hint until ``words`` stand on it."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._client.cookies.items())
        place = httpx.URL(url).netloc.decode()
        origin = Origin(f"http://{place}")
        with connect(f"ws://{place}/ws/", origin=origin, additional_headers={"Cookie": cookies}) as page:
            while words not in self.open(url):
                page.recv(timeout=ENOUGH)
            yield

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def rosa() -> Iterator[Browser]:
    """The person who installs the desk."""
    browser = Browser()
    yield browser
    browser.close()


@pytest.mark.crash
def test_from_a_fresh_clone_to_the_inbox_and_back(
    tmp_path: Path, desks: list[subprocess.Popen[str]], rosa: Browser
) -> None:
    port = str(free_port())
    inbox = f"http://127.0.0.1:{port}/"
    desks.append(start(tmp_path / "data", PORT=port))
    link = printed_link(desks[0])
    rosa.open(link)
    rosa.submit(username="rosa", password="a long enough word")
    with rosa.watch(inbox, "issue_refund"):
        assert stopped(desks[0]) == ""  # an open page does not hold it up

    desks.append(start(tmp_path / "data", PORT=port))
    assert printed_link(desks[1]) != link
    assert "issue_refund" in rosa.open(inbox)  # her session and the data are kept
    assert stopped(desks[1]) == ""


@pytest.mark.crash
def test_what_hinders_a_start_is_said_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for environment, words in (
            ({"PORT": str(port)}, f"PORT={port + 1} make run"),
            ({"DATA_DIR": str(tmp_path / "file" / "data")}, "data folder cannot be written"),
            ({"REDIS_URL": "redis://127.0.0.1:1", "SECRET_KEY": "k" * 40}, "unset both"),
            ({"SECRET_KEY": "sample"}, "SECRET_KEY is a sample"),
        ):
            desk = start(tmp_path / "data", **{"PORT": str(free_port()), **environment})
            output, errors = desk.communicate(timeout=ENOUGH)
            assert (desk.returncode, output) == (1, "")
            assert words in errors
            assert "Traceback" not in errors
    assert not (tmp_path / "data" / "countersign.sqlite3").exists()


@pytest.mark.crash
def test_a_second_desk_on_the_same_data_is_refused(tmp_path: Path, desks: list[subprocess.Popen[str]]) -> None:
    desks.append(start(tmp_path, PORT=str(free_port())))
    printed_link(desks[0])
    second = start(tmp_path, PORT=str(free_port()))
    _, errors = second.communicate(timeout=ENOUGH)
    assert second.returncode == 1
    assert "Another desk runs on" in errors
    assert stopped(desks[0]) == ""


# The desk as `make run` starts it, and somebody who presses Ctrl-C at one place of its start.
PRESSED = """
import os, signal, sys
from project import embedded

def pressing(real):
    def pressed(*given):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*given)
    return pressed

def while_the_reactor_starts(real):
    def serve(*given):
        from daphne.server import reactor
        reactor.addSystemEventTrigger("before", "startup", lambda: os.kill(os.getpid(), signal.SIGINT))
        return real(*given)
    return serve

PLACES
sys.exit(embedded.main())
"""
PLACES = {
    "while it is prepared": "embedded.prepare = pressing(embedded.prepare)",
    "while workers start": "embedded._start_celery = pressing(embedded._start_celery)",
    "before the link": "embedded.welcome = pressing(embedded.welcome)",
    "where Twisted catches all": "embedded.serve = while_the_reactor_starts(embedded.serve)",
}


@pytest.mark.crash
@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_in_the_moment_of_the_start_is_clean_too(
    tmp_path: Path, desks: list[subprocess.Popen[str]], place: str
) -> None:
    program = PRESSED.replace("PLACES", PLACES[place])
    desks.append(start(tmp_path, "-c", program, PORT=str(free_port())))
    _, errors = desks[0].communicate(timeout=ENOUGH)
    assert (desks[0].returncode, errors) == (0, "")


# The main thread waits for the database, and hears no signal until it has got it.
HELD_UP = """
import sqlite3, sys
from project import embedded

def held_up(address):
    first, second = (sqlite3.connect("held", isolation_level=None, timeout=3600) for _ in range(2))
    first.execute("BEGIN IMMEDIATE")
    print("held up", flush=True)
    second.execute("BEGIN IMMEDIATE")

embedded.welcome = held_up
embedded.LEAVE_SECONDS = LEAVE
sys.exit(embedded.main())
"""


@pytest.mark.crash
@pytest.mark.parametrize("leave_seconds", [0.5, 3600])
def test_ctrl_c_ends_a_desk_that_hangs(
    tmp_path: Path, desks: list[subprocess.Popen[str]], leave_seconds: float
) -> None:
    """After a while by itself; at once when it is pressed again."""
    program = HELD_UP.replace("LEAVE_SECONDS = LEAVE", f"LEAVE_SECONDS = {leave_seconds}")
    desks.append(start(tmp_path, "-c", program.replace('"held"', repr(str(tmp_path / "held"))), PORT=str(free_port())))
    assert desks[0].stdout is not None
    assert desks[0].stdout.readline() == "held up\n"
    desks[0].send_signal(signal.SIGINT)
    while leave_seconds > ENOUGH and desks[0].poll() is None:
        time.sleep(0.1)  # two signals in a moment may be one
        desks[0].send_signal(signal.SIGINT)
    _, errors = desks[0].communicate(timeout=ENOUGH)
    assert (desks[0].returncode, errors) == (0, "")


@pytest.mark.parametrize("port", ["", "eighty", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(CannotStart, match="is no port"):
        chosen_port()
