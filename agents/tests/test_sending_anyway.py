"""A message while a question is open: it is held; or the question is withdrawn, and no call stays without a result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from agents import history, queue, registry, runner, runs, streams
from agents.queue import Refused
from agents.tests import driving, graphs
from agents.tests.driving import answer, decisions, start, step
from agents.tests.screen import Screen
from agents.tests.test_queue import assert_every_call_has_a_result, heard, messages, pay, paying, send, texts


def asked(thread_id: str) -> list[str]:
    return [ask.interrupt_id for ask in step(thread_id).asks]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_sending_anyway_withdraws_the_question_and_leaves_no_call_without_a_result(shop: Any, mode: str) -> None:
    """HC-30, and FACTS 14: in `per_call` mode the sibling has run already, and its result must not be lost."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran, mode=mode)):
        thread_id = start("paying", graphs.turns([("read", {"id": 1}), ("pay", {"amount": 5}), ("read", {"id": 2})]))
        withdraw = asked(thread_id)
        send(thread_id, "older")
        assert texts(thread_id) == ["older"]
        assert thread_id not in runs.claimable()
        lined = queue.send_anyway(thread_id, "newer", author="olga", withdraw=withdraw)
        assert (lined.place, lined.waiting) == (2, 2)
        outcomes = [step(thread_id) for _ in range(3)]
        assert [(one.status, one.asks) for one in outcomes] == [("success", ())] * 3
        assert_every_call_has_a_result(thread_id)
        told = [one for one in messages(thread_id) if isinstance(one, ToolMessage)]
        kinds = [type(one).__name__ for one in messages(thread_id)]
    assert [one.name for one in told] == ["read", "pay", "read"]
    assert [one.status for one in told] == (["error"] * 3 if mode == "batched" else ["success", "error", "success"])
    assert "olga sent a message instead" in next(one.text for one in told if one.name == "pay")
    assert kinds[:5] == ["HumanMessage", "AIMessage", "ToolMessage", "ToolMessage", "ToolMessage"]
    assert heard(thread_id)[-2:] == ["older", "newer"]
    assert [name for name, _ in ran].count("read") == (0 if mode == "batched" else 2)
    assert "pay" not in dict(ran)


def test_sending_anyway_is_told_to_those_who_watch(shop: Any) -> None:
    with registry.override("paying", paying()):
        thread_id = start("paying", pay(5))
        queue.send_anyway(thread_id, "newer", author="olga", withdraw=asked(thread_id))
        step(thread_id), step(thread_id)
        events = streams.since(thread_id, 0).events
        shown = [(one.id, one.content) for one in history.conversation(thread_id)]
    assert Screen().play(events).bubbles() == shown
    (result,) = [event.data for event in events if event.kind == "tool"]
    assert (result["state"], "was not run" in result["text"]) == ("failed", True)


def test_several_questions_of_one_head_are_withdrawn_together(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran, mode="per_call")):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5}), ("wipe", {"path": "/"})]))
        queue.send_anyway(thread_id, "newer", author="olga", withdraw=asked(thread_id))
        assert [step(thread_id).status for _ in range(2)] == ["success"] * 2
        assert_every_call_has_a_result(thread_id)
    assert not ran


def test_a_worker_that_dies_over_a_withdrawal_leaves_all_of_it_or_nothing(shop: Any) -> None:
    """Both updates are one transaction; a second try finds nothing left to do."""
    with registry.override("paying", paying()):
        thread_id = start("paying", pay(5))
        queue.send_anyway(thread_id, "newer", author="olga", withdraw=asked(thread_id))
        lease = runs.claim(thread_id, "worker")
        assert lease is not None
        first = runner.advance(lease, emit=lambda event: None)
        again = runner.advance(lease, emit=lambda event: None)
        assert (first.head, first.asks) == (again.head, again.asks)
        assert len([one for one in messages(thread_id) if isinstance(one, ToolMessage)]) == 1
        runs.finish(again)
        assert step(thread_id).status == "success"


def test_a_thread_that_asks_something_else_meanwhile_withdraws_nothing(shop: Any) -> None:
    with registry.override("paying", paying()):
        thread_id = start("paying", pay(5))
        (asked_now,) = asked(thread_id)
        queue.send_anyway(thread_id, "newer", author="olga", withdraw=["another"])
        outcome = step(thread_id)
    assert outcome.status == "cancelled"
    assert [ask.interrupt_id for ask in outcome.asks] == [asked_now]
    assert "asked something else" in outcome.error


@pytest.mark.parametrize(
    ("agent", "say", "code"),
    [("asks", "go", "no tools"), ("paying", "hello", "not asked"), ("decided", pay(5), "decided")],
)
def test_sending_anyway_is_refused_where_it_could_not_be_clean(shop: Any, agent: str, say: str, code: str) -> None:
    with (
        registry.override("asks", lambda: graphs.asks("Go on?")),
        registry.override("paying", paying()),
        registry.override("decided", paying()),
    ):
        thread_id = start(agent, say)
        outcome = step(thread_id)
        if agent == "decided":
            answer(thread_id, outcome.asks[0], decisions({"type": "approve"}), ["approve"])
        with pytest.raises(Refused) as refusal:
            queue.send_anyway(thread_id, "newer", author="olga", withdraw=[])
    assert refusal.value.code == code


def test_what_is_held_goes_out_after_the_decision_and_after_its_result(shop: Any) -> None:
    """HC-30, first variant."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(100))
        outcome = step(thread_id)
        (ask,) = outcome.asks
        send(thread_id, "also check the invoice date")
        assert runs.claim(thread_id, "worker") is None
        answer(thread_id, ask, decisions({"type": "approve"}), ["approve"])
        step(thread_id), step(thread_id)
        kinds = [one.text if isinstance(one, HumanMessage) else one.type for one in messages(thread_id)]
    assert ran == [("pay", {"amount": 100})]
    assert kinds == [pay(100), "ai", "tool", "ai", "also check the invoice date", "ai"]


def test_messages_to_a_stuck_thread_wait_until_its_head_is_replayed(shop: Any) -> None:
    with registry.override("paying", paying()):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions(), ["approve"])
        assert step(thread_id).stuck
        send(thread_id, "hello?")
        assert runs.claim(thread_id, "worker") is None
        assert thread_id not in runs.claimable()


def test_looking_again_files_what_waits_and_runs_nothing(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        head = driving.thread(thread_id).head
        runs.enqueue(thread_id, kind="replay", payload={"look": True}, author="olga")
        outcome = step(thread_id)
    assert [one.interrupt_id for one in outcome.asks] == [ask.interrupt_id]
    assert (outcome.status, outcome.head, ran) == ("interrupted", head, [])
    assert json.loads(ask.value)["action_requests"][0]["name"] == "pay"
