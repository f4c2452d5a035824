"""Publishing: three branches ask at the same time; one of them is a graph of its own."""

from __future__ import annotations

import operator
import re
from typing import Annotated, Any

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.plain import agrees, front_door, wish
from agents.catalog.reading import wishes
from agents.catalog.toolkit import origin
from agents.testing import Turn, said

INTRODUCTION = "I am Publishing. Send me a text; I publish it when legal, brand and security agree."
TONE = {
    "type": "object",
    "title": "Verdict on the tone",
    "properties": {
        "agreed": {"type": "boolean", "title": "Agreed", "description": "The tone is ours"},
        "remark": {"type": "string", "title": "Remark", "maxLength": 200, "description": "Up to 200 characters"},
    },
    "required": ["agreed"],
}


class Verdicts(TypedDict):
    verdicts: Annotated[dict[str, str], operator.or_]


class PublishingState(MessagesState, Verdicts):
    text: str


class SecurityState(Verdicts):
    text: str
    addresses: int


def write(state: PublishingState) -> dict[str, Any]:
    """Draft with the model, so that the text can be watched as it is written."""
    draft = chat_model(lambda messages: Turn(f"Draft: {next(iter(wishes(messages)), '')}")).invoke(state["messages"])
    return {"text": wish(state), "messages": [draft]}


def ask_legal(state: PublishingState) -> dict[str, Any]:
    answer = interrupt(f"Legal: may we publish this? {state['text']}")
    return {"verdicts": {"legal": "agreed" if agrees(answer) else f"objected: {answer}"}}


def ask_brand(state: PublishingState) -> dict[str, Any]:
    answer = interrupt({"question": "Brand: is this our tone?", "text": state["text"]}, response_schema=TONE)
    verdict = answer if isinstance(answer, dict) else {"agreed": agrees(answer)}
    agreed = verdict.get("agreed") is True
    return {"verdicts": {"brand": "agreed" if agreed else f"objected: {verdict.get('remark', 'no remark')}"}}


def scan(state: SecurityState) -> dict[str, Any]:
    return {"addresses": len(re.findall(r"https?://|@", state["text"]))}


def ask_security(state: SecurityState) -> dict[str, Any]:
    answer = interrupt({"question": "Security: is it safe to publish?", "addresses": state["addresses"]})
    return {"verdicts": {"security": "agreed" if agrees(answer) else f"objected: {answer}"}}


def security() -> Graph:
    """Compile the branch that is a graph of its own; it hands back its verdict and nothing else."""
    builder = StateGraph(SecurityState, output_schema=Verdicts)
    builder.add_node("scan", scan)
    builder.add_node("ask_security", ask_security)
    builder.add_edge(START, "scan")
    builder.add_edge("scan", "ask_security")
    builder.add_edge("ask_security", END)
    return builder.compile(name="security")


def publish(state: PublishingState, runtime: Runtime[Any]) -> dict[str, Any]:
    verdicts = {name: state["verdicts"][name] for name in ("legal", "brand", "security")}
    against = [f"{name} {verdict}" for name, verdict in verdicts.items() if verdict != "agreed"]
    if against:
        return {"messages": [said(state["messages"], f"Not published: {'; '.join(against)}.", speaker="publish")]}
    path = demo.write_text("published/note.md", state["text"] + "\n", overwrite=True)
    demo.record("publication", {"text": state["text"], "verdicts": verdicts}, origin=origin(runtime), once=True)
    return {"messages": [said(state["messages"], f"All three agreed. Published as {path}.", speaker="publish")]}


def build() -> Graph:
    builder = StateGraph(PublishingState)
    for node in (write, ask_legal, ask_brand, publish):
        builder.add_node(node.__name__, node)
    builder.add_node("security", security())
    front_door(builder, first="write", introduction=INTRODUCTION)
    for branch in ("ask_legal", "ask_brand", "security"):
        builder.add_edge("write", branch)
    builder.add_edge(["ask_legal", "ask_brand", "security"], "publish")
    builder.add_edge("publish", END)
    return builder.compile(name="publishing")


ENTRY = Entry(
    name="publishing",
    title="Publishing",
    description="A plain graph with three questions at once: a free one, one with a schema, one inside a subgraph.",
    version="1.0.3",
    build=build,
    openings=(Opening("Note on Sunday's maintenance", "On Sunday from 6 to 8 the shop is closed for maintenance."),),
)
