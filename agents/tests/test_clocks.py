"""Workers' clocks do not agree: what was written last is the head, whatever time its id begins with."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.base import id as checkpoint_ids

from agents import history, registry, runs
from agents.checkpointer import DjangoSaver
from agents.models import Checkpoint, Run
from agents.tests import graphs, journeys
from agents.tests.driving import answer, decisions, start, step, thread
from agents.tests.looking import first_at, ids, messages
from agents.tests.test_timeline import put, thread_of

APPROVE = {"type": "approve"}
PAY = graphs.turns([("pay", {"amount": 5})])
SetClock = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Move the clock that checkpoint ids are made of by so many hours, as on another machine."""

    def move(hours: float) -> None:
        moved = SimpleNamespace(time_ns=lambda: time.time_ns() + round(hours * 3_600e9))
        monkeypatch.setattr(checkpoint_ids, "time", moved)
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)

    return move


def in_writing(thread_id: str) -> list[str]:
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns="").order_by("-pk")
    return list(rows.values_list("checkpoint_id", flat=True))


def shown(thread_id: str) -> list[str]:
    return [one.point.checkpoint_id for one in history.timeline(thread_id, limit=200).steps]


@pytest.mark.parametrize("hours", [-1.0, 1.0])
def test_an_answer_that_another_worker_takes_finds_the_head_and_goes_on(
    shop: Any, clock: SetClock, hours: float
) -> None:
    ran: list[Any] = []
    with registry.override("paying", lambda: graphs.agent(graphs.into(ran))):
        thread_id = start("paying", PAY)
        (ask,) = step(thread_id).asks
        clock(hours)
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        outcome = step(thread_id)
        assert (outcome.status, ran) == ("success", [("pay", {"amount": 5})])
        # The head is what was written last, and what the thread says; the run made no branch.
        assert thread(thread_id).head == in_writing(thread_id)[0] == history.state_at(thread_id).checkpoint_id
        assert (in_writing(thread_id) == sorted(in_writing(thread_id), reverse=True)) == (hours > 0)
        assert [one.type for one in messages(thread_id)] == ["human", "ai", "tool", "ai"]
        assert shown(thread_id) == in_writing(thread_id)
        assert len(history.tree(thread_id).branches) == 1
        clock(0)
        again = start_again(thread_id)
    assert again.status == "interrupted"


def start_again(thread_id: str) -> Any:
    runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload={"text": PAY}, author="olga")
    return step(thread_id)


def test_a_rewind_and_a_fork_by_a_worker_whose_clock_is_behind(shop: Any, clock: SetClock) -> None:
    ran: list[Any] = []
    with registry.override("paying", lambda: graphs.agent(graphs.into(ran))):
        thread_id = start("paying", PAY)
        journeys.walk(thread_id)
        trunk = in_writing(thread_id)
        model = first_at(thread_id, "model")
        clock(-1)
        history.rewind(thread_id, model, author="olga")
        (ask,) = step(thread_id).asks
        newer, older = history.tree(thread_id).branches
        assert (newer.is_head, older.is_head, older.last) == (True, False, trunk[0])
        assert shown(thread_id) == in_writing(thread_id)
        head = in_writing(thread_id)[0]
        found = history.common_ancestor(history.Point(thread_id, head), history.Point(thread_id, trunk[0]))
        assert found == history.Point(thread_id, model)
        assert not history.is_ancestor(history.Point(thread_id, trunk[0]), history.Point(thread_id, head))

        fork_id = history.fork(thread_id, author="olga")
        (asked,) = step(fork_id).asks
        clock(-2)
        answer(fork_id, asked, decisions(APPROVE), ["approve"])
        assert step(fork_id).status == "success"
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        assert step(thread_id).status == "success"
    assert [name for name, _ in ran] == ["pay"] * 3
    assert shown(fork_id) == in_writing(fork_id)


def test_pages_and_the_savers_list_follow_the_order_of_writing(shop: Any, clock: SetClock) -> None:
    thread_id, saver = thread_of(4), DjangoSaver()
    for hours in (-1, 2, -3, 0.5):
        clock(hours)
        put(saver, thread_id, history.Point(thread_id, in_writing(thread_id)[0]).config, 9)
    written = in_writing(thread_id)
    assert written != sorted(written, reverse=True)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}

    def listed(**names: Any) -> list[str]:
        return [one.config["configurable"]["checkpoint_id"] for one in saver.list(config, **names)]

    assert listed() == written
    assert listed(limit=3) == written[:3]
    assert listed(before=history.Point(thread_id, written[2]).config) == written[3:]
    assert listed(before={"configurable": {"checkpoint_id": written[5]}}, limit=1) == written[6:7]
    head = saver.get_tuple(config)
    assert head is not None and head.checkpoint["id"] == written[0] and saver.latest(thread_id) == {"": written[0]}
    first = history.timeline(thread_id, limit=3)
    second = history.timeline(thread_id, before=first.older, limit=3)
    assert [one.point.checkpoint_id for one in (*first.steps, *second.steps)] == written[:6]
    back = history.timeline(thread_id, after=second.newer, limit=2)
    assert [one.point.checkpoint_id for one in back.steps] == written[1:3]
    assert ids(thread_id) == written


def test_pruning_keeps_what_was_written_last(shop: Any, clock: SetClock) -> None:
    thread_id, saver = thread_of(3), DjangoSaver()
    clock(-1)
    last = put(saver, thread_id, history.Point(thread_id, in_writing(thread_id)[0]).config, 9)
    saver.prune([thread_id])
    assert in_writing(thread_id) == [last["configurable"]["checkpoint_id"]]


def test_a_subgraph_that_remembers_is_replayed_from_what_was_before(shop: Any, clock: SetClock) -> None:
    """LangGraph asks for the last checkpoint of the subgraph before one of the graph around it."""
    thread_id, saver = thread_of(2), DjangoSaver()
    inner: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": "inner"}}
    early = put(saver, thread_id, inner, 0)
    clock(-1)
    outer = put(saver, thread_id, history.Point(thread_id, in_writing(thread_id)[0]).config, 2)
    clock(-2)
    put(saver, thread_id, early, 1)
    before: Any = {"configurable": {"checkpoint_id": outer["configurable"]["checkpoint_id"]}}
    [found] = saver.list(inner, before=before, limit=1)
    assert found.config["configurable"]["checkpoint_id"] == early["configurable"]["checkpoint_id"]
