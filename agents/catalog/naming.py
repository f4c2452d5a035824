"""Naming: proposes in a loop, and asks in each round until somebody agrees."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening
from agents.catalog.plain import agrees, front_door, say, wish
from agents.catalog.toolkit import origin

INTRODUCTION = "I am Naming. Tell me what needs a name; I propose one after the other until you take one."
NAMES = ("Brasslight", "Halo", "Evening", "Lantern", "Glow")


class NamingState(MessagesState):
    subject: str
    round: int
    answer: Any


def begin(state: NamingState) -> dict[str, Any]:
    """Start afresh: the thread may have named something else before."""
    return {"subject": wish(state), "round": 0, "answer": None}


def propose(state: NamingState) -> dict[str, Any]:
    heard = f"You said: {state['answer']}. " if state["round"] else ""
    text = f"{heard}Proposal {state['round'] + 1} of {len(NAMES)}: {NAMES[state['round']]}"
    return say(state, text, speaker="propose")


def ask(state: NamingState) -> dict[str, Any]:
    name = NAMES[state["round"]]
    answer = interrupt({"question": f"Do we take {name}?", "round": state["round"] + 1, "of": len(NAMES)})
    return {"answer": answer, "round": state["round"] + 1}


def conclude(state: NamingState, runtime: Runtime[Any]) -> dict[str, Any]:
    if not agrees(state["answer"]):
        return say(state, "I have no more names. We take none.", speaker="conclude")
    name = NAMES[state["round"] - 1]
    demo.record("name", {"subject": state["subject"], "name": name}, origin=origin(runtime), once=True)
    return say(state, f"{name} it is, after {state['round']} proposals.", speaker="conclude")


def _next(state: NamingState) -> str:
    return "conclude" if agrees(state["answer"]) or state["round"] >= len(NAMES) else "propose"


def build() -> Graph:
    builder = StateGraph(NamingState)
    for node in (begin, propose, ask, conclude):
        builder.add_node(node.__name__, node)
    front_door(builder, first="begin", introduction=INTRODUCTION)
    builder.add_edge("begin", "propose")
    builder.add_edge("propose", "ask")
    builder.add_conditional_edges("ask", _next, ["propose", "conclude"])
    builder.add_edge("conclude", END)
    return builder.compile(name="naming")


ENTRY = Entry(
    name="naming",
    title="Naming",
    description="A plain graph that asks in a loop, up to five times.",
    version="0.2.0",
    build=build,
    openings=(Opening("A name for the new lamp", "Find a name for the new lamp."),),
)
