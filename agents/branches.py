"""The branches of a thread, and how its checkpoints descend from each other, across forks too.

A thread has one runner and its head is the checkpoint written last, so a checkpoint's parent is the one before it, but
where somebody went back: there a branch begins, and the saver noted which head was left. So a branch is a run of
neighbours in the order of writing, and the way from a checkpoint to its first ancestor is a few stretches of such runs,
however long the thread is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.models import Checkpoint
from agents.statements import moment, parsed, select
from agents.values import Point, UnknownCheckpoint, checked, order_of


@dataclass(frozen=True)
class Fork:
    """A thread that starts from a checkpoint of another."""

    thread_id: str
    name: str
    author: str
    note: str
    checkpoint_id: str  # of the other thread
    at: datetime


@dataclass(frozen=True)
class Branch:
    """A run of checkpoints that follow each other. ``number``: 0 is the oldest; ``parent_id``: "" for that one.

    ``continues``: nothing else follows its parent, so it is drawn on in the parent's lane.
    """

    number: int
    first: str
    last: str
    parent_id: str
    parent: int | None  # number of the branch that its parent is in
    first_step: int | None
    last_step: int | None
    began_at: datetime
    ended_at: datetime
    is_head: bool
    continues: bool
    forks: tuple[Fork, ...] = ()


@dataclass(frozen=True)
class Tree:
    """Branches, newest first. ``older`` goes into ``before`` for the next page; None: no more."""

    branches: tuple[Branch, ...]
    older: int | None = None
    origin: Fork | None = None  # where the thread itself was forked from: `thread_id` is the other thread


@dataclass(frozen=True)
class _Start:
    first: str
    parent_id: str
    left: str
    order: int  # of the first one, in the order of writing
    parent_order: int | None  # None: the parent is gone


_STARTS = """
select c.checkpoint_id, c.parent_id, c.left_id, c.id, (
    select p.id from agents_checkpoint p
    where p.thread_id = c.thread_id and p.ns = c.ns and p.checkpoint_id = c.parent_id
)
from agents_checkpoint c where c.thread_id = %s and c.ns = %s and not c.left_id = '' order by c.id
"""  # said as the partial index says it: SQLite takes it for nothing else


@dataclass(frozen=True)
class Branches:
    """Where the branches of a namespace begin, oldest first. The trunk is not among them."""

    starts: Sequence[_Start]

    @classmethod
    def of(cls, thread_id: str, namespace: str = "") -> Branches:
        return cls([_Start(*row) for row in select(_STARTS, [thread_id, namespace])])

    def number_of(self, order: int) -> int:
        """Return which branch a checkpoint is in, by its place in the order of writing."""
        return bisect_right(self.starts, order, key=lambda start: start.order)

    def start_of(self, number: int) -> _Start | None:
        return self.starts[number - 1] if number else None


# ----------------------------------------------------------------------------------------------------------------- tree


def tree(thread_id: str, *, before: int | None = None, limit: int = 50) -> Tree:
    """Return the branches of a thread, newest first, with the threads that were forked from them."""
    found = Branches.of(thread_id)
    numbers = [number for number in range(len(found.starts), -1, -1) if before is None or number < before][:limit]
    edges = _edges(thread_id)
    if edges is None:
        return Tree((), origin=origin_of(thread_id))
    spans = {number: _span(found, number, edges) for number in numbers}
    rows = _rows(thread_id, {one for span in spans.values() for one in span})
    forks = _forks_by_branch(thread_id, found)
    branches = tuple(_branch(found, number, spans[number], rows, forks) for number in numbers)
    older = numbers[-1] if numbers and numbers[-1] > 0 else None
    return Tree(branches, older=older, origin=origin_of(thread_id))


_EDGES = """
select * from (
    select checkpoint_id from agents_checkpoint where thread_id = %s and ns = '' order by id limit 1
) as a
union all
select * from (
    select checkpoint_id from agents_checkpoint where thread_id = %s and ns = '' order by id desc limit 1
) as b
"""


def _edges(thread_id: str) -> tuple[str, str] | None:
    found = select(_EDGES, [thread_id, thread_id])
    return (found[0][0], found[1][0]) if found else None


def _span(found: Branches, number: int, edges: tuple[str, str]) -> tuple[str, str]:
    """Return the first and last checkpoint of a branch: it ended when the next one turned away from it."""
    start = found.start_of(number)
    last = edges[1] if number == len(found.starts) else found.starts[number].left
    return (start.first if start else edges[0]), last


def _rows(thread_id: str, ids: set[str]) -> Mapping[str, dict[str, Any]]:
    sql = (
        "select checkpoint_id, metadata, created_at from agents_checkpoint "
        "where thread_id = %s and ns = '' and checkpoint_id = any(%s)"
    )
    return {
        checkpoint_id: {"metadata": parsed(metadata), "created_at": moment(at)}
        for checkpoint_id, metadata, at in select(sql, [thread_id, list(ids)])
    }


def _branch(
    found: Branches,
    number: int,
    span: tuple[str, str],
    rows: Mapping[str, dict[str, Any]],
    forks: Mapping[int, list[Fork]],
) -> Branch:
    start = found.start_of(number)
    first, last = (rows.get(one) for one in span)
    parent = found.number_of(start.parent_order) if start and start.parent_order is not None else None
    tip = None if parent is None or parent == len(found.starts) else found.starts[parent].left
    earlier = any(one.parent_id == start.parent_id for one in found.starts[: number - 1]) if start else False
    # A row may have been pruned away; its neighbour still tells the time.
    known = [row for row in (first, last) if row] or [{"metadata": {}, "created_at": None}]
    return Branch(
        number=number,
        first=span[0],
        last=span[1],
        parent_id=start.parent_id if start else "",
        parent=parent,
        first_step=known[0]["metadata"].get("step"),
        last_step=known[-1]["metadata"].get("step"),
        began_at=known[0]["created_at"],
        ended_at=known[-1]["created_at"],
        is_head=number == len(found.starts),
        continues=bool(start and tip == start.parent_id and not earlier),
        forks=tuple(forks.get(number, ())),
    )


_FORKED = "select $thread, title, author, note, ancestor_checkpoint, created_at from agents_thread where "
_FORKS = _FORKED.replace("$thread", "id") + "ancestor_id = %s"
_ORIGIN = _FORKED.replace("$thread", "ancestor_id") + "id = %s and ancestor_id is not null"


def _forks_by_branch(thread_id: str, found: Branches) -> Mapping[int, list[Fork]]:
    forks = [_fork(row) for row in select(f"{_FORKS} order by created_at, id", [thread_id])]
    if not forks:
        return {}
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="", checkpoint_id__in={one.checkpoint_id for one in forks})
    orders = dict(rows.values_list("checkpoint_id", "pk"))
    by_branch: dict[int, list[Fork]] = defaultdict(list)
    for fork in forks:
        by_branch[found.number_of(orders.get(fork.checkpoint_id, 0))].append(fork)
    return by_branch


def forks_from(thread_id: str, checkpoint_ids: Sequence[str]) -> Mapping[str, list[Fork]]:
    """Map checkpoints to the threads that were forked from them."""
    found: dict[str, list[Fork]] = defaultdict(list)
    sql = f"{_FORKS} and ancestor_checkpoint = any(%s) order by created_at, id"
    for fork in map(_fork, select(sql, [thread_id, list(checkpoint_ids)])):
        found[fork.checkpoint_id].append(fork)
    return found


def _fork(row: Iterable[Any]) -> Fork:
    thread_id, name, author, note, checkpoint_id, at = row
    return Fork(thread_id, name, author, note, checkpoint_id, moment(at))


def origin_of(thread_id: str) -> Fork | None:
    """Return where a thread was forked from: `thread_id` names the other thread, the rest tells of this fork."""
    return next(map(_fork, select(_ORIGIN, [thread_id])), None)


# -------------------------------------------------------------------------------------------------------------- descent


@dataclass(frozen=True)
class Stretch:
    """Neighbours on the way from a checkpoint back to its first ancestor: from ``last`` down to ``first``.

    Both are places in the order of writing; ``first`` is 0 in a thread's oldest branch: as far back as it goes.
    """

    thread_id: str
    first: int
    last: int
    branch: int
    tip: str  # checkpoint id of the last one

    def holds(self, thread_id: str, order: int) -> bool:
        return thread_id == self.thread_id and self.first <= order <= self.last

    def checkpoint_ids(self, *, since: int | None = None, with_last: bool = True) -> Any:
        """Return a query for the ids of its checkpoints, those of subgraphs among them; without its last, if asked."""
        rows = Checkpoint.objects.filter(thread_id=self.thread_id, pk__gte=self.first if since is None else since)
        return rows.filter(**{"pk__lte" if with_last else "pk__lt": self.last}).values("checkpoint_id")


def descent(point: Point) -> Iterator[Stretch]:
    """Yield the stretches from a checkpoint back to its first ancestor, nearest first, through the threads it was
    forked from. Only the threads' own graphs have branches. Raises UnknownCheckpoint.
    """
    checked(point)
    thread_id, checkpoint_id = point.thread_id, point.checkpoint_id
    seen: set[str] = set()
    while thread_id not in seen:
        seen.add(thread_id)
        yield from _within(Branches.of(thread_id), Point(thread_id, checkpoint_id))
        origin = origin_of(thread_id)
        if origin is None or not origin.checkpoint_id:
            return
        thread_id, checkpoint_id = origin.thread_id, origin.checkpoint_id


def _within(found: Branches, point: Point) -> Iterator[Stretch]:
    order, tip = order_of(point), point.checkpoint_id
    while order is not None:
        number = found.number_of(order)
        start = found.start_of(number)
        yield Stretch(point.thread_id, start.order if start else 0, order, number, tip)
        # Older than its child, always: a damaged row must not send us round in circles.
        if start is None or start.parent_order is None or start.parent_order >= start.order:
            return
        order, tip = start.parent_order, start.parent_id


def common_ancestor(a: Point, b: Point) -> Point | None:
    """Return the last checkpoint that both come from (one of them, if the other comes from it), or None."""
    theirs = list(descent(b))
    for mine in descent(a):
        for other in theirs:
            if (mine.thread_id, mine.branch) == (other.thread_id, other.branch):
                return Point(mine.thread_id, (mine if mine.last <= other.last else other).tip)
    return None


def is_ancestor(older: Point, newer: Point) -> bool:
    """Tell whether ``newer`` comes from ``older``, or is it."""
    order = order_of(older)
    return order is not None and any(one.holds(older.thread_id, order) for one in descent(newer))


def newest_descendant(point: Point) -> str:
    """Return the newest checkpoint of the same thread that comes from ``point``; itself, if nothing does."""
    found = Branches.of(point.thread_id)
    edges = _edges(point.thread_id)
    if edges is None:
        raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint yet.")
    order = order_of(point) or 0
    for number in range(len(found.starts), -1, -1):
        tip = _span(found, number, edges)[1]
        if any(one.holds(point.thread_id, order) for one in _within(found, Point(point.thread_id, tip))):
            return tip
    return point.checkpoint_id
