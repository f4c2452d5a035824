"""The agent and the words of the benchmarks: a model that needs no network, and text that does not compress like a toy.

A vocabulary of 6,000 made-up words, drawn by Zipf's law as in a real language: repeated sentences would shrink to
nothing in PostgreSQL's compression, and flatter whoever stores them most often.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agents.testing import Plan, ScriptedChatModel, Turn, spoken

_SYLLABLES = [a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "ai", "er", "on", "th", "st")]


def _vocabulary() -> list[str]:
    draw = random.Random(5)  # noqa: S311  # words, not secrets
    return ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(6_000)]


_WORDS = _vocabulary()
_WEIGHTS = [1 / (rank + 3) for rank in range(len(_WORDS))]


def text(seed: str, words: int = 60) -> str:
    """Return the same ``words`` words for a seed, about 6.5 characters each with the blank."""
    return " ".join(random.Random(seed).choices(_WORDS, _WEIGHTS, k=words))  # noqa: S311


def messages(count: int) -> list[BaseMessage]:
    """Return a conversation of ``count`` messages, four a turn."""
    made: list[BaseMessage] = []
    for number in range(count):
        match number % 4:
            case 0:
                made.append(HumanMessage(content=text(f"h{number}"), id=f"h-{number}"))
            case 1:
                call = {"name": "look_up", "args": {"query": text(f"q{number}", 8)}, "id": f"call-{number}"}
                made.append(AIMessage(content=text(f"a{number}", 20), tool_calls=[call], id=f"a-{number}"))
            case 2:
                made.append(ToolMessage(text(f"t{number}"), tool_call_id=f"call-{number - 1}", id=f"t-{number}"))
            case _:
                made.append(AIMessage(content=text(f"a{number}"), id=f"a-{number}"))
    return made


def look_up(query: str) -> str:
    """Look something up."""
    return text(query)


def _script(calls: int) -> Any:
    """Call the tool ``calls`` times after each human message, then answer."""

    def script(told: Sequence[BaseMessage]) -> Turn:
        said = spoken(told)
        start = max(at for at, message in enumerate(said) if isinstance(message, HumanMessage))
        done = sum(isinstance(message, ToolMessage) for message in said[start:])
        seed = f"{len(said)} {said[start].text[:40]}"
        if done < calls:
            return Turn(text(seed, 20), (Plan("look_up", {"query": text(f"{seed}?", 8)}),))
        return Turn(text(seed))

    return script


def build(*, calls: int, asks: bool = False) -> Any:
    """Return a compiled agent: one step of the model and one of the tool for each call, and a last one of the model.

    ``asks``: it pauses before the tool, for a person to approve.
    """
    middleware = [HumanInTheLoopMiddleware({"look_up": True})] if asks else []
    return create_agent(ScriptedChatModel(script=_script(calls)), [look_up], middleware=middleware)
