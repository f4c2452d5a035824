"""What a benchmark prints: one JSON object a line, and the shapes of a desk that it measures."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from project.benchmarks.desk import AT_WORK
from reviews.tests.browser import desks
from reviews.tests.browser.desks import Desk

MODULE = "project.benchmarks.desk"


def report(
    bench: str, case: str, *, unit: str, ours: float | None, peer: float | None = None, limit: str = "", note: str = ""
) -> None:
    """Print one line. ``limit``: what ours has to be, as ``<= 60`` or ``= 100``; ``note``: why a figure is missing."""
    line = {
        "bench": bench,
        "case": case,
        "unit": unit,
        "ours": _rounded(ours),
        "peer": _rounded(peer),
        "ratio": _rounded(ours / peer) if ours is not None and peer else None,
        "target": limit or None,
        "ok": _holds(ours, limit) if limit and ours is not None else None,
    }
    print(json.dumps(line | ({"note": note} if note else {})), flush=True)


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 3)


def _holds(ours: float, limit: str) -> bool:
    how, _, figure = limit.partition(" ")
    return ours <= float(figure) if how == "<=" else ours == float(figure)


def p95(figures: Sequence[float]) -> float:
    """Return the figure that 95 of 100 do not pass."""
    return sorted(figures)[max(0, math.ceil(len(figures) * 0.95) - 1)]


@contextmanager
def shape(name: str) -> Iterator[Desk]:
    """A desk in one of its shapes, ``embedded`` or ``production``, with its staff."""
    with tempfile.TemporaryDirectory(prefix="countersign-bench-") as folder:
        data = Path(folder) / "data"
        quiet = {"POLL_SECONDS": "5", "LOG_LEVEL": "ERROR", "LEASE_SECONDS": "60"}
        made = (
            desks.embedded(data, MODULE, **quiet)
            if name == "embedded"
            else desks.production(data, MODULE, concurrency=AT_WORK, **quiet)
        )
        with made as desk:
            desk.run("reviews.tests.browser.staff")
            yield desk
