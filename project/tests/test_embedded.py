"""A person clones the desk, starts it, signs in with the printed link, and stops it with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
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
OWN = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HTTPS", "COLLECT_STATIC", "DJANGO_SETTINGS_MODULE", "REDIS_PREFIX"}


def start(data: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the desk as `make run` does, on ``data``, with nothing of the test run's own environment."""
    base = {name: value for name, value in os.environ.items() if name not in OWN}
    return subprocess.Popen(
        [sys.executable, "-m", "project.embedded"],
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
    _, errors = desk.communicate(timeout=20)
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
        self._client = httpx.Client(follow_redirects=True, trust_env=False, timeout=20)
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
                page.recv(timeout=20)
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
            output, errors = desk.communicate(timeout=30)
            assert (desk.returncode, output) == (1, "")
            assert words in errors
            assert "Traceback" not in errors
    assert not (tmp_path / "data" / "countersign.sqlite3").exists()


@pytest.mark.crash
def test_a_second_desk_on_the_same_data_is_refused(tmp_path: Path, desks: list[subprocess.Popen[str]]) -> None:
    desks.append(start(tmp_path, PORT=str(free_port())))
    printed_link(desks[0])
    second = start(tmp_path, PORT=str(free_port()))
    _, errors = second.communicate(timeout=30)
    assert second.returncode == 1
    assert "Another desk runs on" in errors
    assert stopped(desks[0]) == ""


@pytest.mark.crash
def test_ctrl_c_in_the_moment_of_the_start_is_clean_too(tmp_path: Path, desks: list[subprocess.Popen[str]]) -> None:
    desks.append(start(tmp_path, PORT=str(free_port())))
    printed_link(desks[0])  # the server listens for Ctrl-C only a little later, and all threads are being worked on
    assert stopped(desks[0]) == ""


@pytest.mark.parametrize("port", ["", "eighty", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(CannotStart, match="is no port"):
        chosen_port()
