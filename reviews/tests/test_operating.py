"""An operator at work: messages in a queue, runs that are stopped, questions that are withdrawn. All is logged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents import connections, history, registry, runs
from agents.models import Agent, Run, Thread
from agents.tests import graphs
from reviews import audit, tasks, threads
from reviews.decisions import Stale
from reviews.models import AuditEntry, Interrupt
from reviews.tests.cast import APPROVE, Cast, decide

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.fixture
def ran() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def worker(cast: Cast, ran: list[Any]) -> Iterator[None]:
    with registry.override("support", lambda: graphs.agent(graphs.into(ran))):
        yield
    connections.close_all()


def begin(cast: Cast, say: str) -> Thread:
    thread_id = threads.start_thread(cast.olga, "support", text=say, submit_token="start")
    tasks.poll_once()
    return Thread.objects.select_related("agent").get(pk=thread_id)


def paying(amount: int = 100) -> str:
    return graphs.turns([("pay", {"amount": amount})])


def waiting(thread: Thread) -> list[str]:
    return [run.payload["text"] for run in runs.queue(thread.pk).filter(kind="input")]


def log_of(thread: Thread) -> list[tuple[str, str, Any]]:
    """Return (kind, who, code) of each entry of a thread."""
    entries = AuditEntry.objects.filter(thread=thread).order_by("seq")
    return [(one.kind, one.actor, json.loads(one.body)["facts"].get("code")) for one in entries]


# --------------------------------------------------------------------------------
# A message while a question is open: HC-30.


def test_a_message_waits_for_the_decision_and_goes_out_once_after_its_result(
    cast: Cast, worker: None, ran: list[Any]
) -> None:
    thread = begin(cast, paying())
    (question,) = Interrupt.objects.all()
    threads.send_message(cast.olga, thread, text="also check the invoice date", submit_token="m")
    assert tasks.poll_once() == 0
    question.refresh_from_db()
    assert (question.status, waiting(thread)) == ("open", ["also check the invoice date"])
    decide(cast.ann, question, APPROVE)
    tasks.poll_once()
    said = [one.content for one in history.conversation(thread.pk) if one.role == "human"]
    assert said == [paying(), "also check the invoice date"]
    assert ran == [("pay", {"amount": 100})]


def test_sending_anyway_closes_the_review_in_the_name_of_who_did_it(cast: Cast, worker: None, ran: list[Any]) -> None:
    thread = begin(cast, paying())
    (question,) = Interrupt.objects.all()
    threads.send_message(cast.olga, thread, text="older", submit_token="m")
    threads.send_anyway(cast.olga, thread, text="newer", submit_token="n")
    threads.send_anyway(cast.olga, thread, text="newer", submit_token="n")  # a double click
    question.refresh_from_db()
    assert (question.status, question.withdrawn_reason) == (
        "withdrawn",
        "Withdrawn by olga, who sent a message instead.",
    )
    with pytest.raises(Stale):
        decide(cast.ann, question, APPROVE)
    tasks.poll_once()
    said = [one.content for one in history.conversation(thread.pk) if one.role == "human"]
    assert said == [paying(), "older", "newer"]
    assert not ran
    assert not Interrupt.objects.filter(status="open").exists()
    told = [kind for kind, who, _ in log_of(thread) if who == "olga"]
    assert told.count("sent anyway") == told.count("interrupt withdrawn") == 1
    assert audit.verify() == []


def test_a_decision_that_is_on_its_way_is_not_withdrawn(cast: Cast, worker: None) -> None:
    thread = begin(cast, paying())
    (question,) = Interrupt.objects.all()
    decide(cast.ann, question, APPROVE)
    with pytest.raises(threads.Refused, match="on its way") as refusal:
        threads.send_anyway(cast.olga, thread, text="newer", submit_token="n")
    assert refusal.value.code == "decided"
    question.refresh_from_db()
    assert question.status == "decided"
    assert waiting(thread) == []


def test_an_agent_without_a_tools_node_keeps_its_question(cast: Cast) -> None:
    with registry.override("support", lambda: graphs.asks("Go on?")):
        thread = begin(cast, "go")
        with pytest.raises(threads.Refused) as refusal:
            threads.send_anyway(cast.olga, thread, text="newer", submit_token="n")
    connections.close_all()
    assert refusal.value.code == "no tools"
    assert Interrupt.objects.get().status == "open"


def test_the_worker_that_withdraws_wins_no_race_against_a_reviewer(cast: Cast, worker: None, ran: list[Any]) -> None:
    """Withdrawn in the desk's rows, but the head asks something else by now: it is asked again, nothing is lost."""
    thread = begin(cast, paying())
    threads.send_anyway(cast.olga, thread, text="newer", submit_token="n")
    Run.objects.filter(thread=thread, kind="replay").update(payload={"withdraw": ["of another question"]})
    tasks.poll_once()
    assert Interrupt.objects.filter(status="open").count() == 1  # asked again, as a new version
    assert waiting(thread) == ["newer"]
    assert not ran


# --------------------------------------------------------------------------------
# The queue.


@pytest.fixture
def busy(cast: Cast, worker: None) -> Thread:
    """A thread whose first message is under way."""
    thread_id = threads.start_thread(cast.olga, "support", text="first", submit_token="start")
    assert runs.claim(thread_id, "worker") is not None
    return Thread.objects.select_related("agent").get(pk=thread_id)


def test_several_lines_are_several_messages(cast: Cast, busy: Thread) -> None:
    threads.send_several(cast.olga, busy, lines="one\n\n  two \nthree\n", submit_token="s")
    threads.send_several(cast.olga, busy, lines="one\n\n  two \nthree\n", submit_token="s")
    assert waiting(busy) == ["one", "two", "three"]
    assert [kind for kind, _, _ in log_of(busy)].count("message sent") == 3


def test_one_bad_line_keeps_all_of_them_back(cast: Cast, busy: Thread) -> None:
    with pytest.raises(threads.Refused, match="no text"):
        threads.send_several(cast.olga, busy, lines="one\nt\0wo", submit_token="s")
    with pytest.raises(threads.Refused, match="some words"):
        threads.send_several(cast.olga, busy, lines=" \n ", submit_token="s")
    assert waiting(busy) == []


def test_a_full_queue_says_how_many_wait(cast: Cast, busy: Thread, settings: Any) -> None:
    settings.QUEUE_LIMIT = 1
    threads.send_message(cast.olga, busy, text="one", submit_token="1")
    with pytest.raises(threads.Refused, match="1 messages wait") as refusal:
        threads.send_message(cast.olga, busy, text="two", submit_token="2")
    assert refusal.value.code == "full"


def test_clearing_and_moving_are_for_what_waits(cast: Cast, busy: Thread) -> None:
    threads.send_message(cast.olga, busy, text="one", submit_token="1", follow_ups=["then"])
    two = threads.send_message(cast.olga, busy, text="two", submit_token="2")
    then = str(runs.queue(busy.pk)[1].pk)
    threads.move_message(cast.olga, busy, two, past=then)
    assert waiting(busy) == ["one", "two", "then"]
    for bad in ("", "x", two):
        with pytest.raises(threads.Refused, match="changed meanwhile"):
            threads.move_message(cast.olga, busy, two, past=bad)
    assert threads.clear_queue(cast.olga, busy) == 2  # and "then" with the message it follows
    assert waiting(busy) == []
    assert [kind for kind, _, _ in log_of(busy)].count("message cancelled") == 2


@pytest.mark.parametrize(("strategy", "stop"), [("interrupt", "drain"), ("rollback", "cancel")])
def test_a_message_that_stops_a_run_is_logged_as_that(cast: Cast, busy: Thread, strategy: str, stop: str) -> None:
    run = Run.objects.get(thread=busy, status="running")
    threads.send_message(cast.olga, busy, text="now", submit_token="n", strategy=strategy)
    run.refresh_from_db()
    assert run.stop == stop
    assert ("run stopped", "olga", strategy) in log_of(busy)
    assert ("message sent", "olga", strategy) in log_of(busy)


def test_the_agents_own_strategy_holds_where_none_is_chosen(cast: Cast, busy: Thread) -> None:
    Agent.objects.filter(pk="support").update(multitask="reject")
    with pytest.raises(threads.Refused) as refusal:
        threads.send_message(cast.olga, busy, text="now", submit_token="n", strategy="nonsense")
    assert refusal.value.code == "busy"


# --------------------------------------------------------------------------------
# Stop, retry, repair.


def test_a_stop_says_what_to_expect_and_is_logged(cast: Cast, busy: Thread) -> None:
    run = str(Run.objects.get(thread=busy, status="running").pk)
    assert "before its next step" in threads.stop_run(cast.olga, busy, run, now=False)
    assert threads.stop_run(cast.olga, busy, run, now=True) == "It is ended now."
    assert [code for kind, _, code in log_of(busy) if kind == "run stopped"] == ["drain", "cancel"]
    for other in ("", "x", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(threads.Refused, match="nothing to stop"):
            threads.stop_run(cast.olga, busy, other, now=True)


def test_a_failed_run_is_tried_again_where_it_failed(cast: Cast) -> None:
    attempts: list[str] = []

    def shaky(name: str, args: dict[str, Any], runtime: Any) -> None:
        attempts.append(name)
        if attempts == ["read", "wipe"] or attempts == ["wipe", "read"]:
            raise RuntimeError("the disk was away")

    with registry.override("support", lambda: graphs.agent(shaky, policy={})):
        thread = begin(cast, graphs.turns([("read", {"id": 1}), ("wipe", {"path": "/tmp"})]))  # noqa: S108
        failed = Run.objects.get(thread=thread)
        assert (failed.status, sorted(attempts)) == ("error", ["read", "wipe"])
        threads.retry_run(cast.olga, thread, str(failed.pk), submit_token="r")
        tasks.poll_once()
    connections.close_all()
    assert len(attempts) == 3  # only what failed ran again
    thread.refresh_from_db()
    assert (thread.status, thread.error) == ("idle", "")
    with pytest.raises(threads.Refused):
        threads.retry_run(cast.olga, thread, str(failed.pk), submit_token="r2")


def test_a_message_that_never_reached_the_agent_is_sent_again(cast: Cast, worker: None) -> None:
    thread_id = threads.start_thread(cast.olga, "billing", text="hello", submit_token="start")
    tasks.poll_once()
    thread = Thread.objects.select_related("agent").get(pk=thread_id)
    failed = thread.runs.get()
    assert failed.status == "error"
    threads.retry_run(cast.olga, thread, str(failed.pk), submit_token="r")
    assert waiting(thread) == ["hello"]


def test_looking_again_brings_a_lost_question_back(cast: Cast, worker: None, ran: list[Any]) -> None:
    thread = begin(cast, paying())
    Interrupt.objects.update(status="withdrawn")
    threads.look_again(cast.olga, thread, submit_token="l")
    tasks.poll_once()
    assert Interrupt.objects.filter(status="open").count() == 1
    assert not ran
