"""A developer starts PostgreSQL and Redis for a test run, and finds nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from project import services


def test_what_is_missing_is_named_where_nothing_can_be_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert "chromium" in services.missing_packages()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(services.Unavailable, match="chromium"):
        services.install()


def test_a_named_browser_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(browser))
    assert services.find("chromium") == str(browser)


def test_a_server_that_dies_shows_its_log(tmp_path: Path) -> None:
    port = services.free_port()
    broken = services.Server("redis", str(tmp_path), port, "", [sys.executable, "-c", "raise SystemExit('no memory')"])
    with pytest.raises(services.Unavailable, match="no memory"):
        broken.start()
    assert not broken.is_running()


@pytest.mark.production
@pytest.mark.crash
def test_both_run_beside_a_command_and_are_gone_after_it_fails() -> None:
    look = (
        "import os, psycopg, redis\n"
        "with psycopg.connect(os.environ['DATABASE_URL']) as link: print(link.execute('select 6 * 7').fetchone()[0])\n"
        "with redis.Redis.from_url(os.environ['REDIS_URL']) as link: print(link.ping())\n"
        "print(os.environ['DATABASE_URL'])\n"
        "raise SystemExit(3)"
    )
    command = [sys.executable, "-m", "project.services", "run", "--", sys.executable, "-c", look]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    answer, pong, url = done.stdout.split()
    assert (answer, pong, done.returncode) == ("42", "True", 3)
    assert not answers(url)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


WAITS = "import os, sys; print(os.environ['DATABASE_URL'], flush=True); sys.stdin.read()"


def waiting(*command: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "project.services", "run", "--", *command]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.production
@pytest.mark.crash
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_both_are_gone_after_a_run_that_was_ended_or_killed(how: signal.Signals) -> None:
    with waiting(sys.executable, "-c", WAITS) as run:
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        assert answers(url)
        run.send_signal(how)
        run.communicate(timeout=60)
    if how is signal.SIGKILL:  # nobody is left who could stop them but the next run
        with waiting("true") as following:
            following.communicate(timeout=60)
    assert not answers(url)
    assert list(Path(tempfile.gettempdir()).glob(f"countersign-services-{run.pid}-*")) == []


def test_a_wrong_command_shows_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert services.main(["run"]) == 2
    assert "run -- CMD" in capsys.readouterr().err
