"""The agents of ``make bench-click`` and ``make bench-stream``. None waits for a model.

``till`` is LangChain's agent with one gated tool; ``langgraph dev`` serves the very same from ``graph``.
``beacon`` tells things with the time of telling; ``talker`` writes words at a steady pace.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from agents.testing import Plan, ScriptedChatModel, Turn

PACE = 0.02  # seconds between two words: 50 a second


def pay(number: int) -> str:
    """Pay one thing."""
    return f"Paid number {number}."


def _till(messages: Sequence[BaseMessage]) -> Turn:
    if not isinstance(messages[-1], HumanMessage):
        return Turn("That is done.")
    return Turn("I pay it.", (Plan("pay", {"number": int(messages[-1].text)}),))


def till() -> Any:
    """Pay the number that the message holds, once a person approves it."""
    middleware = [HumanInTheLoopMiddleware({"pay": True})]
    return create_agent(ScriptedChatModel(script=_till), [pay], middleware=middleware, name="till")


def _tell(state: MessagesState) -> dict[str, Any]:
    from django.conf import settings  # not where `langgraph dev` serves another of these

    writer = get_stream_writer()
    go, count, apart = state["messages"][-1].text.split()
    while not Path(settings.DATA_DIR, go).exists():
        time.sleep(0.02)  # the bench makes the file once everybody watches
    for number in range(int(count)):
        writer({"number": number, "at": time.time()})
        time.sleep(float(apart))
    return {"messages": [AIMessage("Told.")]}


def beacon() -> Any:
    """Wait for a file, then tell so many things so far apart: the message is ``<file> <count> <seconds>``."""
    builder = StateGraph(MessagesState)
    builder.add_node("tell", _tell)
    builder.add_edge(START, "tell")
    builder.add_edge("tell", END)
    return builder.compile(name="beacon")


def _talk(messages: Sequence[BaseMessage]) -> Turn:
    return Turn(" ".join(f"word{number}" for number in range(int(messages[-1].text))))


def talker() -> Any:
    """Write as many words as the message says, PACE apart."""
    return create_agent(ScriptedChatModel(script=_talk, delay=PACE), [], name="talker")


graph = till()
