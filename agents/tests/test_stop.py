"""People stop runs: before the next step, or now. What cannot be ended is waited for; each call has a result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolNode

from agents import connections, history, registry, runner, runs, streams
from agents.driver import Driver
from agents.heartbeat import Heartbeat
from agents.models import Run, Thread, ToolExecution
from agents.outcome import Outcome
from agents.testing import ScriptedChatModel, Turn
from agents.tests import driving, graphs
from agents.tests.driving import answer, decisions, start, step, until
from agents.tests.screen import Screen

SOON = 60  # seconds, at most: the machine may be busy


@pytest.fixture(autouse=True)
def _quick(settings: Any) -> None:
    settings.STOP_SECONDS = 0.05


class Gate:
    """A tool's body that says when it has begun, and waits until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.ended: list[str] = []

    def tools(self) -> list[BaseTool]:
        gate = self

        @tool
        def block(runtime: ToolRuntime) -> str:
            """Block a thread."""
            gate.begun.set()
            assert gate.go.wait(SOON)
            gate.ended.append("block")
            return "blocked"

        @tool
        async def wait(runtime: ToolRuntime) -> str:
            """Wait on the loop."""
            gate.begun.set()
            for _ in range(SOON * 100):
                if gate.go.is_set():
                    break
                await asyncio.sleep(0.01)
            gate.ended.append("wait")
            return "waited"

        return [block, wait]


@contextmanager
def working(thread_id: str) -> Iterator[list[Outcome]]:
    """A worker in a thread of its own advances the next run; its outcome is in the list once the body is left."""
    outcomes: list[Outcome] = []

    def work() -> None:
        try:
            outcomes.append(step(thread_id, worker="busy"))
        finally:
            from django.db import connection

            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield outcomes
    finally:
        thread.join(SOON * 2)
        assert not thread.is_alive()


def running(thread_id: str) -> str:
    return str(Run.objects.get(thread_id=thread_id, status="running").pk)


def test_a_drained_run_finishes_what_it_has_begun_and_takes_no_next_step(shop: Any) -> None:
    gate, ran = Gate(), list[Any]()
    with registry.override("gated", lambda: graphs.agent(graphs.into(ran), extra=gate.tools())):
        thread_id = start("gated", graphs.turns([("block", {})], [("read", {"id": 1})]))
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.request_stop(running(thread_id), "drain")
            until(lambda: any(event.data.get("how") == "drain" for event in streams.since(thread_id, 0).events))
            gate.go.set()
    (outcome,) = outcomes
    assert (outcome.status, outcome.error) == ("cancelled", "Stopped by a person.")
    assert (gate.ended, ran) == (["block"], [])
    assert driving.thread(thread_id).status == "idle"
    assert Screen().play(streams.since(thread_id, 0).events).ended == "cancelled"


def test_stop_now_ends_an_async_tool_in_the_middle(shop: Any) -> None:
    gate = Gate()
    with registry.override("gated", lambda: graphs.agent(graphs.into([]), extra=gate.tools())):
        thread_id = start("gated", graphs.turns([("wait", {})]))
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.tools_under_way(running(thread_id)) == ["wait"]
            assert runs.request_stop(running(thread_id), "cancel")
    assert outcomes[0].status == "cancelled"
    assert not gate.ended
    # Nobody knows what it did: another worker that comes upon it would ask.
    assert ToolExecution.objects.get(thread_id=thread_id).status == "started"


def test_stop_now_waits_for_a_sync_tool_and_hands_the_thread_to_nobody_before(shop: Any) -> None:
    gate = Gate()
    with registry.override("gated", lambda: graphs.agent(graphs.into([]), extra=gate.tools())):
        thread_id = start("gated", graphs.turns([("block", {})]))
        runs.enqueue(thread_id, kind="input", payload={"text": graphs.turns()}, author="olga")
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.request_stop(running(thread_id), "cancel")
            until(lambda: any(event.data.get("how") == "cancel" for event in streams.since(thread_id, 0).events))
            (told,) = [event.data for event in streams.since(thread_id, 0).events if "waits_for" in event.data]
            assert told["waits_for"] == ["block"]
            assert Run.objects.get(pk=running(thread_id)).status == "running"
            assert runs.claim(thread_id, "other") is None
            assert not outcomes
            gate.go.set()
        assert outcomes[0].status == "cancelled"
        assert gate.ended == ["block"]
        assert ToolExecution.objects.get(thread_id=thread_id).status == "finished"
        assert step(thread_id).status == "success"
        assert results(thread_id) == [("block", "blocked", "success")]


def results(thread_id: str) -> list[tuple[str | None, str, str]]:
    state = registry.get(Thread.objects.get(pk=thread_id).agent_id).graph.get_state(
        {"configurable": {"thread_id": thread_id}}
    )
    messages = state.values["messages"]
    return [(one.name, one.text, one.status) for one in messages if isinstance(one, ToolMessage)]


def test_stop_now_ends_a_model_in_the_middle_of_its_speech(shop: Any) -> None:
    speech = "word " * 2_000
    model = ScriptedChatModel(script=lambda messages: Turn(speech), delay=0.005)

    async def talk(state: graphs.Log) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    with registry.override("talking", lambda: graphs.chain(("talk", talk))):
        thread_id = start("talking", "go")
        with working(thread_id) as outcomes:
            until(lambda: any(event.kind == "delta" for event in streams.since(thread_id, 0).events))
            assert runs.request_stop(running(thread_id), "cancel")
        assert outcomes[0].status == "cancelled"
        assert Screen().play(streams.since(thread_id, 0).events).bubbles() == [
            (message.id, message.content) for message in history.conversation(thread_id)
        ]
        runs.enqueue(thread_id, kind="input", payload={"text": "go on"}, author="olga")
        model.script = lambda messages: Turn("short")
        assert step(thread_id).status == "success"


def propose(state: graphs.Log) -> dict[str, Any]:
    return {"messages": [AIMessage("", tool_calls=[ToolCall(name="block", args={}, id="c", type="tool_call")])]}


def test_a_run_in_a_thread_is_stopped_at_the_next_thing_it_says(shop: Any) -> None:
    """An agent with sync-only hooks runs in a thread: there is no loop whose task could be ended."""
    gate = Gate()

    def build() -> Any:
        node = ToolNode([gate.tools()[0]], wrap_tool_call=graphs.as_it_is)
        return graphs.chain(("propose", propose), ("tools", node), ("again", propose), ("twice", node))

    with registry.override("plain", build):
        assert registry.get("plain").mode == "sync"
        thread_id = start("plain", "go")
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.request_stop(running(thread_id), "cancel")
            until(lambda: any(event.data.get("how") == "cancel" for event in streams.since(thread_id, 0).events))
            gate.go.set()
    assert outcomes[0].status == "cancelled"
    assert [row.name for row in ToolExecution.objects.filter(thread_id=thread_id)] == ["block"]


def test_a_call_that_shares_a_task_in_a_thread_does_not_begin_after_the_stop(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ran, stopped = Gate(), [], threading.Event()
    stop = Driver.stop

    def noted(driver: Driver) -> None:
        stop(driver)
        stopped.set()

    monkeypatch.setattr(Driver, "stop", noted)

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    def propose_both(state: graphs.Log) -> dict[str, Any]:
        calls = [ToolCall(name=name, args={}, id=name, type="tool_call") for name in ("block", "act")]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def build() -> Any:
        return graphs.chain(
            ("propose", propose_both), ("tools", ToolNode([gate.tools()[0], act], wrap_tool_call=graphs.as_it_is))
        )

    with registry.override("plain", build):
        thread_id = start("plain", "go")
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.request_stop(running(thread_id), "cancel")
            assert stopped.wait(SOON)
            gate.go.set()
        assert (outcomes[0].status, outcomes[0].error) == ("cancelled", "Stopped by a person.")
        assert [row.name for row in ToolExecution.objects.filter(thread_id=thread_id)] == ["block"]
        assert ran == []
        runs.enqueue(thread_id, kind="input", payload={"text": "go on"}, author="olga")
        step(thread_id)
        assert results(thread_id)[:2] == [
            ("block", "blocked", "success"),
            ("act", "This call was not run: its run ended before it.", "error"),
        ]


def test_now_is_not_taken_back_by_soon(shop: Any) -> None:
    thread_id = start("support", "hi")
    lease = runs.claim(thread_id, "worker")
    assert lease is not None
    assert runs.request_stop(lease.run_id, "cancel")
    assert not runs.request_stop(lease.run_id, "drain")
    assert runs.stops([lease.run_id]) == {lease.run_id: "cancel"}


def test_what_has_ended_or_not_begun_cannot_be_stopped(shop: Any) -> None:
    thread_id = start("support", "Where is order 10311?")
    pending = str(Run.objects.get(thread_id=thread_id).pk)
    assert not runs.request_stop(pending, "drain")
    step(thread_id)
    assert not runs.request_stop(pending, "cancel")


@pytest.mark.parametrize("how", ["drain", "cancel"])
def test_a_stop_of_a_run_whose_worker_died_is_kept_by_the_next_worker(shop: Any, how: str) -> None:
    ran: list[Any] = []
    with registry.override("paying", lambda: graphs.agent(graphs.into(ran))):
        thread_id = start("paying", graphs.turns([("read", {"id": 1})]))
        lease = runs.claim(thread_id, "dead")
        assert lease is not None
        assert runs.request_stop(lease.run_id, how)
        Thread.objects.filter(pk=thread_id).update(lease_until=Now() - timedelta(seconds=1))
        outcome = step(thread_id)
    assert (outcome.status, ran) == ("cancelled", [])


def test_a_stop_before_an_answer_is_sent_leaves_its_question_open(shop: Any) -> None:
    """The same for a deploy, which gives the run back, so that the answer is sent by the next worker."""
    going = Heartbeat()
    with registry.override("paying", lambda: graphs.agent(graphs.into([]))):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5})]))
        (ask,) = step(thread_id).asks
        run_id = answer(thread_id, ask, decisions({"type": "approve"}), ["approve"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runner, "heartbeat", going)
            going.drain()
            lease = runs.claim(thread_id, "going away")
            assert lease is not None
            with pytest.raises(runner.Drained):
                runner.advance(lease, emit=lambda event: None)
            runs.release(lease, requeue=True)
        lease = runs.claim(thread_id, "worker")
        assert lease is not None
        assert lease.run_id == run_id
        Run.objects.filter(pk=run_id).update(stop="drain")
        outcome = runner.advance(replace(lease, stop="drain"), emit=lambda event: None)
    assert (outcome.status, [one.interrupt_id for one in outcome.asks]) == ("cancelled", [ask.interrupt_id])


def test_a_message_after_a_stop_leaves_no_call_without_a_result(shop: Any) -> None:
    """Approved, and stopped before it ran: the next message brings an error result, and the decision is closed."""
    gate, ran = Gate(), list[Any]()
    asked: list[int] = []

    def when(request: Any) -> bool:  # asked again when the answer comes
        asked.append(1)
        if len(asked) > 1:
            gate.begun.set()
            assert gate.go.wait(SOON)
        return True

    policy: Any = {"pay": {"allowed_decisions": ["approve", "reject"], "when": when}}
    with registry.override("paying", lambda: graphs.agent(graphs.into(ran), policy=policy)):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})]))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions({"type": "approve"}), ["approve"])
        with working(thread_id) as outcomes:
            assert gate.begun.wait(SOON)
            assert runs.request_stop(running(thread_id), "drain")
            until(lambda: any(event.data.get("how") == "drain" for event in streams.since(thread_id, 0).events))
            gate.go.set()
        assert (outcomes[0].status, outcomes[0].asks, ran) == ("cancelled", (), [])
        runs.enqueue(thread_id, kind="input", payload={"text": graphs.turns()}, author="olga")
        outcome = step(thread_id)
        assert outcome.status == "success"
        told = results(thread_id)
    assert [(name, status) for name, _, status in told] == [("pay", "error"), ("read", "error")]
    assert "was not run" in told[0][1]
    assert not ran
    assert [(effect.state, effect.interrupt_id) for effect in outcome.effects] == [("stopped", ask.interrupt_id)]


def test_one_query_looks_for_the_stops_of_all_runs(shop: Any, django_assert_num_queries: Any) -> None:
    ids = []
    for _ in range(3):
        lease = runs.claim(start("support", "hi"), "worker")
        assert lease is not None
        ids.append(lease.run_id)
    with django_assert_num_queries(1):
        assert runs.stops(ids) == {}
    connections.close_all()
