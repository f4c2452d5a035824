"""The record of what was done from a checkpoint on: the way the thread went, and what each step of it left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.branches import Branches
from agents.marks import NODES
from agents.models import Checkpoint, CheckpointWrite, ToolExecution
from agents.states import node_of
from agents.values import Point, order_of, original_of

MAX_STEPS = 500  # of one way; a turn of an agent has some ten

ASKED, ANSWERED, FAILED = "__interrupt__", "__resume__", "__error__"
_CONTROL = frozenset((ASKED, ANSWERED, FAILED, "__error_source_node__"))
_NO_ROWS: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Row:
    """One checkpoint of a way."""

    id: str
    parent_id: str
    source: str
    next: tuple[str, ...]


def recorded(point: Point) -> Point:
    """Return where the record of what follows lies: for a copy on which nothing happened yet, at the original."""
    while not _has_record(point):
        original = original_of(point)
        if original is None:
            return point
        point = original
    return point


def _has_record(point: Point) -> bool:
    mine = {"thread_id": point.thread_id, "ns": point.namespace}
    if CheckpointWrite.objects.filter(**mine, checkpoint_id=point.checkpoint_id).exists():
        return True
    following = Checkpoint.objects.filter(**mine, pk__gt=order_of(point) or 0).order_by("pk")
    # Children that are no branch come right after their parent, and branches are few.
    return (
        following.values_list("parent_id", flat=True).first() == point.checkpoint_id
        or following.exclude(left_id="").filter(parent_id=point.checkpoint_id).exists()
    )


# ------------------------------------------------------------------------------------------------------------------ way


def way_from(start: Point) -> list[Row]:
    """Return the checkpoints from ``start`` on: each time the newest child that took the step, or is a copy.

    A new input and an update do not come again by themselves: there the way ends. Of copies only the last is kept.
    """
    copies = {one.parent_id: one.first for one in Branches.of(start.thread_id).starts}  # the newest of each
    rows = _from(start.thread_id, start.checkpoint_id)
    way: list[Row] = []
    row = next(rows, None)
    while row is not None and len(way) <= MAX_STEPS:
        if way and row.source == "fork":
            way.pop()
        way.append(row)
        copy = _row(start.thread_id, copies[row.id]) if row.id in copies else None
        if copy is not None and copy.source == "fork":
            rows = _from(start.thread_id, copy.id)
        row = _following(row, next(rows, None))
    return way


def _following(row: Row, candidate: Row | None) -> Row | None:
    follows = candidate is not None and candidate.parent_id == row.id and candidate.source in ("loop", "fork")
    return candidate if follows else None


_FIELDS = ("checkpoint_id", "parent_id", "metadata", "next_nodes")


def _from(thread_id: str, checkpoint_id: str) -> Iterator[Row]:
    order = order_of(Point(thread_id, checkpoint_id))
    if order is None:
        return iter(())
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="", pk__gte=order)
    return map(_as_row, rows.order_by("pk").values(*_FIELDS)[: MAX_STEPS + 1])


def _row(thread_id: str, checkpoint_id: str) -> Row | None:
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="", checkpoint_id=checkpoint_id)
    return next(map(_as_row, rows.values(*_FIELDS)), None)


def _as_row(row: Mapping[str, Any]) -> Row:
    names = tuple(row["next_nodes"].split(NODES)) if row["next_nodes"] else ()
    return Row(row["checkpoint_id"], row["parent_id"], str(row["metadata"].get("source", "")), names)


# --------------------------------------------------------------------------------------------------------------- record


@dataclass(frozen=True)
class Task:
    id: str
    node: str
    channels: frozenset[str]

    @property
    def failed(self) -> bool:
        return FAILED in self.channels

    @property
    def finished(self) -> bool:
        return not self.channels <= _CONTROL


Ways = Mapping[str, list[tuple[str, list[Row]]]]  # by task (by node, for a graph that remembers): namespace, its way


class Record:
    """What the steps of one way left behind, read at once for all of them."""

    def __init__(self, thread_id: str, namespace: str, way: Sequence[Row]) -> None:
        self.thread_id, self.namespace = thread_id, namespace
        ids = [row.id for row in way]
        mine = {"thread_id": thread_id, "checkpoint_id__in": ids}
        self._tasks = self._read_tasks(way, CheckpointWrite.objects.filter(**mine, ns=namespace))
        self._executions = _by_checkpoint(
            ToolExecution.objects.filter(**mine, namespace=namespace).defer("result").order_by("started_at", "pk")
        )
        self._children = self._read_children(
            Checkpoint.objects.filter(thread_id=thread_id, outer_id__in=ids).exclude(outer_id="")
        )

    def tasks(self, row: Row) -> Sequence[Task]:
        return self._tasks.get(row.id, _NO_ROWS)

    def executions(self, row: Row) -> Sequence[ToolExecution]:
        return self._executions.get(row.id, _NO_ROWS)

    def children(self, row: Row) -> Ways:
        """Return the ways of the graphs that ran inside the step that follows a checkpoint."""
        return self._children.get(row.id, {})

    def questions(self, row: Row) -> Mapping[str, tuple[CheckpointWrite, CheckpointWrite | None]]:
        """Return what the tasks of a step asked last, by task, with the answers they were given."""
        asking = [task.id for task in self.tasks(row) if ASKED in task.channels]
        if not asking:
            return {}
        rows = CheckpointWrite.objects.filter(
            thread_id=self.thread_id, ns=self.namespace, checkpoint_id=row.id, channel__in=[ASKED, ANSWERED]
        )
        written = {(one.task_id, one.channel): one for one in rows}
        return {task: (written[task, ASKED], written.get((task, ANSWERED))) for task in asking}

    def _read_tasks(self, way: Sequence[Row], writes: Any) -> Mapping[str, list[Task]]:
        written: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        rows = writes.values_list("task_path", "task_id", "checkpoint_id", "channel")
        for path, task_id, checkpoint_id, channel in sorted(rows):  # as LangGraph orders the tasks of a step
            if path:
                written[checkpoint_id, task_id, path].add(channel)
        due = {row.id: row.next for row in way}
        found: dict[str, list[Task]] = defaultdict(list)
        for (checkpoint_id, task_id, path), channels in written.items():
            found[checkpoint_id].append(Task(task_id, node_of(path, due[checkpoint_id]), frozenset(channels)))
        return found

    def _read_children(self, rows: Any) -> Mapping[str, Ways]:
        prefix = f"{self.namespace}{NODES}" if self.namespace else ""
        ways: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for one in rows.order_by("pk").values("outer_id", "ns", *_FIELDS):
            if one["ns"].startswith(prefix):
                ways[one["outer_id"], one["ns"]].append(_as_row(one))
        found: dict[str, dict[str, list[tuple[str, list[Row]]]]] = defaultdict(lambda: defaultdict(list))
        for (outer_id, ns), way in ways.items():
            node, _, task = ns.removeprefix(prefix).partition(NODES)[0].partition(":")
            found[outer_id][task or node].append((ns, way))
        return found


def _by_checkpoint(rows: Any) -> Mapping[str, list[ToolExecution]]:
    found: dict[str, list[ToolExecution]] = defaultdict(list)
    for row in rows:
        found[row.checkpoint_id].append(row)
    return found
