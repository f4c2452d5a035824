"""What became of what was decided: read from the ledger and from the stored messages after a run, never assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Q
from langchain_core.messages import ToolMessage

from agents.compiled import Compiled
from agents.head import Head, messages_of
from agents.models import ToolExecution, ToolPermit
from agents.outcome import CallKey, Effect, canonical_bytes
from agents.registry import Registered
from agents.settling import settled_by


def effects_of(agent: Registered, thread_id: str, run_id: str, head: Head) -> tuple[Effect, ...]:
    """Return the effects that this run shows: of its own decisions, and of earlier ones that only ran now."""
    settled = settled_by(head, run_id)
    found = {row.pk: row for row in _SHOWN(thread_id, run_id, run_id)}
    for key in settled:
        found |= {row.pk: row for row in _UNUSED(thread_id, key.message_id, key.tool_call_id)}
    rows = [found[pk] for pk in sorted(found)]
    left = [row for row in rows if CallKey(row.message_id, row.tool_call_id) in settled]
    verified = _verified(agent, head, [row for row in rows if row not in left])
    return (*verified, *(_effect(row, "stopped") for row in left))


_SHOWN = Compiled(
    lambda thread, run, run_text: ToolPermit.objects.select_related("run").filter(
        Q(run=run) | Q(execution__in=ToolExecution.objects.filter(thread=thread, run_id=run_text).values("id")),
        thread=thread,
    )
)
_UNUSED = Compiled(
    lambda thread, message, call: ToolPermit.objects.select_related("run").filter(
        thread=thread, message_id=message, tool_call_id=call, execution__isnull=True
    )
)
_EXECUTIONS = Compiled(
    lambda thread, messages: (
        ToolExecution.objects.filter(thread=thread, message_id__any_of=messages).defer("result").order_by("pk")
    )
)
Executions = Mapping[CallKey, Sequence[ToolExecution]]


def _executions(permits: Sequence[ToolPermit]) -> Executions:
    """Return what was executed of the calls of these permits' messages; they are of one thread."""
    found: dict[CallKey, list[ToolExecution]] = {}
    messages = {permit.message_id for permit in permits if permit.tool_call_id}
    for row in _EXECUTIONS(permits[0].thread_id, sorted(messages)) if messages else ():
        found.setdefault(CallKey(row.message_id, row.tool_call_id), []).append(row)
    return found


def _verified(agent: Registered, head: Head, permits: Sequence[ToolPermit]) -> Iterator[Effect]:
    executions = _executions(permits)
    for permit in permits:
        namespace = (permit.run.payload or {}).get("namespace", "")
        asked_again = head.find(permit.interrupt_id, namespace) is not None
        if asked_again and permit.execution is None:
            yield _effect(permit, "missing")
        elif permit.tool_call_id:
            yield from _of_call(agent, head, permit, _execution(permit, executions))
        else:
            yield _effect(permit, _without_call(permit))


def _without_call(permit: ToolPermit) -> Any:
    if permit.interrupt_id.startswith("breakpoint:"):
        return "continued" if permit.verdict == "approve" else "stopped"
    return {"approve": "executed", "edit": "executed", "reject": "rejected"}.get(permit.verdict, "answered")


def _of_call(agent: Registered, head: Head, permit: ToolPermit, execution: ToolExecution | None) -> Iterator[Effect]:
    namespace = (permit.run.payload or {}).get("namespace", "")
    entered = execution is not None and (execution.calls or execution.refused)
    if execution is not None and entered and execution.status in ("finished", "failed"):
        yield _executed(permit, execution)
        return
    message = _tool_message(_messages(agent, permit.thread_id, namespace, head), permit)
    if message is not None:
        yield _effect(permit, _by_message(permit, message), result=str(message.content))
    elif not head.unfinished and not head.asks:
        yield _effect(permit, "missing")  # at rest, and no trace of what was decided


def _execution(permit: ToolPermit, executions: Executions) -> ToolExecution | None:
    """Return what ran under this permit, or, for a call that should not have run, whatever ran."""
    rows = executions.get(CallKey(permit.message_id, permit.tool_call_id), ())
    if permit.execution:
        return next((row for row in rows if row.pk == permit.execution), None)
    return next((row for row in rows if row.run_id == str(permit.run_id) and row.calls > 0), None)


def _executed(permit: ToolPermit, execution: ToolExecution) -> Effect:
    differs = permit.verdict not in ("approve", "edit") or permit.digest != execution.digest
    ended: Any = "failed" if execution.is_error else "executed"
    return Effect(
        interrupt_id=permit.interrupt_id,
        namespace=(permit.run.payload or {}).get("namespace", ""),
        position=permit.position,
        state="unfit" if execution.refused else ended,
        name=execution.name,
        args=canonical_bytes(execution.args),
        result=execution.summary,
        differs=differs,
    )


def _by_message(permit: ToolPermit, message: ToolMessage) -> Any:
    """A tool message without an execution: an answer in the tool's place, or the ledger's refusal."""
    match permit.verdict:
        case "reject":
            return "rejected"
        case "respond":
            return "responded"
        case _:
            return "refused" if message.status == "error" else "executed"


def _messages(agent: Registered, thread_id: str, namespace: str, head: Head) -> Sequence[Any]:
    if not namespace:
        return head.messages
    saved = agent.graph.checkpointer.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}})
    return messages_of(saved.checkpoint["channel_values"]) if saved else ()


def _tool_message(messages: Sequence[Any], permit: ToolPermit) -> ToolMessage | None:
    """Find the answer to this call. Call ids come again each turn, so only after the message that made the call."""
    key = CallKey(permit.message_id, permit.tool_call_id)
    seen = False
    for message in messages:
        seen = seen or message.id == key.message_id
        if seen and isinstance(message, ToolMessage) and message.tool_call_id == key.tool_call_id:
            return message
    return None


def _effect(permit: ToolPermit, state: Any, *, result: str = "") -> Effect:
    return Effect(
        interrupt_id=permit.interrupt_id,
        namespace=(permit.run.payload or {}).get("namespace", ""),
        position=permit.position,
        state=state,
        name=permit.name,
        result=result,
    )
