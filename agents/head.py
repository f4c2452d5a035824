"""The head of a thread, as far as deciding the next step needs it: read from stored rows, never guessed.

``state.next`` lies (it is empty while a step's writes are stored and its checkpoint is not), so two facts decide.
*Landed*: a checkpoint, or a write other than an interrupt, bears the run's id. *Unfinished*: the head has a task with
no stored write and no pending interrupt, or has tasks and none of them waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.asks import Waiting, asks_of
from agents.breakpoints import breakpoint_ask, messages_of, open_calls
from agents.checkpointer import InHand
from agents.outcome import Ask
from agents.registry import Registered
from agents.statements import execute

__all__ = ["Head", "messages_of", "open_calls", "read_head", "stored_by"]

_CHECKPOINTER = "__pregel_checkpointer"  # where a graph looks for its saver first; no public name in 1.2.24
_STORED = """
select (select count(*) from agents_checkpoint where thread_id = %s and run_id = %s)
     + (select count(*) from agents_checkpointwrite where thread_id = %s and run_id = %s and channel <> '__interrupt__')
"""


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
    snapshot = agent.graph.get_state({"configurable": {"thread_id": thread_id, _CHECKPOINTER: InHand(saved)}})
    failed = [task for task in snapshot.tasks if task.error]
    poisoned = {task.id for task in failed if _answered(task.id, saved.pending_writes or [])}
    waiting = _waiting(agent, thread_id, snapshot, poisoned)
    unfinished = _unfinished(snapshot.tasks, saved.pending_writes or [])
    asks = asks_of(thread_id, waiting, agent.schemas)
    stop = breakpoint_ask(agent, thread_id, snapshot, asking=bool(asks))
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
    [(count,)] = execute(_STORED, [thread_id, run_id, thread_id, run_id])
    return int(count)


def _unfinished(tasks: Sequence[Any], writes: Sequence[Any]) -> bool:
    control = ("__interrupt__", "__resume__", "__error__", "__error_source_node__")
    written = {task_id for task_id, channel, _ in writes if channel not in control}
    idle = [task for task in tasks if task.id not in written and not task.interrupts]
    return bool(idle) or (bool(tasks) and not any(task.interrupts for task in tasks))


def _answered(task_id: str, writes: Sequence[Any]) -> bool:
    return any(owner == task_id and channel == "__resume__" for owner, channel, _ in writes)


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
