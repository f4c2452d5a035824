"""Onboarding: the question comes from inside a subgraph, two levels down."""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening
from agents.catalog.plain import agrees, front_door, say, wish
from agents.catalog.toolkit import origin

INTRODUCTION = "I am Onboarding. Tell me who joins; I open an account when a person has checked who it is."


class CheckState(TypedDict):
    applicant: str
    verdict: str


class OnboardingState(MessagesState):
    applicant: str
    verdict: str


def collect(state: OnboardingState) -> dict[str, Any]:
    return {"applicant": wish(state)} | say(state, "I have the papers, and start the checks.", speaker="collect")


def check_identity(state: CheckState) -> dict[str, Any]:
    answer = interrupt({"question": "Do the papers belong to this person?", "applicant": state["applicant"]})
    return {"verdict": "" if agrees(answer) else str(answer) or "no answer"}


def _around(name: str, inner: Any) -> Graph:
    """Compile a graph of one node, which is a function or again a graph."""
    builder = StateGraph(CheckState)
    builder.add_node(name, inner)
    builder.add_edge(START, name)
    builder.add_edge(name, END)
    return builder.compile(name=f"{name}_graph")


def open_account(state: OnboardingState, runtime: Runtime[Any]) -> dict[str, Any]:
    if state["verdict"]:
        return say(state, f"I open no account. A colleague said: {state['verdict']}", speaker="open_account")
    demo.record("account", {"applicant": state["applicant"]}, origin=origin(runtime), once=True)
    return say(state, "The account is open.", speaker="open_account")


def build() -> Graph:
    builder = StateGraph(OnboardingState)
    builder.add_node("collect", collect)
    builder.add_node("checks", _around("identity", _around("check_identity", check_identity)))
    builder.add_node("open_account", open_account)
    front_door(builder, first="collect", introduction=INTRODUCTION)
    builder.add_edge("collect", "checks")
    builder.add_edge("checks", "open_account")
    builder.add_edge("open_account", END)
    return builder.compile(name="onboarding")


ENTRY = Entry(
    name="onboarding",
    title="Onboarding",
    description="A plain graph whose question comes from a subgraph inside a subgraph.",
    version="0.4.0",
    build=build,
    openings=(Opening("Account for Mara Lind", "Open an account for Mara Lind, mara.lind@example.test."),),
)
