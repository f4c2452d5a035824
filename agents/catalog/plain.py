"""What the catalog's plain graphs (no agent, no tools) have in common."""

from __future__ import annotations

import re
from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph

from agents.catalog.reading import wishes
from agents.testing import said

_GREETING = re.compile(r"\A\s*(?:help|hello|hi|hey)\b|\bwhat can you\b|\bwho are you\b|\A\W*\Z", re.IGNORECASE)
_YES = re.compile(r"\A\W*(?:y|yes|ok|okay|sure|ship|go|agree[ds]?|approve[ds]?|take|true|fine|good)\b", re.IGNORECASE)

Builder = StateGraph[Any, Any, Any, Any]


def wish(state: MessagesState) -> str:
    """Return what was said last by a person."""
    return next(iter(wishes(state["messages"])), "").strip()


def say(state: MessagesState, text: str, *, speaker: str) -> dict[str, Any]:
    """Return the update by which a node speaks."""
    return {"messages": [said(state["messages"], text, speaker=speaker)]}


def agrees(answer: Any) -> bool:
    """Read a free answer (text, or any JSON value) as yes or no; what is unclear is a no."""
    return answer is True or (isinstance(answer, str) and bool(_YES.match(answer)))


def front_door(builder: Builder, *, first: str, introduction: str) -> None:
    """Let a graph start at ``first``, or introduce itself to somebody who only greets it."""

    def introduce(state: MessagesState) -> dict[str, Any]:
        return say(state, introduction, speaker="introduce")

    def enter(state: MessagesState) -> str:
        return "introduce" if _GREETING.search(wish(state)) else first

    builder.add_node("introduce", introduce)
    builder.add_conditional_edges(START, enter, ["introduce", first])
    builder.add_edge("introduce", END)
