"""What an operator runs before a production desk goes live."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def manage(tmp_path: Path, *arguments: str) -> str:
    """Run ``manage.py`` with the environment of a production desk; returns what it says."""
    environment = {
        "PATH": os.environ["PATH"],
        "DATA_DIR": str(tmp_path),
        "STATIC_ROOT": str(tmp_path / "static"),
        "DATABASE_URL": "postgres://db.example/desk",
        "REDIS_URL": "redis://cache.example/0",
        "SECRET_KEY": "q7w-" + "z1" * 30,
        "ALLOWED_HOSTS": "desk.example",
    }
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
def test_the_deployment_check_finds_nothing(tmp_path: Path) -> None:
    said = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING")
    assert "no issues (0 silenced)" in said


@pytest.mark.long
def test_static_files_are_collected_under_names_of_their_content(tmp_path: Path) -> None:
    manage(tmp_path, "collectstatic", "--noinput")
    names = json.loads((tmp_path / "static" / "staticfiles.json").read_text())["paths"]
    assert names["css/app.css"] != "css/app.css"
    assert (tmp_path / "static" / names["css/app.css"]).exists()
    assert (tmp_path / "static" / f"{names['css/app.css']}.gz").exists()
