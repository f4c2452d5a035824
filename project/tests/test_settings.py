"""An operator starts the desk with one environment or another, each time in a process of its own."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from project.logs import JsonFormatter
from project.secret import checked_key, local_key

KEY = "k9" * 25
READ = """
import json, os
from django.conf import settings as s
print(json.dumps({
    "database": s.DATABASES["default"], "layer": s.CHANNEL_LAYERS["default"], "broker": s.CELERY_BROKER_URL,
    "embedded": s.EMBEDDED, "https": s.HTTPS, "key": s.SECRET_KEY, "debug": s.DEBUG, "hosts": s.ALLOWED_HOSTS,
    "lease": s.LEASE_SECONDS, "model": s.AGENT_MODEL, "reasons": s.REASON_NEEDED_FOR,
    "csp": s.CONTENT_SECURITY_POLICY["DIRECTIVES"], "strict": os.environ["LANGGRAPH_STRICT_MSGPACK"],
}, default=str))
"""


def start(code: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` with the product's settings and only this environment."""
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd(), "DJANGO_SETTINGS_MODULE": "project.settings"}
    base["DATA_DIR"] = str(tmp_path / "data")
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=base | environment, capture_output=True, text=True, check=False, timeout=60)


def read(tmp_path: Path, **environment: str) -> dict[str, Any]:
    done = start(READ, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_tools_whose_rejection_needs_a_reason_are_named(tmp_path: Path) -> None:
    assert read(tmp_path, REASON_NEEDED_FOR="issue_refund,send_email")["reasons"] == ["issue_refund", "send_email"]


def test_without_any_variable_it_is_the_desk_on_one_machine(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found["embedded"]
    assert not found["debug"]
    assert not found["https"]
    assert found["database"]["NAME"] == str(tmp_path / "data" / "countersign.sqlite3")
    assert found["database"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert found["broker"] == "embedded://localhost/"
    assert found["layer"]["BACKEND"] == "project.channel_layer.ThreadSafeInMemoryLayer"
    assert found["lease"] == 30
    assert found["model"] == "scripted"
    assert found["reasons"] == []
    assert found["hosts"] == ["localhost", "127.0.0.1", "[::1]"]
    assert "unsafe" not in str(found["csp"])
    assert found["strict"] == "true"  # a checkpoint that names a class constructs nothing


def test_two_variables_make_it_a_production_desk(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        DATABASE_URL="postgres://desk:word@db.example:5433/desk",
        REDIS_URL="redis://cache.example:6379/1",
        SECRET_KEY=KEY,
        LEASE_SECONDS="2",
    )
    assert not found["embedded"]
    assert found["https"]
    assert found["database"]["HOST"] == "db.example"
    assert found["database"]["OPTIONS"]["pool"]["max_size"] == 12
    assert found["database"]["CONN_MAX_AGE"] == 0
    assert found["layer"]["CONFIG"]["hosts"][0]["socket_timeout"] is None
    assert found["broker"] == "redis://cache.example:6379/1"
    assert found["lease"] == 2
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("key", ["", "short", "django-insecure-" + KEY, "Change-me-" + KEY])
def test_a_key_that_others_know_or_guess_is_refused(key: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        checked_key(key, debug=False)


def test_production_does_not_start_without_a_key_of_its_own(tmp_path: Path) -> None:
    done = start(READ, tmp_path, DATABASE_URL="postgres://db.example/desk", REDIS_URL="redis://cache.example")
    assert done.returncode != 0
    assert "ImproperlyConfigured: SECRET_KEY" in done.stderr


def test_a_sample_key_will_do_for_debugging() -> None:
    assert checked_key("sample", debug=True) == "sample"
    with pytest.raises(ImproperlyConfigured, match="not set"):
        checked_key("", debug=True)


def test_the_first_start_makes_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret_key"
    key = local_key(path)
    assert len(key) >= 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert local_key(path) == key
    assert local_key(tmp_path / "other" / "secret_key") != key


def test_a_log_line_is_one_json_object() -> None:
    import logging

    try:
        raise ValueError("no\nway")
    except ValueError as error:
        record = logging.LogRecord("desk", logging.ERROR, __file__, 1, "lost %s", ("run-1",), (ValueError, error, None))
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("ERROR", "desk", "lost run-1")
    assert "ValueError" in entry["traceback"]
