"""The checkpoints of a thread, newest first, as rows to list: read a page at a time, without loading any value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agents.branches import Branches, Fork, forks_from
from agents.compiled import Compiled
from agents.marks import NODES
from agents.models import Checkpoint
from agents.statements import moment, parsed, select
from agents.values import Point, UnknownCheckpoint, checked, order_of

_COLUMNS = (
    "id", "checkpoint_id", "parent_id", "run_id", "metadata", "next_nodes", "messages", "outer_id", "left_id",
    "created_at",
)  # fmt: skip
_IN = "from agents_checkpoint where thread_id = %s and ns = %s"
_PAGE = f"select {', '.join(_COLUMNS)} {_IN}"
_NEWER, _OLDER = (f"select 1 {_IN} and id {test} %s limit 1" for test in "><")
_PARENTS = f"select checkpoint_id, next_nodes, created_at {_IN} and checkpoint_id = any(%s)"
_WRITES = """
select checkpoint_id, task_id, channel from agents_checkpointwrite
where thread_id = %s and ns = %s and checkpoint_id = any(%s)
"""
_NESTED = """
select outer_id, ns, count(id), min(id), max(id) from agents_checkpoint
where thread_id = %s and not outer_id = '' and outer_id = any(%s) group by outer_id, ns order by min(id)
"""  # not "", said as the partial index says it: SQLite takes it for nothing else
_IDS = Compiled(lambda keys: Checkpoint.objects.filter(pk__any_of=keys).values_list("pk", "checkpoint_id"))
_CONTROL = ("__interrupt__", "__resume__", "__error__", "__error_source_node__")


@dataclass(frozen=True)
class Nested:
    """The checkpoints of a subgraph that ran in the next step of a checkpoint: they fold out under it."""

    namespace: str
    node: str  # of the graph around it
    count: int
    first: str  # checkpoint ids
    last: str


@dataclass(frozen=True)
class Step:
    """One checkpoint in a timeline.

    ``nodes``: what ran to make it, or as what an update was written (none for an input or a fork); ``elapsed``: since
    its parent; ``messages``: None where they are kept as writes; ``asked``, ``answered``: questions that were raised
    here, in its next step; ``failed``: a task of that step raised; ``left``: the head that it turned away from, where
    a branch begins.
    """

    point: Point
    parent_id: str
    run_id: str
    step: int | None
    source: str
    nodes: tuple[str, ...]
    next: tuple[str, ...]
    at: datetime
    elapsed: timedelta | None
    messages: int | None
    branch: int
    left: str = ""
    asked: int = 0
    answered: int = 0
    failed: bool = False
    is_head: bool = False
    nested: tuple[Nested, ...] = ()
    forks: tuple[Fork, ...] = ()


@dataclass(frozen=True)
class Page:
    """Steps, newest first. ``older`` and ``newer`` go into ``before`` and ``after`` for the next pages; "": no more."""

    steps: tuple[Step, ...]
    older: str = ""
    newer: str = ""


def timeline(
    thread_id: str, *, before: str = "", limit: int = 50, namespace: str = "", after: str = "", at: str = ""
) -> Page:
    """Return up to ``limit`` checkpoints of one namespace, newest first.

    ``before``, ``after``: the nearest that are older, or newer, than this checkpoint id. ``at``: from this one on.
    Raises UnknownCheckpoint for an id that cannot be one; () for a thread without checkpoints, and beyond an id that
    is not among them.
    """
    key, sql, cursors = [thread_id, namespace], _PAGE, list[int]()
    for test, cursor in (("<", before), ("<=", at), (">", after)):
        if cursor:
            order = order_of(checked(Point(thread_id, cursor, namespace)))
            if order is None:
                return Page(())
            sql, cursors = f"{sql} and id {test} %s", [*cursors, order]
    found, beyond = _window(sql, [*key, *cursors], backwards=not after, limit=limit)
    if not found:
        return Page(())
    first, last, more = found[0], found[-1], bool(beyond)
    newer = more if after else bool(before or at) and bool(select(_NEWER, [*key, first["id"]]))
    older = bool(select(_OLDER, [*key, last["id"]])) if after else more
    steps = _Reading(thread_id, namespace, found, beyond, has_head=not newer).steps()
    return Page(steps, older=last["checkpoint_id"] if older else "", newer=first["checkpoint_id"] if newer else "")


_Row = dict[str, Any]


def _window(sql: str, params: Sequence[Any], *, backwards: bool, limit: int) -> tuple[list[_Row], list[_Row]]:
    """Return a page's rows, newest first, and the one that follows in the direction of reading."""
    rows = select(f"{sql} order by id {'desc' if backwards else 'asc'} limit {limit + 1:d}", params)
    found = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    for row in found:
        row |= {"metadata": parsed(row["metadata"]), "created_at": moment(row["created_at"])}
    kept = found[:limit]
    return kept if backwards else kept[::-1], found[limit:]


def step_at(point: Point) -> Step:
    """Return one checkpoint as the timeline shows it. Raises UnknownCheckpoint."""
    page = timeline(point.thread_id, at=point.checkpoint_id, limit=1, namespace=point.namespace)
    if not page.steps or page.steps[0].point != point:
        raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint {point.checkpoint_id}.")
    return page.steps[0]


class _Reading:
    """One page's rows, and what a fixed number of queries tells about them."""

    def __init__(
        self, thread_id: str, namespace: str, rows: Sequence[_Row], beyond: Sequence[_Row], *, has_head: bool
    ) -> None:
        self.thread_id, self.namespace, self.rows, self.has_head = thread_id, namespace, rows, has_head
        self.ids = [row["checkpoint_id"] for row in rows]
        self.known = {row["checkpoint_id"]: row for row in (*rows, *beyond)}
        self.known |= self._parents()
        self.marks = self._marks()
        self.nested = self._nested()
        self.branches = Branches.of(thread_id, namespace)
        self.forks = {} if namespace else forks_from(thread_id, self.ids)

    def _parents(self) -> dict[str, dict[str, Any]]:
        missing = {row["parent_id"] for row in self.rows} - {"", *self.known}
        if not missing:
            return {}
        rows = select(_PARENTS, [self.thread_id, self.namespace, list(missing)])
        return {one: {"next_nodes": next_nodes, "created_at": moment(at)} for one, next_nodes, at in rows}

    def _marks(self) -> Mapping[str, Mapping[str, set[str]]]:
        """Map checkpoint ids to what their tasks wrote: the channels, by task."""
        written: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for checkpoint_id, task_id, channel in select(_WRITES, [self.thread_id, self.namespace, self.ids]):
            written[checkpoint_id][task_id].add(channel if channel in _CONTROL else "output")
        return written

    def _nested(self) -> Mapping[str, list[Nested]]:
        namespaces = select(_NESTED, [self.thread_id, self.ids])
        edges = {one for *_, first, last in namespaces for one in (first, last)}
        ids = dict(_IDS(list(edges))) if edges else {}
        found: dict[str, list[Nested]] = defaultdict(list)
        prefix = f"{self.namespace}{NODES}" if self.namespace else ""
        for outer_id, namespace, count, first, last in namespaces:
            if namespace.startswith(prefix):
                node = namespace.removeprefix(prefix).partition(":")[0]
                found[outer_id].append(Nested(namespace, node, count, ids[first], ids[last]))
        return found

    def steps(self) -> tuple[Step, ...]:
        head = self.ids[0] if self.has_head else ""
        return tuple(self._step(row, is_head=row["checkpoint_id"] == head) for row in self.rows)

    def _step(self, row: dict[str, Any], *, is_head: bool) -> Step:
        parent = self.known.get(row["parent_id"])
        tasks = self.marks.get(row["checkpoint_id"], {}).values()
        asked = [task for task in tasks if "__interrupt__" in task]
        source = str(row["metadata"].get("source", ""))
        return Step(
            point=Point(self.thread_id, row["checkpoint_id"], self.namespace),
            parent_id=row["parent_id"],
            run_id=row["run_id"],
            step=row["metadata"].get("step"),
            source=source,
            nodes=_ran(row, parent),
            next=_names(row),
            at=row["created_at"],
            elapsed=row["created_at"] - parent["created_at"] if parent else None,
            messages=row["messages"],
            branch=self.branches.number_of(row["id"]),
            left=row["left_id"],
            asked=len(asked),
            answered=sum("output" in task for task in asked),
            failed=any("__error__" in task and "output" not in task for task in tasks),
            is_head=is_head,
            nested=tuple(self.nested.get(row["checkpoint_id"], ())),
            forks=tuple(self.forks.get(row["checkpoint_id"], ())),
        )


def _ran(row: Mapping[str, Any], parent: Mapping[str, Any] | None) -> tuple[str, ...]:
    match row["metadata"].get("source"):
        case "loop" if parent:
            return tuple(dict.fromkeys(_names(parent)))
        case "update" if node := row["metadata"].get("as_node"):
            return (str(node),)
    return ()


def _names(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row["next_nodes"].split(NODES)) if row["next_nodes"] else ()
