"""What happened on a thread, for people to read: the conversation at its head. Needs no graph, only stored rows."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agents.checkpointer import DjangoSaver
from agents.head import messages_of
from agents.models import ToolExecution
from agents.outcome import MessageView, Snapshot, ToolCallView, canonical_bytes

_saver = DjangoSaver()


def conversation(thread_id: str) -> tuple[MessageView, ...]:
    """Return the messages at the head of a thread, oldest first, each tool call with its result.

    () for a new thread.
    """
    snapshot = head_snapshot(thread_id)
    return snapshot.messages if snapshot else ()


def head_snapshot(thread_id: str) -> Snapshot | None:
    """Return the head of a thread as it stands, or None before its first checkpoint."""
    saved = _saver.get_tuple({"configurable": {"thread_id": thread_id}})
    if saved is None:
        return None
    values = saved.checkpoint["channel_values"]
    others = {key: value for key, value in values.items() if key != "messages" and not _is_internal(key)}
    return Snapshot(
        thread_id=thread_id,
        checkpoint_id=saved.config["configurable"]["checkpoint_id"],
        messages=_views(thread_id, messages_of(values)),
        values=canonical_bytes(others),
    )


def _is_internal(channel: str) -> bool:
    return channel.startswith(("__", "branch:"))


def _views(thread_id: str, messages: list[Any]) -> tuple[MessageView, ...]:
    results = _results(thread_id, messages)
    told = {index for index, message in enumerate(messages) if _is_told(message, messages)}
    return tuple(_view(message, results) for index, message in enumerate(messages) if index not in told)


def _is_told(message: Any, messages: list[Any]) -> bool:
    """A tool message is shown inside the call that it answers."""
    return isinstance(message, ToolMessage) and any(
        call["id"] == message.tool_call_id for one in messages if isinstance(one, AIMessage) for call in one.tool_calls
    )


def _results(thread_id: str, messages: list[Any]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Map (message id, call id) to the call's result: from the messages, or from the ledger while the step is open."""
    rows = ToolExecution.objects.filter(thread_id=thread_id, status__in=["finished", "failed"])
    results = {(row.message_id, row.tool_call_id): (row.summary, row.is_error) for row in rows}
    current: dict[str, str] = {}  # call id -> message that made the call last: ids come again each turn
    for message in messages:
        if isinstance(message, AIMessage):
            current |= {call["id"] or "": message.id or "" for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in current:
            key = (current[message.tool_call_id], message.tool_call_id)
            results[key] = (text_of(message), message.status == "error")
    return results


def _view(message: Any, results: dict[tuple[str, str], tuple[str, bool]]) -> MessageView:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return MessageView(
        id=message.id or "",
        role=_role(message),
        content=text_of(message),
        name=message.name or "",
        calls=tuple(_call(message.id or "", call, results) for call in calls),
    )


def _call(message_id: str, call: Any, results: dict[tuple[str, str], tuple[str, bool]]) -> ToolCallView:
    result, error = results.get((message_id, call["id"]), (None, False))
    return ToolCallView(id=call["id"] or "", name=call["name"], args=call["args"], result=result, error=error)


def _role(message: Any) -> Literal["human", "ai", "tool", "system", "other"]:
    match message:
        case HumanMessage():
            return "human"
        case AIMessage():
            return "ai"
        case ToolMessage():
            return "tool"
        case SystemMessage():
            return "system"
        case _:
            return "other"


def text_of(message: BaseMessage) -> str:
    """Return the text of a message whose content is text or a list of blocks; other blocks are named, not shown."""
    if isinstance(message.content, str):
        return message.content
    parts = [_block(block) for block in message.content]
    return "\n".join(part for part in parts if part)


def _block(block: str | dict[str, Any]) -> str:
    if isinstance(block, str):
        return block
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return "" if block.get("type") in ("tool_call", "tool_use") else f"[{block.get('type', 'block')}]"
