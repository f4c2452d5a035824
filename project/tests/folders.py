"""One folder for all that a test run writes, removed when it ends, and when it was killed, by the next run."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "countersign-test-"
VARIABLE = "TEST_FOLDER"  # tells the processes that a run starts which folder is theirs too


def folder_of_the_run() -> Path:
    """Return the folder of the run that this process belongs to; the first process of a run makes and removes it."""
    if VARIABLE not in os.environ:
        sweep(Path(tempfile.gettempdir()))
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        atexit.register(_remove, Path(os.environ[VARIABLE]), os.getpid())
    return Path(os.environ[VARIABLE])


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves the folder to its parent
        shutil.rmtree(folder, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove the folders of runs whose first process is gone."""
    for folder in place.glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not _lives(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
