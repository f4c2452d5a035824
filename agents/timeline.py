"""The checkpoints of a thread, newest first, as rows to list: read a page at a time, without loading any value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min

from agents.branches import Branches, Fork, forks_from
from agents.marks import NODES
from agents.models import Checkpoint, CheckpointWrite
from agents.values import Point, UnknownCheckpoint, checked, order_of

_COLUMNS = (
    "pk", "checkpoint_id", "parent_id", "run_id", "metadata", "next_nodes", "messages", "outer_id", "left_id",
    "created_at",
)  # fmt: skip
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
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns=namespace)
    for test, cursor in (("pk__lt", before), ("pk__lte", at), ("pk__gt", after)):
        if cursor:
            order = order_of(checked(Point(thread_id, cursor, namespace)))
            rows = rows.filter(**{test: order}) if order is not None else rows.none()
    found, more = _window(rows, backwards=not after, limit=limit)
    if not found:
        return Page(())
    first, last = found[0], found[-1]
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns=namespace)
    newer = more if after else bool(before or at) and rows.filter(pk__gt=first["pk"]).exists()
    older = rows.filter(pk__lt=last["pk"]).exists() if after else more
    steps = _Reading(thread_id, namespace, found, has_head=not newer).steps()
    return Page(steps, older=last["checkpoint_id"] if older else "", newer=first["checkpoint_id"] if newer else "")


def _window(rows: Any, *, backwards: bool, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return a page's rows, newest first, and whether more follow in the direction of reading."""
    found = list(rows.order_by("-pk" if backwards else "pk").values(*_COLUMNS)[: limit + 1])
    kept = found[:limit]
    return kept if backwards else kept[::-1], len(found) > limit


def step_at(point: Point) -> Step:
    """Return one checkpoint as the timeline shows it. Raises UnknownCheckpoint."""
    page = timeline(point.thread_id, at=point.checkpoint_id, limit=1, namespace=point.namespace)
    if not page.steps or page.steps[0].point != point:
        raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint {point.checkpoint_id}.")
    return page.steps[0]


class _Reading:
    """One page's rows, and what a fixed number of queries tells about them."""

    def __init__(self, thread_id: str, namespace: str, rows: Sequence[dict[str, Any]], *, has_head: bool) -> None:
        self.thread_id, self.namespace, self.rows, self.has_head = thread_id, namespace, rows, has_head
        self.ids = [row["checkpoint_id"] for row in rows]
        self.known = {row["checkpoint_id"]: row for row in rows}
        self.known |= self._parents()
        self.marks = self._marks()
        self.nested = self._nested()
        self.branches = Branches.of(thread_id, namespace)
        self.forks = {} if namespace else forks_from(thread_id, self.ids)

    def _parents(self) -> dict[str, dict[str, Any]]:
        missing = {row["parent_id"] for row in self.rows} - {"", *self.known}
        rows = Checkpoint.objects.filter(thread_id=self.thread_id, ns=self.namespace, checkpoint_id__in=missing)
        return {row["checkpoint_id"]: {**row} for row in rows.values("checkpoint_id", "next_nodes", "created_at")}

    def _marks(self) -> Mapping[str, Mapping[str, set[str]]]:
        """Map checkpoint ids to what their tasks wrote: the channels, by task."""
        written: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        rows = CheckpointWrite.objects.filter(
            thread_id=self.thread_id, ns=self.namespace, checkpoint_id__in=self.ids
        ).values_list("checkpoint_id", "task_id", "channel")
        for checkpoint_id, task_id, channel in rows:
            written[checkpoint_id][task_id].add(channel if channel in _CONTROL else "output")
        return written

    def _nested(self) -> Mapping[str, list[Nested]]:
        rows = (
            Checkpoint.objects.filter(thread_id=self.thread_id, outer_id__in=self.ids)
            .exclude(outer_id="")  # said, because SQLite takes the partial index for nothing less
            .values("outer_id", "ns")
            .annotate(count=Count("pk"), first=Min("pk"), last=Max("pk"))
            .order_by("first")
        )
        namespaces = list(rows)
        edges = {one for row in namespaces for one in (row["first"], row["last"])}
        ids = dict(Checkpoint.objects.filter(pk__in=edges).values_list("pk", "checkpoint_id")) if edges else {}
        found: dict[str, list[Nested]] = defaultdict(list)
        prefix = f"{self.namespace}{NODES}" if self.namespace else ""
        for row in namespaces:
            if row["ns"].startswith(prefix):
                node = row["ns"].removeprefix(prefix).partition(":")[0]
                first, last = ids[row["first"]], ids[row["last"]]
                found[row["outer_id"]].append(Nested(row["ns"], node, row["count"], first, last))
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
            branch=self.branches.number_of(row["pk"]),
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
