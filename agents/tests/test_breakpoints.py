"""Static breakpoints inside subgraphs: asked about like those of the graph itself, and never passed by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph

from agents import registry, runner, runs
from agents.models import Run, Thread
from agents.outcome import from_canonical
from agents.tests import graphs
from agents.tests.driving import answer, start, step
from agents.tests.journeys import stops_deep_inside

Ran = list[tuple[str, dict[str, Any]]]
VERDICTS = {"approve": "continued", "reject": "stopped"}


def begin(name: str) -> str:
    thread_id = start(name, "")
    Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
    return thread_id


def names(ran: Ran) -> list[str]:
    return [name for name, _ in ran]


def called_in_a_node(record: graphs.Record) -> graphs.Graph:
    inner = graphs.breakpoint_before(record)

    def call(state: graphs.Log) -> dict[str, Any]:
        return {"log": inner.invoke(state)["log"]}

    return graphs.chain(
        ("before", graphs.noting(record, "before")), ("sub", call), ("after", graphs.noting(record, "after"))
    )


BUILDS = {
    "before": graphs.stops_inside,
    "after": lambda record: graphs.stops_inside(record, when="after"),
    "two levels down": stops_deep_inside,
    "called in a node": called_in_a_node,
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_it_asks_and_goes_on_only_when_told(shop: Any, build: Any, verdict: str) -> None:
    ran: Ran = []
    with registry.override("stops", lambda: build(graphs.into(ran))):
        thread_id = begin("stops")
        outcome = step(thread_id)
        assert outcome.status == "interrupted", outcome.error
        (ask,) = outcome.asks
        assert (ask.kind, names(ran)) == ("breakpoint", ["before", "first"])
        value = from_canonical(ask.value)
        assert (value["next"], value["inside"][0].split(" / ")[-1]) == (["second"], "sub")
        assert not runs.claimable()
        answer(thread_id, ask, {"type": verdict}, [verdict])
        done = step(thread_id)
    assert (done.status, done.asks) == ("success", ()), done.error
    rest = ["second", "after"] if verdict == "approve" else []
    assert names(ran) == ["before", "first", *rest]
    assert [effect.state for effect in done.effects] == [VERDICTS[verdict]]


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_run_that_is_taken_up_again_asks_and_passes_nothing(shop: Any, build: Any) -> None:
    """The worker died after the graph stopped, before it was told: the next one finds everything stored."""
    ran: Ran = []
    with registry.override("stops", lambda: build(graphs.into(ran))):
        thread_id = begin("stops")
        lease = runs.claim(thread_id, "dead")
        assert lease is not None
        runner.advance(lease, emit=lambda event: None)
        Thread.objects.filter(pk=thread_id).update(lease_until=Now() - timedelta(seconds=1))
        outcome = step(thread_id)
    assert [ask.kind for ask in outcome.asks] == ["breakpoint"]
    assert names(ran) == ["before", "first"]


def test_a_message_is_held_and_a_replay_of_the_head_asks_again(shop: Any) -> None:
    ran: Ran = []
    with registry.override("stops", lambda: graphs.stops_inside(graphs.into(ran))):
        thread_id = begin("stops")
        step(thread_id)
        runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload={"values": {"log": {}}}, author="olga")
        assert runs.claim(thread_id, "shell") is None
        runs.enqueue(thread_id, kind=Run.Kind.REPLAY, payload={}, author="olga")
        outcome = step(thread_id)
    assert [ask.kind for ask in outcome.asks] == ["breakpoint"]
    assert "second" not in names(ran)


def twice(record: graphs.Record) -> graphs.Graph:
    inner = graphs.chain(
        *((name, graphs.noting(record, name)) for name in ("a", "b", "c")), interrupt_before=["b", "c"]
    )
    return graphs.chain(("sub", inner))


def test_each_stop_of_a_subgraph_is_a_question_of_its_own(shop: Any) -> None:
    ran: Ran = []
    with registry.override("twice", lambda: twice(graphs.into(ran))):
        thread_id = begin("twice")
        seen = []
        outcome = step(thread_id)
        while outcome.asks:
            (ask,) = outcome.asks
            seen.append((ask.interrupt_id, tuple(names(ran))))
            answer(thread_id, ask, {"type": "approve"}, ["approve"])
            outcome = step(thread_id)
    assert [done for _, done in seen] == [("a",), ("a", "b")]
    assert len({interrupt_id for interrupt_id, _ in seen}) == 2
    assert names(ran) == ["a", "b", "c"]


def beside(record: graphs.Record) -> graphs.Graph:
    """A question and two stops at once, in three branches."""
    builder = StateGraph(graphs.Log)
    builder.add_node("asks", graphs.asking("asks", "well?"))
    builder.add_edge(START, "asks")
    builder.add_edge("asks", END)
    for name in ("left", "right"):
        builder.add_node(name, graphs.breakpoint_before(record))
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    return builder.compile()


def test_an_answer_to_another_question_cannot_pass_it(shop: Any) -> None:
    """LangGraph goes past every breakpoint with whatever is resumed: so they are asked about first, together."""
    ran: Ran = []
    with registry.override("beside", lambda: beside(graphs.into(ran))):
        thread_id = begin("beside")
        (stop,) = step(thread_id).asks
        assert (stop.kind, from_canonical(stop.value)["next"]) == ("breakpoint", ["second", "second"])
        assert names(ran) == ["first", "first"]
        answer(thread_id, stop, {"type": "approve"}, ["approve"])
        (question,) = step(thread_id).asks
        assert question.value == b'"well?"'
        assert names(ran).count("second") == 2
        answer(thread_id, question, "yes", ["respond"])
        assert step(thread_id).status == "success"
    assert sorted(names(ran)) == ["first", "first", "second", "second"]


def hidden_in_a_tool(record: graphs.Record) -> graphs.Graph:
    @tool
    def delegate() -> str:
        """Hand on to a graph that nobody outside sees."""
        made = [graphs.breakpoint_before(record)]
        return str(made[0].invoke({"messages": [], "log": {}}))

    return graphs.agent(record, policy={}, extra=[delegate])


def test_a_stop_that_the_desk_cannot_see_is_told_as_an_error(shop: Any) -> None:
    ran: Ran = []
    with registry.override("hidden", lambda: hidden_in_a_tool(graphs.into(ran))):
        outcome = step(start("hidden", graphs.turns([("delegate", {})])))
    assert (outcome.status, outcome.asks, names(ran)) == ("error", (), ["first"])
    assert "static breakpoint" in outcome.error
    assert "interrupt()" in outcome.error


def with_calls(record: graphs.Record) -> graphs.Graph:
    @tool
    def act() -> str:
        """Act."""
        record("act", {}, None)
        return "acted"

    inner = graphs.agent(record, policy={}, extra=[act], interrupt_before=["tools"])
    return graphs.chain(("agent", inner))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_calls_that_would_run_are_named(shop: Any, verdict: str) -> None:
    """An agent as a node of another graph, which stops before each tool."""
    ran: Ran = []
    with registry.override("team", lambda: with_calls(graphs.into(ran))):
        thread_id = start("team", graphs.turns([("act", {})]))
        (ask,) = step(thread_id).asks
        assert from_canonical(ask.value)["calls"] == [{"args": {}, "name": "act"}]
        answer(thread_id, ask, {"type": verdict}, [verdict])
        outcome = step(thread_id)
    assert outcome.status == "success", outcome.error
    assert names(ran) == (["act"] if verdict == "approve" else [])
