"""Release: a plain graph that asks twice with free questions, one a bare text, one with options."""

from __future__ import annotations

import re
from typing import Any

from langgraph.graph import END, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening
from agents.catalog.plain import agrees, front_door, say, wish
from agents.catalog.toolkit import origin

INTRODUCTION = "I am Release. Tell me what to ship (“Ship build 42”); I ask whether, and where to."


class ReleaseState(MessagesState):
    build: str
    agreed: bool
    answer: str
    region: str


def read(state: ReleaseState) -> dict[str, Any]:
    number = re.search(r"\d+", wish(state))
    build = f"build {number[0]}" if number else "the latest build"
    return {"build": build} | say(state, f"The tests of {build} have passed.", speaker="read")


def confirm(state: ReleaseState) -> dict[str, Any]:
    answer = interrupt(f"Ship {state['build']} to staging?")
    return {"agreed": agrees(answer), "answer": str(answer)}


def choose_region(state: ReleaseState) -> dict[str, Any]:
    question = {"question": f"Which region gets {state['build']} first?", "options": ["eu", "us"]}
    return {"region": str(interrupt(question))}


def ship(state: ReleaseState, runtime: Runtime[Any]) -> dict[str, Any]:
    demo.record("deployment", {"build": state["build"], "region": state["region"]}, origin=origin(runtime), once=True)
    return say(state, f"Shipped {state['build']} to staging in {state['region']}.", speaker="ship")


def hold(state: ReleaseState) -> dict[str, Any]:
    return say(state, f"I do not ship {state['build']}. You said: {state['answer']}", speaker="hold")


def build() -> Graph:
    builder = StateGraph(ReleaseState)
    for node in (read, confirm, choose_region, ship, hold):
        builder.add_node(node.__name__, node)
    front_door(builder, first="read", introduction=INTRODUCTION)
    builder.add_edge("read", "confirm")
    builder.add_conditional_edges(
        "confirm", lambda state: "choose_region" if state["agreed"] else "hold", ["choose_region", "hold"]
    )
    builder.add_edge("choose_region", "ship")
    builder.add_edge("ship", END)
    builder.add_edge("hold", END)
    return builder.compile(name="release")


ENTRY = Entry(
    name="release",
    title="Release",
    description="A plain graph that stops with a question in its own words, and takes any answer.",
    version="3.0.1",
    build=build,
    openings=(Opening("Ship build 42", "Ship build 42."),),
)
