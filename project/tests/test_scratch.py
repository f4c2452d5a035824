"""What a run leaves behind is removed by it, or by the next one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from project import scratch


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_the_dead(place: Path) -> Path:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = place / f"countersign-kind-{dead.pid}-abc"
    left.mkdir()
    (left / "file").write_text("left")
    return left


def test_a_folder_is_gone_after_the_block_also_when_it_fails(place: Path) -> None:
    with pytest.raises(RuntimeError), scratch.folder("kind") as made:
        assert made.is_dir()
        raise RuntimeError
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_released_and_removed(place: Path) -> None:
    left, released = left_by_the_dead(place), list[Path]()
    with scratch.folder("kind", release=released.append) as made:
        assert list(place.iterdir()) == [made]
    assert released == [left]


def test_folders_of_the_living_of_other_kinds_and_without_an_owner_stay(place: Path) -> None:
    left_by_the_dead(place)
    with scratch.folder("kind") as living:
        others = [place / "countersign-other-1-abc", place / "countersign-kind-kept-abc"]
        for other in others:
            other.mkdir()
        scratch.sweep("kind")
        assert sorted(place.iterdir()) == sorted([living, *others])
