"""What waits on a thread: who goes next, what a message does to the run under way, and what is taken back."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agents import history, queue, registry, runner, runs, statements, streams
from agents.models import Agent, Checkpoint, Run, Thread
from agents.queue import Lined, Message, Refused
from agents.tests import driving, graphs
from agents.tests.driving import start, step
from agents.tests.screen import Screen


def paying(ran: list[Any] | None = None, **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into([] if ran is None else ran), **options)


def pay(amount: int) -> str:
    return graphs.turns([("pay", {"amount": amount})])


def send(thread_id: str, *texts: str, **more: Any) -> Lined:
    return queue.send(thread_id, [Message(text) for text in texts], author="olga", **more)


def texts(thread_id: str) -> list[str]:
    return [run.payload["text"] for run in queue.waiting(thread_id)]


def heard(thread_id: str) -> list[str]:
    """Return what people said, as the state holds it."""
    return [message.content for message in history.conversation(thread_id) if message.role == "human"]


def messages(thread_id: str) -> list[Any]:
    graph = registry.get(Thread.objects.get(pk=thread_id).agent_id).graph
    return list(graph.get_state({"configurable": {"thread_id": thread_id}}).values["messages"])


def assert_every_call_has_a_result(thread_id: str) -> None:
    made = [str(call["id"]) for one in messages(thread_id) if isinstance(one, AIMessage) for call in one.tool_calls]
    told = [one.tool_call_id for one in messages(thread_id) if isinstance(one, ToolMessage)]
    assert sorted(made) == sorted(told)


@pytest.fixture
def idle(shop: Any) -> Any:
    with registry.override("paying", paying()):
        yield runs.create_thread("paying", author="olga")


@pytest.fixture
def busy(idle: str) -> str:
    """A thread whose first message is under way."""
    send(idle, "first")
    assert runs.claim(idle, "worker") is not None
    return idle


# --------------------------------------------------------------------------------
# Lining up.


def test_messages_go_out_in_the_order_of_coming_and_say_their_place(busy: str) -> None:
    second, third = send(busy, "second"), send(busy, "third")
    assert [(one.place, one.waiting) for one in (second, third)] == [(1, 1), (2, 2)]
    assert texts(busy) == ["second", "third"]


def test_several_questions_are_several_messages(busy: str) -> None:
    lined = send(busy, "one", "two", "three")
    assert (len(lined.run_ids), lined.place, lined.waiting) == (3, 1, 3)
    assert texts(busy) == ["one", "two", "three"]


def test_a_doubled_submit_is_one(busy: str) -> None:
    once = send(busy, "one", "two", submit_token="t")
    twice = send(busy, "one", "two", submit_token="t")
    assert (once.run_ids, once.again, twice.again) == (twice.run_ids, False, True)
    assert texts(busy) == ["one", "two"]


def test_a_message_carries_others_that_follow_it(busy: str) -> None:
    lined = queue.send(busy, [Message("look", ["then count", "then report"]), Message("thanks")], author="olga")
    assert texts(busy) == ["look", "then count", "then report", "thanks"]
    first = lined.run_ids[0]
    assert [str(run.follows_id or "") for run in queue.waiting(busy)] == ["", first, first, ""]


def test_follow_ups_are_taken_back_with_the_message_they_follow(busy: str) -> None:
    lined = queue.send(busy, [Message("look", ["then count"]), Message("thanks")], author="olga")
    assert runs.cancel(lined.run_ids[0], author="olga")
    assert texts(busy) == ["thanks"]


def test_a_full_queue_refuses_and_keeps_what_it_has(busy: str, settings: Any) -> None:
    settings.QUEUE_LIMIT = 3
    send(busy, "a", "b")
    with pytest.raises(Refused, match="2 messages wait") as refusal:
        send(busy, "c", "d")
    assert refusal.value.code == "full"
    assert texts(busy) == ["a", "b"]
    lined = send(busy, "c", submit_token="t")
    assert send(busy, "c", submit_token="t").run_ids == lined.run_ids  # a repeated one needs no room


def test_two_people_who_send_at_once_get_two_places(busy: str) -> None:
    lined: list[Lined] = []

    def post(name: str) -> None:
        from django.db import connection

        lined.append(queue.send(busy, [Message(name)], author=name))
        connection.close()

    threads = [threading.Thread(target=post, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    positions = list(queue.waiting(busy).values_list("position", flat=True))
    assert len(set(positions)) == len(lined) == 4


def test_one_that_fails_does_not_block_the_next(shop: Any) -> None:
    """The second of three raises in the middle of a tool call: the third gets an answer, and no call stays open."""

    def breaking(name: str, args: dict[str, Any], runtime: Any) -> None:
        if args.get("path") == "/bad":
            raise RuntimeError("disk full")

    with registry.override("failing", lambda: graphs.agent(breaking, policy={})):
        thread_id = runs.create_thread("failing", author="olga")
        send(thread_id, "hello", graphs.turns([("wipe", {"path": "/bad"}), ("read", {"id": 1})]), "and now?")
        outcomes = [step(thread_id) for _ in range(3)]
        assert [one.status for one in outcomes] == ["success", "error", "success"]
        assert_every_call_has_a_result(thread_id)
        results = {one.name: (one.status, one.text) for one in messages(thread_id) if isinstance(one, ToolMessage)}
        shown = [(one.id, one.content) for one in history.conversation(thread_id)]
    assert results["read"] == ("success", "record 1")  # it ran beside the one that failed
    assert results["wipe"][0] == "error"
    assert "disk full" in results["wipe"][1]
    assert heard(thread_id)[-1] == "and now?"
    assert Screen().play(streams.since(thread_id, 0).events).bubbles() == shown


def test_a_run_that_never_began_leaves_the_next_one_alone(shop: Any) -> None:
    with registry.override("failing", lambda: graphs.fails("boom")):
        thread_id = runs.create_thread("failing", author="olga")
        send(thread_id, "one", "two", "three")
        assert [step(thread_id).status for _ in range(3)] == ["error"] * 3
    assert heard(thread_id) == ["one", "two", "three"]


# --------------------------------------------------------------------------------
# Taking back, and order.


def test_only_what_waits_is_taken_back(busy: str) -> None:
    lined = send(busy, "second", "third", "fourth")
    assert runs.cancel(lined.run_ids[1], author="olga")
    assert not runs.cancel(lined.run_ids[1], author="olga")
    assert not runs.cancel(str(Run.objects.get(thread_id=busy, status="running").pk), author="olga")
    assert texts(busy) == ["second", "fourth"]
    assert queue.clear(busy, author="olga") == [lined.run_ids[0], lined.run_ids[2]]
    assert texts(busy) == []
    assert Run.objects.get(thread_id=busy, status="running").kind == "input"


def test_neighbours_change_places(busy: str) -> None:
    one, two, three = send(busy, "one", "two", "three").run_ids
    assert queue.move(busy, three, past=two)
    assert texts(busy) == ["one", "three", "two"]
    assert queue.move(busy, one, past=three)
    assert texts(busy) == ["three", "one", "two"]


def test_a_move_on_an_older_order_changes_nothing(busy: str) -> None:
    one, two, three = send(busy, "one", "two", "three").run_ids
    assert not queue.move(busy, one, past=three)  # no neighbours
    runs.cancel(two, author="olga")
    assert not queue.move(busy, three, past=two)  # it is gone
    assert not queue.move(busy, three, past=str(Run.objects.get(thread_id=busy, status="running").pk))
    other = runs.create_thread("paying", author="olga")
    assert not queue.move(other, one, past=three)
    assert texts(busy) == ["one", "three"]
    assert queue.move(busy, three, past=one)


# --------------------------------------------------------------------------------
# What a message does to the run under way.


def test_the_agents_own_strategy_is_the_default_and_a_message_may_have_another(busy: str) -> None:
    Agent.objects.filter(pk="paying").update(multitask="reject")
    with pytest.raises(Refused) as refusal:
        send(busy, "no")
    assert refusal.value.code == "busy"
    assert send(busy, "yes", strategy="enqueue").strategy == "enqueue"
    with pytest.raises(ValueError, match="no strategy"):
        send(busy, "what", strategy="whatever")


def test_reject_takes_a_message_when_nothing_is_under_way(idle: str) -> None:
    assert send(idle, "hello", strategy="reject").place == 1
    with pytest.raises(Refused):
        send(idle, "again", strategy="reject")


def test_interrupt_stops_the_run_keeps_its_work_and_goes_next(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran, policy={})):
        thread_id = start("paying", graphs.turns([("mail", {"to": "ann"})], [("mail", {"to": "ben"})]))
        send(thread_id, "older")
        lease = runs.claim(thread_id, "worker")
        assert lease is not None
        lined = send(thread_id, "now", strategy="interrupt")
        assert (lined.stopped, lined.place) == (lease.run_id, 1)
        assert texts(thread_id) == ["now", "older"]
        assert runs.stops([lease.run_id]) == {lease.run_id: "drain"}
        outcome = runner.advance(with_stop(lease), emit=lambda event: None)
        runs.finish(outcome)
        assert outcome.status == "cancelled"
        assert [step(thread_id).status for _ in range(2)] == ["success", "success"]
    assert heard(thread_id)[-2:] == ["now", "older"]


def with_stop(lease: runs.Lease) -> runs.Lease:
    from dataclasses import replace

    return replace(lease, stop=Run.objects.get(pk=lease.run_id).stop)


def run_partly(thread_id: str) -> str:
    """Let a run do its first steps, die, and be taken over by somebody who is asked to stop. Returns its id."""
    lease = runs.claim(thread_id, "worker")
    assert lease is not None
    outcome = runner.advance(lease, emit=lambda event: None)
    assert outcome.status == "interrupted"
    return lease.run_id


def test_rollback_deletes_what_the_run_stored_and_goes_next(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", "hello")
        step(thread_id)
        before = driving.thread(thread_id).head
        send(thread_id, graphs.turns([("read", {"id": 1})], [("pay", {"amount": 5})]), "older")
        undone = run_partly(thread_id)  # it read, which is idempotent, and stands at the question
        lined = send(thread_id, "instead", strategy="rollback")
        assert lined.stopped == undone
        assert runs.stops([undone]) == {undone: "cancel"}
        lease = runs.claim(thread_id, "worker")
        if lease is None:  # the first worker still holds it
            Thread.objects.filter(pk=thread_id).update(holder="", lease_until=None)
        assert step(thread_id).status == "cancelled"
        rolled = step(thread_id)
        assert (rolled.status, rolled.asks, rolled.head) == ("success", (), before)
        assert not Checkpoint.objects.filter(run_id=undone).exists()
        assert [step(thread_id).status for _ in range(2)] == ["success", "success"]
        shown = [(one.id, one.content) for one in history.conversation(thread_id)]
    assert heard(thread_id) == ["hello", "instead", "older"]
    assert Screen().play(streams.since(thread_id, 0).events).bubbles() == shown


def test_the_first_run_of_a_thread_can_be_rolled_back_too(shop: Any) -> None:
    with registry.override("paying", paying()):
        thread_id = start("paying", pay(5))
        run_partly(thread_id)
        send(thread_id, "instead", strategy="rollback")
        Thread.objects.filter(pk=thread_id).update(holder="", lease_until=None)
        assert [step(thread_id).status for _ in range(3)] == ["cancelled", "success", "success"]
    assert heard(thread_id) == ["instead"]


def test_rollback_is_refused_where_something_cannot_be_taken_back(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran, policy={"wipe": True})):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5})], [("wipe", {"path": "/"})]))
        run_partly(thread_id)
        with pytest.raises(Refused, match="it ran pay") as refusal:
            send(thread_id, "instead", strategy="rollback")
        assert refusal.value.code == "rollback"
    assert texts(thread_id) == []
    assert Run.objects.get(thread_id=thread_id).stop == ""
    with registry.override(
        "plain", graphs.nested.__get__(graphs.into([])) if False else lambda: graphs.nested(graphs.into([]))
    ):
        thread_id = start("plain", "go")
        assert runs.claim(thread_id, "worker") is not None
        with pytest.raises(Refused, match="nobody knows"):
            send(thread_id, "instead", strategy="rollback")


def test_a_tool_that_began_after_the_click_is_seen_before_anything_is_deleted(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran, policy={"wipe": True})):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5})], [("wipe", {"path": "/"})]))
        lease = runs.claim(thread_id, "worker")
        assert lease is not None
        send(thread_id, "instead", strategy="rollback")  # nothing had run yet
        monkeypatch.setattr(runs, "stops", lambda run_ids: {})  # by the time it is heard of, the worker is through
        runs.finish(runner.advance(lease, emit=lambda event: None))  # the worker was quicker than the stop
        assert ran == [("pay", {"amount": 5})]
        kept = step(thread_id)
    assert (kept.status, "not rolled back: it ran pay" in kept.error) == ("error", True)
    assert Checkpoint.objects.filter(run_id=lease.run_id).exists()


def test_a_strategy_has_nothing_to_stop_on_an_idle_thread(idle: str) -> None:
    for strategy in ("interrupt", "rollback"):
        assert send(idle, strategy, strategy=strategy).stopped == ""
    assert texts(idle) == ["interrupt", "rollback"]


def test_a_message_cancelled_in_the_middle_of_a_claim_leaves_its_thread_as_it_was(
    idle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is taken by one statement, its run by the next: who finds no run gives the thread back."""
    thread_id, (run_id,) = idle, send(idle, "first").run_ids
    before = Thread.objects.values().get(pk=thread_id)

    def cancelled_meanwhile(sql: str, params: Any) -> Any:
        if "update agents_run" in sql:
            Run.objects.filter(pk=run_id).update(status=Run.Status.CANCELLED)
        return statements.execute(sql, params)

    with monkeypatch.context() as patched:
        patched.setattr(runs, "execute", cancelled_meanwhile)
        assert runs.claim(thread_id, "worker") is None
    assert Thread.objects.values().get(pk=thread_id) == before
    lease = runs.claim(thread_id, "worker")
    assert lease is not None
    assert lease.run_id == run_id
