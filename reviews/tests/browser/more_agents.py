"""Agents for tests: one moves money between long numbers, one asks what it is told to, one is a choir, one a flood."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agents import demo
from agents.catalog.entry import Entry, Graph, chat_model
from agents.catalog.reading import latest, steps
from agents.catalog.toolkit import origin
from agents.testing import Plan, Turn, said
from reviews.tests.browser import chorus
from reviews.tests.cases.builders import CASES

_FIELD = {case["id"]: case for case in json.loads((CASES / "cases.json").read_text(encoding="utf-8"))}
TRANSFER: dict[str, Any] = _FIELD["HC-07"]["input"]["args"]
HOSTILE: dict[str, Any] = _FIELD["HC-04"]["input"]


# --------------------------------------------------------------------------------------------------------- big numbers


@tool
def transfer(
    account: int, snow: int, u64: int, low: int, price: float, whole: float, note: str, runtime: ToolRuntime
) -> str:
    """Move money from one account to another."""
    given = {"account": account, "snow": snow, "u64": u64, "low": low, "price": price, "whole": whole, "note": note}
    demo.record("transfer", given, origin=origin(runtime))
    return "Moved."


def _transferring(messages: Sequence[BaseMessage]) -> Turn:
    if latest(steps(messages), "transfer"):
        return Turn("That is all.")
    return Turn("I move the money.", (Plan("transfer", TRANSFER),))


def build_bank() -> Graph:
    return create_agent(
        chat_model(_transferring),
        [transfer],
        middleware=[HumanInTheLoopMiddleware({"transfer": InterruptOnConfig(allowed_decisions=["approve", "edit"])})],
        name="bank",
    )


# ------------------------------------------------------------------------------------------------------- asks anything


def _ask(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    text = state["messages"][-1].text
    answer = interrupt(json.loads(text))
    demo.record("answer", {"answer": answer}, origin=origin(runtime))
    return {"messages": [said(state["messages"], text)]}


def build_parrot() -> Graph:
    """A graph that pauses with the JSON of the last message as its value, notes the answer, and says the text back."""
    builder = StateGraph(MessagesState)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(name="parrot")


# -------------------------------------------------------------------------------------------------------- tells a lot


GO = "pour"  # in the data folder


def _pour(state: MessagesState) -> dict[str, Any]:
    tell = get_stream_writer()
    text = state["messages"][-1].text
    while not (Path(settings.DATA_DIR) / GO).exists():
        time.sleep(0.02)  # a test in another process makes the file once everybody watches
    for number in range(int(text)):
        tell({"number": number, "filling": "x" * 400})
        if number % 100 == 99:
            time.sleep(0.03)
    return {"messages": [said(state["messages"], text)]}


def build_torrent() -> Graph:
    """A graph that waits for a file, and then tells as many things of its own as it was told to."""
    builder = StateGraph(MessagesState)
    builder.add_node("pour", _pour)
    builder.add_edge(START, "pour")
    builder.add_edge("pour", END)
    return builder.compile(name="torrent")


def _entry(name: str, title: str, build: Callable[[], Graph]) -> Entry:
    return Entry(name=name, title=title, description="For tests.", version="1.0", build=build, openings=())


_ALL = (
    _entry("bank", "Bank", build_bank),
    _entry("parrot", "<b>Parrot</b>", build_parrot),
    _entry("chorus", "Chorus", chorus.build),
    _entry("torrent", "Torrent", build_torrent),
)
ENTRIES = {entry.name: entry for entry in _ALL}
