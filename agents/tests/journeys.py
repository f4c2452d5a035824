"""Every agent there is, shipped or made for tests, each with a first input and a person who answers what it asks."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AnyMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import interrupt

from agents import registry, runs
from agents.catalog import ENTRIES
from agents.models import Run
from agents.outcome import Ask, Outcome, from_canonical
from agents.testing import ScriptedChatModel
from agents.tests import driving, graphs

Say = Literal["yes", "no"]
MAX_STEPS = 12  # of one journey


@dataclass(frozen=True)
class Journey:
    """``build`` is None for an agent of the catalog. ``given``: the first run's payload."""

    name: str
    given: Mapping[str, Any]
    build: Callable[[graphs.Record], Any] | None = None
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list, compare=False)

    def begin(self) -> str:
        thread_id = runs.create_thread(self.name, author="olga", title=self.name)
        runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload=dict(self.given), author="olga")
        return thread_id

    def graph(self) -> Any:
        assert self.build is not None
        return self.build(graphs.into(self.ran))


# ------------------------------------------------------------------------------------------------------ the graphs here


class DeltaState(AgentState[Any]):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def delta_agent(record: graphs.Record) -> Any:
    """The test agent, with its messages kept as writes."""
    return create_agent(
        ScriptedChatModel(script=graphs.proposing()),
        graphs.tools(record),
        middleware=[HumanInTheLoopMiddleware(graphs.POLICY)],
        state_schema=DeltaState,
    )


class Counting(graphs.Verdict):
    count: Annotated[int, operator.add]


def remembering(record: graphs.Record) -> Any:
    """A subgraph that remembers how often it ran, called before each of two questions."""

    def count(state: Counting) -> dict[str, Any]:
        number = state.get("count", 0) + 1
        record(f"count {number}", {}, None)
        return {"count": 1, "log": {f"count {number}": number}}

    inner = StateGraph(Counting, input_schema=graphs.Verdict, output_schema=graphs.Verdict)
    inner.add_node("count", count)
    inner.add_edge(START, "count")
    inner.add_edge("count", END)

    def ask(state: graphs.Log) -> dict[str, Any]:
        return {"log": {f"asked {len(state['log'])}": interrupt("again?")}}

    builder = StateGraph(graphs.Log)
    builder.add_node("sub", inner.compile(checkpointer=True))
    builder.add_node("ask", ask)
    builder.add_edge(START, "sub")
    builder.add_edge("sub", "ask")
    builder.add_conditional_edges("ask", lambda state: "sub" if len(state["log"]) < 4 else END, ["sub", END])
    return builder.compile()


def own_question_beside(record: graphs.Record) -> Any:
    """A node that acts and one that asks twice, side by side."""

    def twice(state: graphs.Log) -> dict[str, Any]:
        return {"log": {"twice": [interrupt("one?"), interrupt("two?")]}}

    builder = StateGraph(graphs.Log)
    builder.add_node("act", graphs.noting(record, "act"))
    builder.add_node("twice", twice)
    builder.add_node("after", graphs.noting(record, "after"))
    for node in ("act", "twice"):
        builder.add_edge(START, node)
    builder.add_edge(["act", "twice"], "after")
    builder.add_edge("after", END)
    return builder.compile()


# --------------------------------------------------------------------------------------------------------- all journeys

_SHOP = graphs.turns(
    [("pay", {"amount": 5}), ("read", {"id": 1})], [("mail", {"to": "a@b.test"})], [("read", {"id": 2})]
)
_TALK: dict[str, Any] = {"text": _SHOP}
_BRIEF: dict[str, Any] = {"text": graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})])}
_LOG: dict[str, Any] = {"values": {"log": {}}}
_HAND_ON = {"text": graphs.turns([("delegate", {"task": graphs.turns([("pay", {"amount": 5})])}), ("read", {"id": 1})])}
_ASKING = {"text": graphs.turns([("read", {"id": 1}), ("ask_inside", {"question": "well?"}), ("pay", {"amount": 1})])}


def stops_deep_inside(record: graphs.Record) -> Any:
    return graphs.chain(("outer", graphs.stops_inside(record, when="after")))


MADE: dict[str, tuple[Mapping[str, Any], Callable[[graphs.Record], Any]]] = {
    "brief": (_BRIEF, lambda record: graphs.agent(record)),
    "brief-per-call": (_BRIEF, lambda record: graphs.agent(record, mode="per_call")),
    "batched": (_TALK, lambda record: graphs.agent(record)),
    "per-call": (_TALK, lambda record: graphs.agent(record, mode="per_call")),
    "repeated-ids": (_TALK, lambda record: graphs.agent(record, repeat_ids=True)),
    "stops-before-tools": (_TALK, lambda record: graphs.agent(record, interrupt_before=["tools"])),
    "asks-inside": (_ASKING, lambda record: graphs.agent(record)),
    "delegating": (_HAND_ON, graphs.delegating),
    "delta": (_TALK, delta_agent),
    "asks": (_LOG, lambda record: graphs.asks("q")),
    "asks-twice": (_LOG, lambda record: graphs.asks_twice()),
    "acts-then-asks": (_LOG, graphs.acts_then_asks),
    "parallel": (_LOG, lambda record: graphs.parallel()),
    "beside": (_LOG, own_question_beside),
    "nested": (_LOG, graphs.nested),
    "loop": (_LOG, lambda record: graphs.loop()),
    "three-tools": (_LOG, graphs.three_tools),
    "three-tasks": (_LOG, graphs.three_tasks),
    "breakpoint-before": (_LOG, graphs.breakpoint_before),
    "breakpoint-after": (_LOG, graphs.breakpoint_after),
    "stops-inside": (_LOG, graphs.stops_inside),
    "stops-deep-inside": (_LOG, stops_deep_inside),
    "remembering": (_LOG, remembering),
    "fails": (_LOG, lambda record: graphs.fails()),
}


BRIEF = ("brief", "brief-per-call", "delegating", "nested", "beside", "breakpoint-after")  # what the fast lane takes


def made(name: str) -> Journey:
    given, build = MADE[name]
    return Journey(name, given, build)


def shipped(name: str) -> list[Journey]:
    return [Journey(name, {"text": opening.say}) for opening in ENTRIES[name].openings]


# ----------------------------------------------------------------------------------------------------------- the person


def walk(thread_id: str, say: Say = "yes") -> list[Outcome]:
    """Do what is due and answer what is asked, one question after the other, until nothing is left to do."""
    outcomes = [driving.step(thread_id)]
    for _ in range(MAX_STEPS):
        if not outcomes[-1].asks:
            return outcomes
        reply(thread_id, outcomes[-1].asks[0], say)
        outcomes.append(driving.step(thread_id))
    raise AssertionError(f"{thread_id} asks on and on")


def reply(thread_id: str, ask: Ask, say: Say) -> str:
    """Line up a person's answer to one question, in the dialect in which it was asked."""
    value = from_canonical(ask.value)
    if ask.kind == "breakpoint":
        verdict = "approve" if say == "yes" else "reject"
        return driving.answer(thread_id, ask, {"type": verdict}, [verdict])
    if isinstance(value, dict) and "action_requests" in value:
        allowed = [config["allowed_decisions"] for config in value["review_configs"]]
        chosen = [_decision(one, say) for one in allowed]
        return driving.answer(thread_id, ask, {"decisions": chosen}, [one["type"] for one in chosen])
    if isinstance(value, dict) and value.get("type") in ("tool_approval", "outcome_unknown"):
        one = _decision(list((ask.response_schema or {}).get("$defs") or {"approve": 0, "reject": 0}), say)
        return driving.answer(thread_id, ask, one, [one["type"]])
    if ask.response_schema:
        trip = {"city": "Oslo", "departure": "2027-05-01", "nights": 2}
        fits = {"agreed": say == "yes"} if "agreed" in ask.response_schema["properties"] else trip
        return driving.answer(thread_id, ask, fits, ["respond"])
    return driving.answer(thread_id, ask, say, ["respond"])


def _decision(allowed: list[str], say: Say) -> dict[str, Any]:
    names = [name.lower().removesuffix("decision") for name in allowed]
    wanted = "approve" if say == "yes" else "reject"
    if any(wanted in name for name in names):
        return {"type": wanted}
    return {"type": "respond", "message": f"A person says {say}."}


def registered(journey: Journey) -> Any:
    """Register a journey's agent for the time of a test; those of the catalog are there already."""
    if journey.build is None:
        return contextlib.nullcontext()
    return registry.override(journey.name, journey.graph)


def every() -> list[Any]:
    """Return all journeys as pytest parameters."""
    made_ones = [pytest.param(made(name), id=name) for name in MADE]
    ours = [(journey, f"{name} {at}") for name in sorted(ENTRIES) for at, journey in enumerate(shipped(name))]
    return [*made_ones, *(pytest.param(journey, id=title) for journey, title in ours)]
