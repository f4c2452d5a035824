"""Leaves no tool call without a result: what is written in place of calls when people go on without them.

A call that ran keeps its result, from its task or from the ledger; a call that did not gets an error that says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from agents.asks import last_ai
from agents.head import Head, messages_of, open_calls
from agents.ledger.records import result_of
from agents.models import ToolExecution
from agents.outcome import CallKey
from agents.registry import Registered

MARK = "countersign_settled"  # in additional_kwargs: the id of the run that wrote it
_NAMESPACE = uuid.UUID("0e0b5a3c-3f27-4a54-8c6e-7d1b4f7b5e21")


@dataclass(frozen=True)
class Settled:
    """``results``: of each open call, in call order. ``others``: what else the tasks that ended wrote, one by one."""

    results: tuple[ToolMessage, ...] = ()
    others: tuple[dict[str, Any], ...] = ()


def settle(agent: Registered, thread_id: str, run_id: str, *, head: Head, why: str) -> Settled:
    """Return what closes the open calls of the head's last AI message.

    ``why``: what kept those that did not run from running, as in "olga wrote instead".
    """
    if not head.checkpoint_id:
        return Settled()
    # By its id: otherwise the state would hold what tasks wrote that ended, and it goes with them.
    names = {"thread_id": thread_id, "checkpoint_id": head.checkpoint_id}
    snapshot = agent.graph.get_state({"configurable": names})
    messages = messages_of(snapshot.values)
    message = last_ai(messages)
    calls = open_calls(messages)
    if message is None or not calls:
        return Settled()
    ended = [task.result for task in snapshot.tasks if task.result is not None and not task.error]
    told = {one.tool_call_id: one for result in ended for one in _messages(result)}
    results = []
    for call in calls:
        key = CallKey(message.id or "", call["id"] or "")
        ran = told.get(key.tool_call_id) or _ran(thread_id, key)
        results.append(ran or _error(run_id, key, name=call["name"], why=_reason(thread_id, key, why)))
    return Settled(tuple(results), tuple(_others(ended)))


def _others(ended: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for result in ended:
        other = (
            {name: value for name, value in result.items() if name != "messages"} if isinstance(result, dict) else {}
        )
        if other and not any(isinstance(value, dict) and "$writes" in value for value in other.values()):
            yield other


def settled_by(head: Head, run_id: str) -> list[CallKey]:
    """Return the calls that a run settled, whose result says that they did not run."""
    message = None
    keys = []
    for one in head.messages:
        if isinstance(one, ToolMessage):
            if one.additional_kwargs.get(MARK) == run_id and message is not None:
                keys.append(CallKey(message.id or "", one.tool_call_id))
        elif getattr(one, "tool_calls", None):
            message = one
    return keys


def _error(run_id: str, key: CallKey, *, name: str, why: str) -> ToolMessage:
    return ToolMessage(
        content=why,
        name=name,
        tool_call_id=key.tool_call_id,
        status="error",
        id=str(uuid.uuid5(_NAMESPACE, f"{run_id} {key}")),  # the same each time: a repeated run writes it once
        additional_kwargs={MARK: run_id},
    )


def _reason(thread_id: str, key: CallKey, why: str) -> str:
    row = _rows(thread_id, key).exclude(status=ToolExecution.Status.ASKED).order_by("-started_at").first()
    if row is None or not row.calls:
        return f"This call was not run: {why}."
    match row.status:
        case ToolExecution.Status.FAILED:
            return f"This call failed: {row.summary}"
        case ToolExecution.Status.STARTED:
            return f"This call was started and did not end, so nobody knows whether it took effect: {why}."
        case _:
            return f"This call did not run to its end: {why}."


# ------------------------------------------------------------------------------------------------------------- what ran


def _ran(thread_id: str, key: CallKey) -> ToolMessage | None:
    row = _rows(thread_id, key).filter(status=ToolExecution.Status.FINISHED).order_by("-finished_at").first()
    if row is None:
        return None
    result = result_of(row)
    return next((one for one in _messages(result) if one.tool_call_id == key.tool_call_id), None) or ToolMessage(
        content=row.summary, name=row.name, tool_call_id=key.tool_call_id, status="error" if row.is_error else "success"
    )


def _rows(thread_id: str, key: CallKey) -> Any:
    return ToolExecution.objects.filter(thread_id=thread_id, message_id=key.message_id, tool_call_id=key.tool_call_id)


def _messages(value: Any) -> Iterator[ToolMessage]:
    """Yield the tool messages in what a task or a tool gave back: itself, a Command, writes of a channel."""
    match value:
        case ToolMessage():
            yield value
        case Command():
            yield from _messages(value.update)
        case Mapping():
            yield from _messages(list(value.values()))
        case str() | bytes():
            return
        case Iterable():
            for item in value:
                if isinstance(item, ToolMessage | Command | Mapping | list | tuple):
                    yield from _messages(item)
