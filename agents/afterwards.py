"""What the record says comes after a checkpoint: nodes, tool calls and questions, up to the first pause and beyond.

A fork, a rewind and a replay take the same steps again, until something asks. So what ran before the first question of
the record runs again by itself; what asked, asks again; what came later comes again only if people decide the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agents.asks import asked_calls
from agents.marks import NODES, START
from agents.models import CheckpointWrite, Thread, ToolCall, ToolExecution
from agents.outcome import as_plain
from agents.record import MAX_STEPS, Record, Row, Task, Ways, recorded, way_from
from agents.states import slots
from agents.values import Point, loaded, shown_bytes


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


Why = Literal["next", "subgraph", "sibling"]


@dataclass
class Afterwards:
    """``runs``: tool calls before the first pause, ``later``: those after it. ``nodes``: (node, graph around it, why).

    ``known``: the record goes on to a pause, an end or an error; else what is due in the last step was never done.
    """

    runs: list[str] = field(default_factory=list)
    asks: list[Question] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    nodes: list[tuple[str, str, Why]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    known: bool = True
    cut: bool = False


# Whether a static breakpoint stops before the next step of a checkpoint: where, the nodes due, whether it is the first.
Stops = Callable[[Point, tuple[str, ...], bool], bool]


def afterwards(point: Point, *, stops: Stops) -> Afterwards:
    """Return what the record says comes after ``point``, a checkpoint of the thread's own graph."""
    start = recorded(point)
    found = Afterwards()
    way = way_from(start)
    found.cut = len(way) > MAX_STEPS
    walk = _Walk(start.thread_id, found, stops, asked_about=_asked_about(point.thread_id))
    walk.along("", way[:MAX_STEPS], inside=False)
    return found


def _asked_about(thread_id: str) -> set[tuple[str, str]]:
    """Return the call keys that people were asked about, in this thread or one that it was forked from."""
    thread = Thread.objects.select_related("ancestor").get(pk=thread_id)
    keys = ToolCall.objects.filter(thread_id__in=thread.lineage()).values_list("message_id", "tool_call_id")
    return set(keys)


# ----------------------------------------------------------------------------------------------------------------- walk


class _Walk:
    """Goes along ways of one thread and adds to what is found."""

    def __init__(
        self, thread_id: str, found: Afterwards, stops: Stops, *, asked_about: Collection[tuple[str, str]]
    ) -> None:
        self.thread_id, self.found, self.stops, self.asked_about = thread_id, found, stops, asked_about

    def along(self, namespace: str, way: Sequence[Row], *, inside: bool) -> bool:
        """Walk until something asks. Returns whether it did; what ran beyond is noted as later."""
        record = Record(self.thread_id, namespace, way)
        for number, row in enumerate(way):
            if not row.next:
                return False
            if self._stops(row, namespace, first=number == 0 and not namespace):
                self._later(record, way[number:])
                return True
            before = len(self.found.asks)
            self._step(record, row, first=number == 0 and not inside, inside=inside)
            if len(self.found.asks) > before:
                self._later(record, way[number + 1 :])
                return True
            if self.found.failed:
                return False
        # The last step was taken as far as it could be, or is merely due.
        self.found.known = self.found.known and (not way or bool(record.tasks(way[-1])))
        return False

    def _stops(self, row: Row, namespace: str, *, first: bool) -> bool:
        if not self.stops(Point(self.thread_id, row.id, namespace), row.next, first):
            return False
        self.found.asks.append(Question("breakpoint", ", ".join(row.next), namespace))
        return True

    def _step(self, record: Record, row: Row, *, first: bool, inside: bool) -> None:
        tasks, children = record.tasks(row), record.children(row)
        questions = self._questions(record, row)
        finished = {task.node for task in tasks if task.finished and task.id not in questions}
        siblings = finished if first and questions else set()
        for node in row.next:
            why: Why = "subgraph" if inside else "sibling" if node in siblings else "next"
            self.found.nodes += [(node, record.namespace, why)] if node != START else []
        for task in _all_tasks(tasks, record.executions(row), children):
            asked_inside = self._inside(children.get(task.id, []))
            executions = [one for one in record.executions(row) if one.task_id == task.id]
            asked = [] if asked_inside else questions.get(task.id, [])
            self._task(record.namespace, task, executions, asked, paused=bool(asked) or asked_inside)

    def _inside(self, ways: Sequence[tuple[str, list[Row]]]) -> bool:
        """Walk the graphs that one task called, one after the other, until one of them asks."""
        asked = False
        for namespace, way in ways:
            if asked:
                self._later(Record(self.thread_id, namespace, way), way)
            else:
                asked = self.along(namespace, way, inside=True)
        return asked

    def _task(
        self,
        namespace: str,
        task: Task,
        executions: Sequence[ToolExecution],
        questions: Sequence[Question],
        *,
        paused: bool,
    ) -> None:
        """Note one task's calls: which run by themselves, about which the ledger asks, which come after a question."""
        self.found.asks += questions
        for one in executions:
            asks_itself = bool(one.was_paused or one.interrupts or "permit" in one.questions)
            entered = [one.name] if _entered(one) else []
            if paused and (asks_itself or len(executions) == 1):
                self.found.later += entered
            elif (one.message_id, one.tool_call_id) in self.asked_about:
                call = {"type": "tool_approval", "name": one.name, "args": one.args}
                self.found.asks.append(Question("ledger", task.node, namespace, (one.name,), shown_bytes(call)))
                self.found.later += entered
            else:
                self.found.runs += entered
        if task.failed and not task.finished and not paused:
            self.found.failed.append(task.node)

    def _later(self, record: Record, way: Sequence[Row]) -> None:
        for row in way:
            self.found.later += [one.name for one in record.executions(row) if _entered(one)]
            for ways in record.children(row).values():
                for namespace, inner in ways:
                    self._later(Record(self.thread_id, namespace, inner), inner)

    # ------------------------------------------------------------------------------------------------------- questions

    def _questions(self, record: Record, row: Row) -> dict[str, list[Question]]:
        """Return what the tasks of a step asked, by task. What a crash made the ledger ask does not come again."""
        nodes = {task.id: task.node for task in record.tasks(row)}
        asked = {
            task: list(self._asked(record.namespace, nodes[task], write, answers))
            for task, (write, answers) in record.questions(row).items()
        }
        return {task: questions for task, questions in asked.items() if questions}

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


def _all_tasks(tasks: Sequence[Task], executions: Sequence[ToolExecution], children: Ways) -> list[Task]:
    """Add tasks that wrote nothing, because their worker died, but left calls or graphs; and graphs that remember."""
    known = {task.id for task in tasks}
    others = {one.task_id for one in executions} | set(children)
    return [*tasks, *(Task(task_id, "", frozenset()) for task_id in sorted(others - known))]
