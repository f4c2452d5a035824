"""The test graphs do what their names say; other tests rest on that."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Literal

import pytest
from django.conf import LazySettings
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agents import demo
from agents.tests import graphs
from agents.tests.forking import in_child

Ran = list[tuple[str, dict[str, Any]]]
CONFIG: Any = {"configurable": {"thread_id": "one"}}


def begin(graph: graphs.Graph, *calls: graphs.Calls) -> graphs.Graph:
    kept: graphs.Graph = graph.copy(update={"checkpointer": InMemorySaver()})
    kept.invoke({"messages": [HumanMessage(graphs.turns(*calls))]}, CONFIG)
    return kept


def asked(graph: graphs.Graph) -> dict[str, Any]:
    """Interrupt id -> value, as it stands at the head."""
    return {one.id: one.value for one in graph.get_state(CONFIG).interrupts}


def answer(graph: graphs.Graph, value: Any, answer: Any) -> None:
    found = next(key for key, shown in asked(graph).items() if shown == value)
    graph.invoke(Command(resume={found: answer}), CONFIG)


def log(graph: graphs.Graph) -> dict[str, Any]:
    return dict(graph.get_state(CONFIG).values["log"])


def test_the_agent_asks_about_the_gated_calls_of_each_turn() -> None:
    ran: Ran = []
    seen: list[list[BaseMessage]] = []
    first: graphs.Calls = [("pay", {"amount": 5}), ("read", {"id": 1}), ("wipe", {"path": "/x"})]
    graph = begin(graphs.agent(graphs.into(ran), seen=seen), first, [("mail", {"to": "a"})])
    (value,) = asked(graph).values()
    assert [one["name"] for one in value["action_requests"]] == ["pay", "wipe"]
    answer(graph, value, {"decisions": [{"type": "approve"}, {"type": "reject", "message": "Keep it."}]})
    assert sorted(ran, key=str) == [("pay", {"amount": 5}), ("read", {"id": 1})]
    assert [one["name"] for one in next(iter(asked(graph).values()))["action_requests"]] == ["mail"]
    assert any(isinstance(message, ToolMessage) and "Keep it." in message.text for message in seen[1])


def test_in_per_call_mode_each_call_is_a_question() -> None:
    ran: Ran = []
    calls = [("pay", {"amount": 5}), ("read", {"id": 1}), ("pay", {"amount": 7})]
    graph = begin(graphs.agent(graphs.into(ran), mode="per_call"), calls)
    assert sorted(value["args"]["amount"] for value in asked(graph).values()) == [5, 7]
    assert ran == [("read", {"id": 1})]


def test_three_parallel_questions_are_answered_apart() -> None:
    graph = begin(graphs.parallel())
    answer(graph, "right", "R")
    answer(graph, {"q": "inner"}, "I")
    assert list(asked(graph).values()) == ["left"]
    answer(graph, "left", "L")
    assert log(graph) == {"left": "L", "right": "R", "inner": "I", "joined": True}


def test_three_tools_in_tasks_of_their_own_ask_at_once() -> None:
    ran: Ran = []
    graph = begin(graphs.three_tasks(graphs.into(ran)))
    for name in ("three", "one", "two"):
        answer(graph, {"from": name}, name.upper())
    assert ran == [(name, {"answer": name.upper()}) for name in ("three", "one", "two")]


def test_three_tools_in_one_task_ask_in_turn_and_act_again() -> None:
    ran: Ran = []
    graph = begin(graphs.three_tools(graphs.into(ran)))
    for _ in range(3):
        ((key, value),) = asked(graph).items()
        graph.invoke(Command(resume={key: value["from"].upper()}), CONFIG)
    acted = [name for name, _ in ran]
    assert sorted(acted.count(name) for name in graphs.NAMES) == [1, 2, 3]


def test_an_agent_inside_a_tool_asks_through_the_outer_one() -> None:
    ran: Ran = []
    task = graphs.turns([("pay", {"amount": 3})])
    graph = begin(graphs.delegating(graphs.into(ran)), [("delegate", {"task": task})])
    (value,) = asked(graph).values()
    answer(graph, value, {"decisions": [{"type": "approve"}]})
    assert ran == [("pay", {"amount": 3})]


def test_plain_graphs_hand_over_what_was_answered() -> None:
    values: list[Any] = ["", None, 0, [], {"q": 1}]
    for value in values:
        graph = begin(graphs.asks(value))
        assert list(asked(graph).values()) == [value]
        answer(graph, value, {"1": "x"})
        assert log(graph) == {"ask": {"1": "x"}}


def test_one_node_may_ask_twice_and_a_loop_many_times() -> None:
    twice = begin(graphs.asks_twice())
    answer(twice, "first", 1)
    answer(twice, "second", 2)
    assert log(twice) == {"ask": [1, 2]}
    loop = begin(graphs.loop())
    answer(loop, {"round": 1}, "more")
    answer(loop, {"round": 2}, "stop")
    assert asked(loop) == {}


def test_work_before_a_question_runs_again_but_not_that_of_the_nodes_before() -> None:
    again: Ran = []
    graph = begin(graphs.acts_then_asks(graphs.into(again)))
    answer(graph, "confirm", True)
    assert again == [("act", {})] * 2
    once: Ran = []
    nested = begin(graphs.nested(graphs.into(once)))
    answer(nested, {"q": "inner"}, "yes")
    assert once == [("before", {}), ("after", {})]


@pytest.mark.parametrize("build", [graphs.breakpoint_before, graphs.breakpoint_after])
def test_breakpoints_stop_between_the_steps(build: Any) -> None:
    ran: Ran = []
    graph = begin(build(graphs.into(ran)))
    assert (asked(graph), graph.get_state(CONFIG).next, ran) == ({}, ("second",), [("first", {})])
    graph.invoke(None, CONFIG)
    assert ran == [("first", {}), ("second", {})]


def test_a_failing_graph_fails() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        begin(graphs.fails())


@pytest.mark.crash
@pytest.mark.parametrize(("when", "effects"), [("before", 0), ("after", 1)])
def test_a_killing_tool_kills_its_process_once(
    when: Literal["before", "after"], effects: int, tmp_path: Path, settings: LazySettings
) -> None:
    settings.DATA_DIR = tmp_path
    codes, counts = [], []
    for _ in range(2):
        record = graphs.killing("pay", when=when)
        codes.append(in_child(lambda record=record: record("pay", {"amount": 1}, None)))  # type: ignore[misc]
        counts.append(len(demo.effects("ran")))
    assert codes == [-signal.SIGKILL, 0]
    assert counts == [effects, effects + 1]
