"""A conversation as people read it: messages, each tool call with its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from django.db.models import Q
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agents import values
from agents.compiled import Compiled
from agents.head import messages_of
from agents.models import Thread, ToolExecution
from agents.outcome import MessageView, ToolCallView

Results = Mapping[tuple[str, str], tuple[str, bool]]  # (message id, call id) -> text, whether it is an error
Fates = Mapping[tuple[str, str], bool]  # (message id, call id) -> whether the tool was entered


def conversation(thread_id: str) -> tuple[MessageView, ...]:
    """Return the messages at the head of a thread, oldest first, each call with its result. () for a new thread."""
    try:
        stored = values.read_head(thread_id)
    except values.UnknownCheckpoint:
        return ()
    return with_results(thread_id, messages_of(stored.values))


def conversation_at(thread_id: str, checkpoint_id: str) -> tuple[MessageView, ...]:
    """Return the messages at a checkpoint, as ``conversation`` does; () for "". Raises UnknownCheckpoint."""
    if not checkpoint_id:
        return ()
    stored = values.read(values.Point(thread_id, checkpoint_id))
    return with_results(thread_id, messages_of(stored.values))


def with_results(thread_id: str, messages: Sequence[Any]) -> tuple[MessageView, ...]:
    """Return messages of a thread for display, each call with all that the ledger knows of it."""
    return views(messages, _recorded(thread_id), fates(thread_id))


_ENDED = ["finished", "failed"]
_RECORDED = Compiled(
    lambda thread: ToolExecution.objects.filter(thread=thread, status__in=_ENDED).values_list(
        "message_id", "tool_call_id", "summary", "is_error"
    )
)
_THREAD = Compiled(lambda pk: Thread.objects.filter(pk=pk).select_related("ancestor"))
_FATES = Compiled(
    lambda threads: (
        ToolExecution.objects.filter(thread__any_of=threads, status__in=_ENDED)
        .filter(Q(calls__gt=0) | Q(refused=True))
        .values_list("message_id", "tool_call_id", "calls")
    )
)


def _recorded(thread_id: str) -> Results:
    """Return what the ledger knows of calls whose step is still open."""
    return {(message, call): (summary, is_error) for message, call, summary, is_error in _RECORDED(thread_id)}


def fates(thread_id: str) -> Fates:
    """Return which calls ran, as far as the ledger knows, and which their tool refused; in forks also before it."""
    [thread] = _THREAD(thread_id)
    found: dict[tuple[str, str], bool] = {}
    for message_id, call_id, calls in _FATES(thread.lineage()):
        found[message_id, call_id] = found.get((message_id, call_id), False) or calls > 0
    return found


def views(
    messages: Sequence[Any], recorded: Results | None = None, fates: Fates | None = None
) -> tuple[MessageView, ...]:
    """Return messages for display. ``recorded``: results that are known beside those among the messages."""
    results = _results(messages, recorded or {})
    made = {call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
    # A tool message is shown inside the call that it answers.
    return tuple(
        _view(message, results, fates or {})
        for message in messages
        if not (isinstance(message, ToolMessage) and message.tool_call_id in made)
    )


def _results(messages: Sequence[Any], recorded: Results) -> Results:
    """Map (message id, call id) to the call's result: from the messages, else as recorded."""
    results = dict(recorded)
    current: dict[str, str] = {}  # call id -> message that made the call last: ids come again each turn
    for message in messages:
        if isinstance(message, AIMessage):
            current |= {call["id"] or "": message.id or "" for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in current:
            key = (current[message.tool_call_id], message.tool_call_id)
            results[key] = (text_of(message), message.status == "error")
    return results


def _view(message: Any, results: Results, fates: Fates) -> MessageView:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return MessageView(
        id=getattr(message, "id", None) or "",
        role=_role(message),
        content=text_of(message),
        name=getattr(message, "name", None) or "",
        reasoning=reasoning_of(message),
        calls=tuple(_call(getattr(message, "id", None) or "", call, results, fates) for call in calls),
    )


def _call(message_id: str, call: Any, results: Results, fates: Fates) -> ToolCallView:
    key = (message_id, call["id"] or "")
    result, error = results.get(key, (None, False))
    ran = fates.get(key)
    return ToolCallView(id=key[1], name=call["name"], args=call["args"], result=result, error=error, ran=ran)


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


def text_of(message: Any) -> str:
    """Return the text of a message whose content is text or a list of blocks; other blocks are named, not shown.

    What is no message (a row may name a class that is never built) stands there as the data it is.
    """
    if not isinstance(message, BaseMessage):
        return values.shown_bytes(message).decode("ascii")
    if isinstance(message.content, str):
        return message.content
    parts = [_block(block) for block in message.content]
    return "\n".join(part for part in parts if part)


def _block(block: str | dict[str, Any]) -> str:
    if isinstance(block, str):
        return block
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return "" if block.get("type") in _ELSEWHERE else f"[{block.get('type', 'block')}]"


_THOUGHTS = ("reasoning", "thinking")
_ELSEWHERE = (*_THOUGHTS, "tool_call", "tool_use")  # shown as what they are, beside the text


def reasoning_of(message: Any) -> str:
    """Return what a model thought before it answered, blocks after each other; "" where it keeps that to itself."""
    if not isinstance(message, AIMessage):
        return ""
    if isinstance(message.content, str):
        return str(message.additional_kwargs.get("reasoning_content") or "")
    blocks = [block for block in message.content if isinstance(block, dict) and block.get("type") in _THOUGHTS]
    return "\n\n".join(filter(None, map(thought_in, blocks)))


def thought_in(block: Mapping[str, Any]) -> str:
    """Return the words of a reasoning block in the shapes of several providers."""
    for name in ("reasoning", "thinking", "text"):
        if isinstance(text := block.get(name), str) and text:
            return text
    summary = block.get("summary")
    return "".join(str(one.get("text", "")) for one in summary) if isinstance(summary, list) else ""
