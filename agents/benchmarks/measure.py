"""Two things measured side by side, and one line of JSON for each comparison."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

Action = Callable[[int], object]  # gets the number of the round


@dataclass(frozen=True)
class Target:
    """What the ratio ours / peer has to be at most, or at least."""

    limit: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:.4g}"

    def holds(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


@dataclass(frozen=True)
class Pair:
    """Seconds of each, medians of all rounds; ``ratio`` is the median of the rounds' own ratios, ours / peer."""

    ours: float
    peer: float
    ratio: float


def race(ours: Action, peer: Action, *, rounds: int, warm: int = 2) -> Pair:
    """Time both in turns, each first in every other round: what else the machine does hits both alike."""
    times: list[tuple[float, float]] = []
    gc.collect()
    gc.freeze()  # imported modules are not walked through in the middle of somebody's round
    for number in range(warm + rounds):
        if number % 2:
            theirs, own = _timed(peer, number), _timed(ours, number)
        else:
            own, theirs = _timed(ours, number), _timed(peer, number)
        if number >= warm:
            times.append((own, theirs))
    gc.unfreeze()
    return Pair(
        median(own for own, _ in times),
        median(theirs for _, theirs in times),
        median(own / theirs for own, theirs in times),
    )


def _timed(action: Action, number: int) -> float:
    start = time.perf_counter()
    action(number)
    return time.perf_counter() - start


def report(
    bench: str, case: str, *, unit: str, ours: float, peer: float, ratio: float | None = None, target: Target | None
) -> None:
    """Print one line. ``ratio`` is ours / peer unless a better one is known; ``ok`` is null without a target."""
    found = ours / peer if ratio is None else ratio
    line = {
        "bench": bench,
        "case": case,
        "unit": unit,
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "ratio": round(found, 4),
        "target": str(target) if target else None,
        "ok": target.holds(found) if target else None,
    }
    print(json.dumps(line), flush=True)


def report_limit(bench: str, case: str, *, ms: float, limit: float | None) -> None:
    """Print a figure that nothing stands beside; ``limit``: what it has to be at most."""
    line = {"bench": bench, "case": case, "unit": "ms", "ours": round(ms, 3), "peer": None, "ratio": None}
    target = None if limit is None else f"<= {limit:g} ms"
    print(json.dumps({**line, "target": target, "ok": None if limit is None else ms <= limit}), flush=True)


def report_time(bench: str, case: str, pair: Pair, target: Target | None) -> None:
    report(
        bench, case, unit="ms", ours=pair.ours * 1e3, peer=pair.peer * 1e3, ratio=pair.ratio, target=target
    )  # fmt: skip


def report_rate(bench: str, case: str, pair: Pair, target: Target | None) -> None:
    """As puts a second: the ratio is turned round with the figures."""
    report(
        bench, case, unit="puts/s", ours=1 / pair.ours, peer=1 / pair.peer, ratio=1 / pair.ratio, target=target
    )  # fmt: skip
