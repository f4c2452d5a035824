"""What the record says comes after a checkpoint: nodes, tool calls and questions, up to the first pause and beyond.

A fork, a rewind and a replay take the same steps again, until something asks. So what ran before the first question of
the record runs again by itself; what asked, asks again; what came later comes again only if people decide the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agents.asks import asked_calls
from agents.branches import Branches
from agents.marks import NODES, START
from agents.models import Checkpoint, CheckpointWrite, Thread, ToolCall, ToolExecution
from agents.outcome import as_plain
from agents.states import node_of, slots
from agents.values import Point, loaded, original_of, shown_bytes

MAX_STEPS = 500  # of one way; a turn of an agent has some ten

_ASKED, _FAILED = "__interrupt__", "__error__"
_CONTROL = (_ASKED, "__resume__", _FAILED, "__error_source_node__")


@dataclass(frozen=True)
class Question:
    """A question that will be asked. ``who``: the agent itself, the ledger (a call that was decided elsewhere), or a
    static breakpoint. ``calls``: names of the tool calls it is about; ``value``: canonical, None where a later question
    of the same task has taken the place of its words; ``restarts``: what asks has begun to act, and begins again.
    """

    who: Literal["agent", "ledger", "breakpoint"]
    node: str
    namespace: str = ""
    calls: tuple[str, ...] = ()
    value: bytes | None = None
    restarts: bool = False


@dataclass(frozen=True)
class Row:
    """One checkpoint of a way."""

    id: str
    parent_id: str
    source: str
    next: tuple[str, ...]


@dataclass
class Afterwards:
    """``runs``: tool calls before the first pause, ``later``: those after it. ``nodes``: (node, graph around it, why).

    ``known``: the record goes on to a pause, an end or an error; else what is due in the last step was never done.
    """

    runs: list[str] = field(default_factory=list)
    asks: list[Question] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    nodes: list[tuple[str, str, Literal["next", "subgraph", "sibling"]]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    known: bool = True
    cut: bool = False


# Whether a static breakpoint stops before the next step of a checkpoint: where, the nodes due, whether it is the first.
Stops = Callable[[Point, tuple[str, ...], bool], bool]


def afterwards(point: Point, *, stops: Stops) -> Afterwards:
    """Return what the record says comes after ``point``, a checkpoint of the thread's own graph."""
    start = recorded(point)
    found = Afterwards()
    way = _way(start)
    found.cut = len(way) > MAX_STEPS
    walk = _Walk(start.thread_id, found, stops, asked_about=_asked_about(point.thread_id))
    walk.along("", way[:MAX_STEPS], inside=False)
    return found


def _asked_about(thread_id: str) -> set[tuple[str, str]]:
    """Return the call keys that people were asked about, in this thread or one that it was forked from."""
    thread = Thread.objects.select_related("ancestor").get(pk=thread_id)
    keys = ToolCall.objects.filter(thread_id__in=thread.lineage()).values_list("message_id", "tool_call_id")
    return set(keys)


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
    return Checkpoint.objects.filter(
        **mine, parent_id=point.checkpoint_id, checkpoint_id__gt=point.checkpoint_id
    ).exists()


# ------------------------------------------------------------------------------------------------------------------ way


def _way(start: Point) -> list[Row]:
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
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="", checkpoint_id__gte=checkpoint_id)
    return map(_as_row, rows.order_by("checkpoint_id").values(*_FIELDS)[: MAX_STEPS + 1])


def _row(thread_id: str, checkpoint_id: str) -> Row | None:
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="", checkpoint_id=checkpoint_id)
    return next(map(_as_row, rows.values(*_FIELDS)), None)


def _as_row(row: Mapping[str, Any]) -> Row:
    names = tuple(row["next_nodes"].split(NODES)) if row["next_nodes"] else ()
    return Row(row["checkpoint_id"], row["parent_id"], str(row["metadata"].get("source", "")), names)


# ----------------------------------------------------------------------------------------------------------------- walk


@dataclass(frozen=True)
class _Task:
    id: str
    node: str
    channels: frozenset[str]

    @property
    def failed(self) -> bool:
        return _FAILED in self.channels

    @property
    def finished(self) -> bool:
        return not self.channels <= set(_CONTROL)


class _Walk:
    """Goes along ways of one thread and adds to what is found."""

    def __init__(
        self, thread_id: str, found: Afterwards, stops: Stops, *, asked_about: Collection[tuple[str, str]]
    ) -> None:
        self.thread_id, self.found, self.stops, self.asked_about = thread_id, found, stops, asked_about

    def along(self, namespace: str, way: Sequence[Row], *, inside: bool) -> bool:
        """Walk until something asks. Returns whether it did; what ran beyond is noted as later."""
        for number, row in enumerate(way):
            if not row.next:
                return False
            if not namespace and self._stops(row, first=number == 0):
                self._later(namespace, way[number:])
                return True
            before = len(self.found.asks)
            self._step(namespace, row, first=number == 0 and not inside, inside=inside)
            if len(self.found.asks) > before:
                self._later(namespace, way[number + 1 :])
                return True
            if self.found.failed:
                return False
        self.found.known = self.found.known and self._ended(namespace, way)
        return False

    def _ended(self, namespace: str, way: Sequence[Row]) -> bool:
        """Tell whether the last step of a way was taken as far as it could be: it is not merely due."""
        return not way or not way[-1].next or bool(self._tasks(namespace, way[-1]))

    def _stops(self, row: Row, *, first: bool) -> bool:
        if not self.stops(Point(self.thread_id, row.id), row.next, first):
            return False
        self.found.asks.append(Question("breakpoint", ", ".join(row.next)))
        return True

    def _step(self, namespace: str, row: Row, *, first: bool, inside: bool) -> None:
        tasks = self._tasks(namespace, row)
        executions = self._executions(namespace, [row.id])
        children = self._children(namespace, row)
        questions = self._questions(namespace, row, tasks)
        done = (
            {task.node for task in tasks if task.finished and task.id not in questions} if first and questions else ()
        )
        for node in self._nodes(row):
            self.found.nodes.append((node, namespace, "subgraph" if inside else "sibling" if node in done else "next"))
        for task in self._all_tasks(tasks, executions, children):
            own = [one for one in executions if one.task_id == task.id]
            asked_inside = False
            for child_namespace, way in children.get(task.id, []):
                asked_inside = self.along(child_namespace, way, inside=True) or asked_inside
            self._task(namespace, task, own, [] if asked_inside else questions.get(task.id, []), asked_inside)

    def _task(
        self,
        namespace: str,
        task: _Task,
        executions: Sequence[ToolExecution],
        questions: Sequence[Question],
        asked_inside: bool,
    ) -> None:
        """Note one task's calls: which run by themselves, about which the ledger asks, which come after a question."""
        self.found.asks += questions
        for one in executions:
            asks_itself = bool(one.was_paused or one.interrupts or "permit" in one.questions)
            entered = [one.name] if _entered(one) else []
            if (questions or asked_inside) and (asks_itself or len(executions) == 1):
                self.found.later += entered
            elif (one.message_id, one.tool_call_id) in self.asked_about:
                call = {"type": "tool_approval", "name": one.name, "args": one.args}
                self.found.asks.append(Question("ledger", task.node, namespace, (one.name,), shown_bytes(call)))
                self.found.later += entered
            else:
                self.found.runs += entered
        if task.failed and not task.finished and not questions and not asked_inside:
            self.found.failed.append(task.node)

    def _later(self, namespace: str, way: Iterable[Row]) -> None:
        ids = [row.id for row in way]
        self.found.later += [one.name for one in self._executions(namespace, ids) if _entered(one)]
        inner = Checkpoint.objects.filter(thread_id=self.thread_id, outer_id__in=ids)
        for child in inner.values_list("ns", flat=True).distinct():
            rows = map(_as_row, inner.filter(ns=child).order_by("checkpoint_id").values(*_FIELDS))
            self._later(child, list(rows))

    # ------------------------------------------------------------------------------------------------------------ rows

    def _tasks(self, namespace: str, row: Row) -> list[_Task]:
        written: dict[tuple[str, str], set[str]] = defaultdict(set)
        rows = CheckpointWrite.objects.filter(thread_id=self.thread_id, ns=namespace, checkpoint_id=row.id)
        for task_id, path, channel in rows.values_list("task_id", "task_path", "channel"):
            if path:
                written[task_id, path].add(channel)
        return [_Task(task_id, node_of(path, row.next), frozenset(found)) for (task_id, path), found in written.items()]

    def _all_tasks(
        self, tasks: Sequence[_Task], executions: Sequence[ToolExecution], children: Mapping[str, Any]
    ) -> list[_Task]:
        """Add tasks that wrote nothing, because their worker died, but left calls or subgraphs."""
        known = {task.id for task in tasks}
        others = {one.task_id for one in executions} | set(children)
        return [*tasks, *(_Task(task_id, "", frozenset()) for task_id in sorted(others - known))]

    def _executions(self, namespace: str, checkpoint_ids: Sequence[str]) -> list[ToolExecution]:
        rows = ToolExecution.objects.filter(
            thread_id=self.thread_id, namespace=namespace, checkpoint_id__in=checkpoint_ids
        )
        return list(rows.defer("result").order_by("started_at", "pk"))

    def _nodes(self, row: Row) -> list[str]:
        return [node for node in row.next if node != START]

    def _children(self, namespace: str, row: Row) -> Mapping[str, list[tuple[str, list[Row]]]]:
        """Return the ways of the graphs that ran inside this step, by task (by node, for one that remembers)."""
        prefix = f"{namespace}{NODES}" if namespace else ""
        rows = Checkpoint.objects.filter(thread_id=self.thread_id, outer_id=row.id).order_by("checkpoint_id")
        ways: dict[str, list[Row]] = defaultdict(list)
        for one in rows.values("ns", *_FIELDS):
            ways[one["ns"]].append(_as_row(one))
        found: dict[str, list[tuple[str, list[Row]]]] = defaultdict(list)
        for ns, way in ways.items():
            if ns.startswith(prefix):
                node, _, task = ns.removeprefix(prefix).partition(NODES)[0].partition(":")
                found[task or node].append((ns, way))
        return found

    def _questions(self, namespace: str, row: Row, tasks: Sequence[_Task]) -> dict[str, list[Question]]:
        """Return what the tasks of a step asked, by task. What a crash made the ledger ask does not come again."""
        nodes = {task.id: task.node for task in tasks}
        rows = CheckpointWrite.objects.filter(
            thread_id=self.thread_id, ns=namespace, checkpoint_id=row.id, channel__in=[_ASKED, "__resume__"]
        )
        written = {(one.task_id, one.channel): one for one in rows}
        found: dict[str, list[Question]] = {}
        for (task_id, channel), write in written.items():
            if channel == _ASKED:
                answers = written.get((task_id, "__resume__"))
                asked = list(self._asked(namespace, nodes.get(task_id, ""), write, answers))
                if asked:
                    found[task_id] = asked
        return found

    def _asked(
        self, namespace: str, node: str, write: CheckpointWrite, answers: CheckpointWrite | None
    ) -> Iterator[Question]:
        given = len(loaded(answers.type, answers.blob)) if answers else 0
        around = f"{namespace}{NODES}" if namespace else ""
        later = slots(f"{around}{node}:{write.task_id}", given + 1) - slots(f"{around}{node}:{write.task_id}", 1)
        for one in loaded(write.type, write.blob):
            value = as_plain(one.value)
            if isinstance(value, Mapping) and value.get("type") == "outcome_unknown":
                continue
            calls = tuple(str(call["name"]) for call in asked_calls(value))
            by_ledger = self._is_by_ledger(namespace, write.task_id, calls)
            restarts = not by_ledger and not node.endswith(".after_model")
            words = None if one.id in later else shown_bytes(value)
            yield Question("ledger" if by_ledger else "agent", node, namespace, calls, words, restarts)

    def _is_by_ledger(self, namespace: str, task_id: str, calls: Sequence[str]) -> bool:
        if not calls:
            return False
        rows = ToolExecution.objects.filter(thread_id=self.thread_id, namespace=namespace, task_id=task_id)
        return any("permit" in questions for questions in rows.values_list("questions", flat=True))


def _entered(execution: ToolExecution) -> bool:
    return execution.calls > 0 and execution.status in (ToolExecution.Status.FINISHED, ToolExecution.Status.FAILED)
