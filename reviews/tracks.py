"""The branches of a thread as lines beside its list: for each row the strokes that pass it, drawn on the server.

Rows come newest first. A line runs down from a checkpoint to its parent; where two meet, a branch begins. Each row has
a drawing of its own that stretches to the height of the row, so a row may be any height.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

HEIGHT, MIDDLE, LEFT, APART = 44, 22, 14, 20  # units of a drawing; its width in CSS pixels
MOST = 6  # columns; further branches share the last one

Ink = Literal["", "ink"]


@dataclass(frozen=True)
class Knot:
    """A row to draw: which checkpoint, its parent, and whether a person began its branch."""

    id: str
    parent_id: str
    ink: Ink = ""


@dataclass(frozen=True)
class Stroke:
    path: str
    ink: Ink = ""


@dataclass(frozen=True)
class Track:
    """The drawing of one row. ``passing``: the lines that go on below it, for what folds out under the row."""

    x: int
    width: int
    strokes: tuple[Stroke, ...]
    passing: tuple[Stroke, ...] = ()


@dataclass
class _Lanes:
    """``waiting``: by column, the checkpoint a line comes down to; None where the column is free."""

    waiting: list[tuple[str, Ink] | None] = field(default_factory=list)

    def column_of(self, knot: Knot) -> int:
        """Return the column of a row: the first line that comes down to it, else a free one."""
        for at, lane in enumerate(self.waiting):
            if lane and lane[0] == knot.id:
                return at
        for at, lane in enumerate(self.waiting):
            if lane is None:
                return at
        self.waiting.append(None)
        return len(self.waiting) - 1


def tracks(knots: Sequence[Knot], *, above: Iterable[Knot] = ()) -> list[Track]:
    """Return the drawing of each row. ``above``: newer rows, whose lines come down to these or past them."""
    lanes = _Lanes()
    for knot in above:
        if not any(lane and lane[0] == knot.parent_id for lane in lanes.waiting):
            lanes.waiting.append((knot.parent_id, knot.ink))
    drawn = [_row(lanes, knot) for knot in knots]
    width = LEFT * 2 + APART * (min(max((columns for columns, *_ in drawn), default=1), MOST) - 1)
    return [Track(_x(at), width, strokes, passing) for _, at, strokes, passing in drawn]


def _row(lanes: _Lanes, knot: Knot) -> tuple[int, int, tuple[Stroke, ...], tuple[Stroke, ...]]:
    at = lanes.column_of(knot)
    strokes: list[Stroke] = []
    for column, lane in enumerate(lanes.waiting):
        if lane is None:
            continue
        if lane[0] == knot.id:
            strokes.append(Stroke(_into(column, at), lane[1]))
            lanes.waiting[column] = None
        else:
            strokes.append(Stroke(_down(column), lane[1]))
    if knot.parent_id:
        lanes.waiting[at] = (knot.parent_id, knot.ink)
        strokes.append(Stroke(f"M{_x(at)} {MIDDLE}V{HEIGHT}", knot.ink))
    columns = len(lanes.waiting)
    while lanes.waiting and lanes.waiting[-1] is None:
        lanes.waiting.pop()
    passing = tuple(Stroke(_down(column), lane[1]) for column, lane in enumerate(lanes.waiting) if lane)
    return columns, at, tuple(strokes), passing


def _x(column: int) -> int:
    return LEFT + APART * min(column, MOST - 1)


def _down(column: int) -> str:
    return f"M{_x(column)} 0V{HEIGHT}"


def _into(column: int, at: int) -> str:
    """Draw from the upper edge of a row to its dot."""
    if _x(column) == _x(at):
        return f"M{_x(at)} 0V{MIDDLE}"
    return f"M{_x(column)} 0C{_x(column)} {MIDDLE - 6} {_x(at)} 6 {_x(at)} {MIDDLE}"
