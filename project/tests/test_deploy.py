"""Django's own deployment check, with the environment of a production desk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_deployment_check_finds_nothing(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATA_DIR": str(tmp_path),
        "DATABASE_URL": "postgres://db.example/desk",
        "REDIS_URL": "redis://cache.example/0",
        "SECRET_KEY": "q7w-" + "z1" * 30,
        "ALLOWED_HOSTS": "desk.example",
    }
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "no issues (0 silenced)" in done.stdout + done.stderr
