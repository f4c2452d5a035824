"""The settings of a test run: the product's own, with a key, without TLS, and on a database of the run's own.

SQLite tests run on a file in WAL mode, as the embedded desk does: one in memory knows neither locks nor threads.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_folder = tempfile.mkdtemp(prefix="countersign-test-")
_owner = os.getpid()


def _clean_up() -> None:
    if os.getpid() == _owner:  # a forked child that ends leaves the folder to its parent
        shutil.rmtree(_folder, ignore_errors=True)


atexit.register(_clean_up)

# Written to the environment, so that the processes a test starts have the same ones.
os.environ.setdefault("DATA_DIR", _folder)
os.environ.setdefault("SECRET_KEY", "only-for-test-runs-" + "x" * 40)
os.environ.setdefault("HTTPS", "false")
os.environ.setdefault("COLLECT_STATIC", "false")
os.environ.setdefault("REDIS_PREFIX", "countersign-test" + os.environ.get("TEST_DB_SUFFIX", ""))

from project.settings import *
from project.settings import DATABASES

_suffix = os.environ.get("TEST_DB_SUFFIX", "")


def _test_name() -> str:
    if not DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        return f"test_countersign{_suffix}"
    return str(Path(_folder) / "test.sqlite3")


DATABASES["default"]["TEST"] = {"NAME": _test_name()}
# The real one takes 0.3 s for each person of the cast.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
