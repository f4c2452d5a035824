"""What stands on a thread, as its streams may show it: messages pass the agent's own transformers before they are told.

So a page that starts from here shows no more than one that watched from the beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents import registry, values
from agents.compiled import Compiled
from agents.conversation import fates, views, with_results
from agents.head import messages_of
from agents.models import Thread
from agents.outcome import MessageView
from agents.registry import Registered
from agents.streams.rows import base
from agents.streams.transformers import through

log = logging.getLogger(__name__)

WITHHELD = "(not shown live by this agent)"


def standing(thread_id: str) -> tuple[int, tuple[MessageView, ...]]:
    """Return (number, messages): all that was told up to the number, and nothing of what was told after it."""
    seq, checkpoint_id = base(thread_id)
    if checkpoint_id == "":
        return seq, ()
    try:
        try:
            point = values.Point(thread_id, checkpoint_id or values.head_of(thread_id))
            stored = values.read(point)
        except values.UnknownCheckpoint:  # it was rolled back, or its worker died before it was stored
            stored = values.read_head(thread_id)
    except values.UnknownCheckpoint:
        return seq, ()
    return seq, _shown(thread_id, messages_of(stored.values))


def conversation(thread_id: str) -> tuple[MessageView, ...]:
    """Return the conversation at the head of a thread as its streams may show it. () for a new thread."""
    try:
        return _shown(thread_id, messages_of(values.read_head(thread_id).values))
    except values.UnknownCheckpoint:
        return ()


_REDACTS = Compiled(lambda thread: Thread.objects.filter(pk=thread).values_list("agent_id", "agent__redacts"))


def _shown(thread_id: str, messages: Sequence[Any]) -> tuple[MessageView, ...]:
    [(name, redacts)] = _REDACTS(thread_id)
    if redacts == "no":
        return with_results(thread_id, messages)
    try:
        agent = registry.get(name)
    except (registry.UnknownAgent, registry.UnusableAgent):
        return tuple(map(_withheld, views(messages, fates=fates(thread_id))))
    told = tellable(agent, messages)
    shown = views(messages if told is None else told, fates=fates(thread_id))
    return tuple(map(_withheld, shown)) if told is None else shown


def tellable(agent: Registered, messages: Sequence[Any]) -> list[Any] | None:
    """Return messages as the agent's transformers let them through; None where they see no states, or refuse."""
    if agent.redacts == "no":
        return list(messages)
    if not agent.trusting:
        return None
    try:
        return asyncio.run(through(agent.graph, messages))
    except Exception as refusal:  # such as PIIMiddleware's `block`; its words are not for the log
        log.info("a transformer refuses a state", extra={"agent": agent.name, "error": type(refusal).__name__})
        return None


def _withheld(view: MessageView) -> MessageView:
    calls = tuple(replace(call, result=None if call.result is None else WITHHELD) for call in view.calls)
    return replace(view, content=WITHHELD if view.content else "", reasoning="", calls=calls)
