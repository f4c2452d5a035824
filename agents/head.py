"""The head of a thread, as far as deciding the next step needs it: read from stored rows, never guessed.

``state.next`` lies (it is empty while a step's writes are stored and its checkpoint is not), so two facts decide.
*Landed*: a checkpoint, or a write other than an interrupt, bears the run's id. *Unfinished*: the head has a task with
no stored write and no pending interrupt, or has tasks and none of them waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agents.asks import Waiting, asks_of, last_ai
from agents.marks import START
from agents.models import Checkpoint, CheckpointWrite
from agents.outcome import Ask, canonical_bytes
from agents.registry import Registered
from agents.values import Point, nodes_before


@dataclass(frozen=True)
class Head:
    """``stored``: how many rows bear the run's id; ``error``: of a task, "" for none; ``stuck``: a bad saved answer."""

    checkpoint_id: str
    asks: tuple[Ask, ...]
    stored: int
    unfinished: bool
    error: str = ""
    stuck: bool = False
    breakpoint: Ask | None = None
    messages: tuple[Any, ...] = ()

    @property
    def landed(self) -> bool:
        return self.stored > 0

    def find(self, interrupt_id: str, namespace: str) -> Ask | None:
        """Return the pending ask of this id. A nested one may surface in another namespace than it was filed under."""
        same = [ask for ask in self.asks if ask.interrupt_id == interrupt_id]
        return next((ask for ask in same if ask.namespace == namespace), same[0] if same else None)


def read_head(agent: Registered, thread_id: str, run_id: str) -> Head:
    """Read the head of ``thread_id`` as the run ``run_id`` finds it."""
    saver = agent.graph.checkpointer
    config = {"configurable": {"thread_id": thread_id}}
    saved = saver.get_tuple(config)
    stored = stored_by(thread_id, run_id)
    if saved is None:
        return Head(checkpoint_id="", asks=(), stored=stored, unfinished=False)
    snapshot = agent.graph.get_state(config)
    failed = [task for task in snapshot.tasks if task.error]
    poisoned = {task.id for task in failed if _answered(task.id, saved.pending_writes or [])}
    waiting = _waiting(agent, thread_id, snapshot, poisoned)
    unfinished = _unfinished(snapshot.tasks, saved.pending_writes or [])
    asks = asks_of(thread_id, waiting, agent.schemas)
    stop = None if asks else _breakpoint(agent, thread_id, saved, snapshot)
    return Head(
        checkpoint_id=snapshot.config["configurable"]["checkpoint_id"],
        asks=(stop,) if stop else asks,
        stored=stored,
        unfinished=unfinished,
        error=str(failed[0].error) if failed else "",
        stuck=bool(poisoned),
        breakpoint=stop,
        messages=tuple(messages_of(snapshot.values)),
    )


def stored_by(thread_id: str, run_id: str) -> int:
    """Count the rows that bear a run's id, interrupts left out: nothing lands by asking."""
    mine = {"thread_id": thread_id, "run_id": run_id}
    writes = CheckpointWrite.objects.filter(**mine).exclude(channel="__interrupt__")
    return Checkpoint.objects.filter(**mine).count() + writes.count()


def _unfinished(tasks: Sequence[Any], writes: Sequence[Any]) -> bool:
    control = ("__interrupt__", "__resume__", "__error__", "__error_source_node__")
    written = {task_id for task_id, channel, _ in writes if channel not in control}
    idle = [task for task in tasks if task.id not in written and not task.interrupts]
    return bool(idle) or (bool(tasks) and not any(task.interrupts for task in tasks))


def _answered(task_id: str, writes: Sequence[Any]) -> bool:
    return any(owner == task_id and channel == "__resume__" for owner, channel, _ in writes)


def messages_of(values: Any) -> list[Any]:
    """Return the messages of a state, whatever its schema; [] for a graph without them."""
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    return list(messages) if isinstance(messages, list | tuple) else []


# ----------------------------------------------------------------------------------------------------------- interrupts


def _waiting(agent: Registered, thread_id: str, snapshot: Any, poisoned: set[str]) -> list[Waiting]:
    """Return what waits. A poisoned task still lists its question, but no answer would be heard any more."""
    pending = {one.id: (one, task) for task in snapshot.tasks if task.id not in poisoned for one in task.interrupts}
    if not pending:
        return []
    deepest: dict[str, tuple[str, str]] = {}
    for namespace, _, task_id, interrupts in agent.graph.checkpointer.interrupt_writes(thread_id):
        for one in interrupts:
            if one.id in pending and len(namespace) >= len(deepest.get(one.id, ("",))[0]):
                deepest[one.id] = (namespace, task_id)
    # All questions of a head share its checkpoint id, wherever they were raised: they stand on one page.
    head = snapshot.config["configurable"]["checkpoint_id"]
    found = []
    for interrupt_id, (one, task) in pending.items():
        namespace, task_id = deepest.get(interrupt_id, ("", task.id))
        messages = messages_of(snapshot.values) if not namespace else _messages_in(agent, thread_id, namespace)
        found.append(Waiting(one, namespace, task_id, head, task.name, messages))
    return found


def _messages_in(agent: Registered, thread_id: str, namespace: str) -> list[Any]:
    saved = agent.graph.checkpointer.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}})
    return messages_of(saved.checkpoint["channel_values"]) if saved else []


# ---------------------------------------------------------------------------------------------------------- breakpoints


def _breakpoint(agent: Registered, thread_id: str, saved: Any, snapshot: Any) -> Ask | None:
    """Return the question of a static breakpoint that the thread stands at and has not passed."""
    next_nodes = [task.name for task in snapshot.tasks if task.result is None and not task.error]
    checkpoint_id = snapshot.config["configurable"]["checkpoint_id"]
    if not next_nodes or passed(saved.checkpoint):
        return None
    if not stops_at(agent.graph, Point(thread_id, checkpoint_id), next_nodes):
        return None
    return Ask(
        kind="breakpoint",
        interrupt_id=f"breakpoint:{checkpoint_id}",
        namespace="",
        task_id="",
        checkpoint_id=checkpoint_id,
        node=", ".join(next_nodes),
        value=canonical_bytes({"next": next_nodes, "calls": _open_calls(messages_of(snapshot.values))}),
    )


def passed(checkpoint: Any) -> bool:
    """LangGraph notes at each continue which versions it has seen; without a newer one it would not stop again."""
    seen = checkpoint["versions_seen"].get("__interrupt__", {})
    versions = checkpoint["channel_versions"].items()
    return all(channel in seen and not version > seen[channel] for channel, version in versions)


def stops_at(graph: Any, point: Point, next_nodes: Sequence[str]) -> bool:
    """Tell whether a static breakpoint stops the graph at a checkpoint: before what is next, or after what ran."""
    if _is_named(graph.interrupt_before_nodes, next_nodes):
        return True
    # Not by LangGraph's parent: a copy (a fork, a rewind) has another one than the checkpoint that it repeats.
    return bool(graph.interrupt_after_nodes) and _is_named(graph.interrupt_after_nodes, nodes_before(point))


def _is_named(named: Any, nodes: Sequence[str]) -> bool:
    return any(node != START and (named == "*" or node in named) for node in nodes)


def open_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the tool calls of the last AI message that have no tool message yet."""
    message = last_ai(messages)
    if not isinstance(message, AIMessage):
        return []
    later = messages[next(at for at, one in enumerate(messages) if one is message) :]  # call ids come again each turn
    answered = {one.tool_call_id for one in later if isinstance(one, ToolMessage)}
    return [dict(call) for call in message.tool_calls if call["id"] not in answered]


def _open_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": call["name"], "args": call["args"]} for call in open_calls(messages)]
