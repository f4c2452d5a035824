"""What a thread asks: from the interrupts that wait at its head to plain Asks, with the calls they are about.

Batched payloads carry no ids. So the asked calls are matched, as an ordered subsequence on name and arguments, to the
last AI message of the namespace in which the interrupt was raised. Where two matches are possible the ids stay empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agents.models import ToolCall, ToolExecution
from agents.outcome import Ask, Call, CallKey, NotCanonical, Sibling, as_plain, canonical_bytes, digest, type_names


@dataclass(frozen=True)
class Waiting:
    """One pending interrupt as LangGraph stores it, in the deepest namespace that holds it."""

    interrupt: Any
    namespace: str
    task_id: str
    checkpoint_id: str
    node: str
    messages: Sequence[Any]  # of that namespace


def asks_of(thread_id: str, waiting: Sequence[Waiting], schemas: Mapping[str, Any]) -> tuple[Ask, ...]:
    """Turn what waits into Asks, in tool call order."""
    matched = [(one, _calls(one, schemas)) for one in waiting]
    asked = {call.key for _, calls in matched for call in calls if call.key}
    asks = [_ask(thread_id, one, calls, asked) for one, calls in matched]
    return tuple(sorted(asks, key=lambda ask: (ask.namespace, _order(ask, waiting), ask.interrupt_id)))


def _ask(thread_id: str, one: Waiting, calls: tuple[Call, ...], asked: set[CallKey]) -> Ask:
    value = one.interrupt.value
    return Ask(
        kind="execution" if _field(value, "type") == "outcome_unknown" else "interrupt",
        interrupt_id=one.interrupt.id,
        namespace=one.namespace,
        task_id=one.task_id,
        checkpoint_id=one.checkpoint_id,
        node=one.node,
        value=_bytes(value),
        types=type_names(value),
        response_schema=one.interrupt.response_schema,
        calls=calls,
        siblings=_siblings(thread_id, one, asked),
        restarts=not asked_calls(value),  # the HITL middlewares ask before anything is done
    )


def _bytes(value: Any) -> bytes:
    try:
        return canonical_bytes(value)
    except NotCanonical as error:  # still a pause: shown as what it is, and never approved
        return canonical_bytes({"unreadable": str(error)})


def _order(ask: Ask, waiting: Sequence[Waiting]) -> int:
    keys = [call.key for call in ask.calls if call.key]
    for one in waiting:
        if one.interrupt.id == ask.interrupt_id and keys and (message := last_ai(one.messages)):
            ids = [call["id"] for call in message.tool_calls]
            return ids.index(keys[0].tool_call_id) if keys[0].tool_call_id in ids else len(ids)
    return 0


def _field(value: Any, name: str) -> Any:
    plain = as_plain(value)
    return plain.get(name) if isinstance(plain, Mapping) else None


# ------------------------------------------------------------------------------------------------------------ the calls


def asked_calls(value: Any) -> list[dict[str, Any]]:
    """Return the calls that a payload of the HITL middlewares asks about, as ``{"name", "args", "id"?}``."""
    kind = _field(value, "type")
    if kind in ("tool_approval", "outcome_unknown"):
        return [{"name": _field(value, "name"), "args": _field(value, "args"), "id": _field(value, "tool_call_id")}]
    requests = _field(value, "action_requests") or _field(value, "actionRequests")
    if not isinstance(requests, list):
        return []
    return [
        {"name": _field(request, "name"), "args": _field(request, "args") or _field(request, "arguments") or {}}
        for request in requests
    ]


def _calls(one: Waiting, schemas: Mapping[str, Any]) -> tuple[Call, ...]:
    asked = asked_calls(one.interrupt.value)
    keys = _match(asked, last_ai(one.messages))
    return tuple(
        Call(name=str(call["name"]), args=call["args"], key=key, schema=schemas.get(call["name"]))
        for call, key in zip(asked, keys, strict=True)
    )


def _match(asked: list[dict[str, Any]], message: AIMessage | None) -> list[CallKey | None]:
    if message is None:
        return [None] * len(asked)
    proposed = [(call["id"] or "", _fingerprint(call["name"], call["args"])) for call in message.tool_calls]
    if len(asked) == 1 and asked[0].get("id"):
        known = any(asked[0]["id"] == tool_call_id for tool_call_id, _ in proposed)
        return [CallKey(message.id or "", asked[0]["id"]) if known else None]
    wanted = [_fingerprint(call["name"], call["args"]) for call in asked]
    first = _subsequence(wanted, [print_ for _, print_ in proposed])
    last = _subsequence(wanted[::-1], [print_ for _, print_ in proposed][::-1])
    if first is None or last is None:
        return [None] * len(asked)
    mirrored = [len(proposed) - 1 - index for index in last][::-1]
    return [
        CallKey(message.id or "", proposed[left][0]) if left == right else None
        for left, right in zip(first, mirrored, strict=True)
    ]


def _subsequence(wanted: list[str], offered: list[str]) -> list[int] | None:
    """Return the leftmost positions at which ``wanted`` stands in ``offered`` in this order; None when it does not."""
    places, start = [], 0
    for one in wanted:
        try:
            start = offered.index(one, start) + 1
        except ValueError:
            return None
        places.append(start - 1)
    return places


def _fingerprint(name: Any, args: Any) -> str:
    try:
        return digest({"name": name, "args": args})
    except NotCanonical:
        return ""


def last_ai(messages: Sequence[Any]) -> AIMessage | None:
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)


# --------------------------------------------------------------------------------------------------------- the siblings


def _siblings(thread_id: str, one: Waiting, asked: set[CallKey]) -> tuple[Sibling, ...]:
    message = last_ai(one.messages)
    if message is None:
        return ()
    keys = [CallKey(message.id or "", call["id"] or "") for call in message.tool_calls]
    if asked.issuperset(keys):
        return ()
    results, refused = _results(thread_id, keys, one.messages)
    return tuple(
        Sibling(
            name=call["name"],
            args=call["args"],
            key=key,
            state="refused" if key in refused else "ran" if key in results else "waits",
            result=results.get(key, ""),
        )
        for call, key in zip(message.tool_calls, keys, strict=True)
        if key not in asked
    )


def _results(thread_id: str, keys: list[CallKey], messages: Iterable[Any]) -> tuple[dict[CallKey, str], set[CallKey]]:
    """Return what is known of calls that have a result: from the ledger, and from the tool messages.

    And beside it those whose tool refused the arguments.
    """
    told = {message.tool_call_id: str(message.content) for message in messages if isinstance(message, ToolMessage)}
    results = {key: told[key.tool_call_id] for key in keys if key.tool_call_id in told}
    rows = ToolExecution.objects.filter(
        thread_id=thread_id,
        message_id__in={key.message_id for key in keys},
        status=ToolExecution.Status.FINISHED,
    )
    recorded = {CallKey(row.message_id, row.tool_call_id): row for row in rows}
    refused = {key for key, row in recorded.items() if row.refused}
    return results | {key: row.summary for key, row in recorded.items()}, refused


def record_calls(thread_id: str, asks: Sequence[Ask]) -> None:
    """Write down which calls people are asked about, before the outcome is returned: the ledger holds them from here
    on.
    """
    for ask in asks:
        for call in ask.calls:
            if call.key is None:
                continue
            ToolCall.objects.update_or_create(
                thread_id=thread_id,
                message_id=call.key.message_id,
                tool_call_id=call.key.tool_call_id,
                defaults={
                    "namespace": ask.namespace,
                    "interrupt_id": ask.interrupt_id,
                    "name": call.name,
                    "args": call.args,
                    "digest": digest({"name": call.name, "args": call.args}),
                },
            )
