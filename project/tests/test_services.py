"""A developer starts PostgreSQL and Redis for a test run, and finds nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    port = int(url.rsplit(":", 1)[1].split("/")[0])
    gone = services.Server("redis", "/", port, "", [])
    assert not services._redis_answers(gone)


def test_a_wrong_command_shows_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert services.main(["run"]) == 2
    assert "run -- CMD" in capsys.readouterr().err
