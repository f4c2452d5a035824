"""Folders for a while, removed when their process ends, and when it was killed, by the next that makes such a folder.

Only tests and tools write to them; a desk keeps all it has in its data folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Release = Callable[[Path], None]


@contextmanager
def folder(kind: str, *, release: Release | None = None) -> Iterator[Path]:
    """A folder for as long as the block lasts. ``release``: see sweep()."""
    made = make(kind, release=release)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def make(kind: str, *, release: Release | None = None) -> Path:
    """Make a folder that bears the id of this process, which has to remove it."""
    sweep(kind, release=release)
    return Path(tempfile.mkdtemp(prefix=f"{_prefix(kind)}{os.getpid()}-"))


def sweep(kind: str, *, release: Release | None = None) -> None:
    """Remove folders whose processes are gone. ``release`` is called before, to stop what still writes into one."""
    for left in Path(tempfile.gettempdir()).glob(f"{_prefix(kind)}*-*"):
        owner = left.name.removeprefix(_prefix(kind)).split("-")[0]
        if owner.isdigit() and not _lives(int(owner)):
            if release is not None:
                release(left)
            shutil.rmtree(left, ignore_errors=True)


def _prefix(kind: str) -> str:
    return f"countersign-{kind}-"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
