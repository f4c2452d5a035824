"""The settings of a test run: the product's own, with a key, without TLS, and on a database of the run's own.

SQLite tests run on a file in WAL mode, as the embedded desk does: one in memory knows neither locks nor threads.
Processes of pytest-xdist run side by side: each has a folder, a database and a place in Redis of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path

from project import scratch


def _folder_of_the_run() -> Path:
    """Return the folder of the run that this process belongs to; the first process of a run makes and removes it."""
    if "TEST_FOLDER" not in os.environ:
        made = scratch.make("test")
        os.environ["TEST_FOLDER"] = str(made)
        atexit.register(_remove, made, os.getpid())
    return Path(os.environ["TEST_FOLDER"])


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves the folder to its parent
        shutil.rmtree(made, ignore_errors=True)


# Of pytest-xdist, and inherited by the processes that a test starts: those belong to its worker. Empty without xdist.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
_folder = _folder_of_the_run() / (_worker or "main")
_folder.mkdir(exist_ok=True)
_suffix = os.environ.get("TEST_DB_SUFFIX", "")

# Written to the environment, so that the processes a test starts have the same ones.
if os.environ.get("TEST_WORKER") != _worker:  # in a worker, these are of the process that started it
    os.environ |= {"TEST_WORKER": _worker, "DATA_DIR": str(_folder)}
    os.environ["REDIS_PREFIX"] = f"countersign-test{_suffix}{_worker}"
os.environ.setdefault("SECRET_KEY", "only-for-test-runs-" + "x" * 40)
os.environ.setdefault("HTTPS", "false")
os.environ.setdefault("COLLECT_STATIC", "false")

from project.settings import *
from project.settings import DATABASES

_database = DATABASES["default"]
_on_sqlite = _database["ENGINE"].endswith("sqlite3")
# pytest-django appends the worker's name.
_database["TEST"] = {"NAME": str(_folder / "test.sqlite3") if _on_sqlite else f"test_countersign{_suffix}"}
if _on_sqlite:
    _database["CONN_MAX_AGE"] = 0  # tests fork, and whatever thread's connection were open would break the child's
    # Nobody pulls the plug of a test.
    _database["OPTIONS"]["init_command"] += "PRAGMA synchronous=OFF;"
# The real one takes 0.3 s for each person of the cast.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
