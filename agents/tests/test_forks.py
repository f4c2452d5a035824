"""Forks: what happened stays as it was, and nothing runs on what was decided elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from agents import history, registry, runner, runs
from agents.models import Checkpoint, CheckpointPiece, Run, Thread, ToolCall, ToolExecution
from agents.tests import driving, graphs
from agents.tests.driving import start, step
from agents.tests.journeys import Journey, every, made, registered, reply, walk
from agents.tests.looking import answered, asks, everything, first_at, ids

APPROVE = {"type": "approve"}
PAY = graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})])


def paying(ran: list[Any], **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into(ran), **options)


def calls_of(thread_id: str) -> set[tuple[str, str]]:
    thread = Thread.objects.get(pk=thread_id)
    keys = ToolCall.objects.filter(thread_id__in=thread.lineage()).values_list("message_id", "tool_call_id")
    return set(keys)


def assert_no_decided_call_ran(fork: str) -> None:
    """Whatever people were asked about, here or before, did not run here."""
    ran = ToolExecution.objects.filter(thread_id=fork, calls__gt=0).exclude(was_paused=True)
    assert not {(one.message_id, one.tool_call_id) for one in ran} & calls_of(fork)


def reject_in_forks(journey: Journey, *, before_the_answer: bool) -> None:
    with registered(journey):
        thread_id = journey.begin()
        step(thread_id)
        early = [history.fork(thread_id, one, author="olga") for one in ids(thread_id)] if before_the_answer else []
        walk_on(thread_id)
        whole = everything(thread_id)
        late = [] if before_the_answer else [history.fork(thread_id, one, author="olga") for one in ids(thread_id)]
        for fork in [*early, *late]:
            if Run.objects.filter(thread_id=fork, status="pending").exists():
                outcomes = walk(fork, "no")
                mine = {ask.interrupt_id for outcome in outcomes for ask in outcome.asks}
                assert not mine & answered(thread_id)
                assert_no_decided_call_ran(fork)
        assert everything(thread_id) == whole  # byte for byte


def walk_on(thread_id: str) -> None:
    """Answer yes to what waits, until nothing does."""
    for _ in range(12):
        waiting = asks(thread_id)
        if not waiting:
            return
        reply(thread_id, waiting[0], "yes")
        step(thread_id)


@pytest.mark.long
@pytest.mark.parametrize("before_the_answer", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["brief", "brief-per-call"])
def test_a_reject_in_a_fork_has_no_effect_wherever_it_was_taken(shop: Any, name: str, before_the_answer: bool) -> None:
    reject_in_forks(made(name), before_the_answer=before_the_answer)


@pytest.mark.thorough
@pytest.mark.parametrize("before_the_answer", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("journey", every())
def test_a_reject_in_a_fork_of_any_agent_has_no_effect(shop: Any, journey: Journey, before_the_answer: bool) -> None:
    reject_in_forks(journey, before_the_answer=before_the_answer)


@pytest.mark.thorough
@pytest.mark.parametrize("journey", every())
def test_a_reject_after_any_rewind_has_no_effect(shop: Any, journey: Journey) -> None:
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id)
        for checkpoint_id in ids(thread_id):
            before = set(ToolExecution.objects.filter(thread_id=thread_id).values_list("pk", flat=True))
            history.rewind(thread_id, checkpoint_id, author="olga")
            walk(thread_id, "no")
            ran = ToolExecution.objects.filter(thread_id=thread_id, calls__gt=0).exclude(pk__in=before)
            keys = {(one.message_id, one.tool_call_id) for one in ran.exclude(was_paused=True)}
            assert not keys & calls_of(thread_id)


def test_a_fork_of_a_fork_asks_too(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        walk(thread_id)
        first = history.fork(thread_id, first_at(thread_id, "tools"), author="olga")
        walk(first)
        assert [name for name, _ in ran].count("pay") == 2
        second = history.fork(first, ids(first)[-1], author="olga")
        outcome = step(second)
        assert [call.name for ask in outcome.asks for call in ask.calls] == ["pay"]
        assert [name for name, _ in ran].count("pay") == 2
    assert Thread.objects.get(pk=second).lineage() == [second, first, thread_id]


def test_a_fork_has_a_name_a_note_and_an_author_and_both_know_of_each_other(shop: Any) -> None:
    thread_id = start("support", "Where is order 10311?")
    step(thread_id)
    checkpoint_id = ids(thread_id)[2]
    fork = history.fork(thread_id, checkpoint_id, author="olga", name="Kinder", note="Say it kindly.", go_on=False)
    row = Thread.objects.get(pk=fork)
    assert (row.title, row.note, row.author, row.status) == ("Kinder", "Say it kindly.", "olga", "idle")
    origin = history.origin_of(fork)
    assert origin is not None and (origin.thread_id, origin.checkpoint_id) == (thread_id, checkpoint_id)
    assert [one.thread_id for one in history.step_at(history.Point(thread_id, checkpoint_id)).forks] == [fork]
    assert [one.thread_id for branch in history.tree(thread_id).branches for one in branch.forks] == [fork]
    assert ids(fork)[0] not in ids(thread_id)
    assert history.state_at(fork).messages == history.state_at(thread_id, checkpoint_id).messages
    assert not Run.objects.filter(thread_id=fork).exists()


def test_a_fork_sent_twice_is_one(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    step(thread_id)
    sent = [history.fork(thread_id, author="olga", submit_token="s1") for _ in range(2)]
    assert sent[0] == sent[1]
    assert Thread.objects.filter(ancestor_id=thread_id).count() == 1


def test_a_fork_where_nothing_runs_sent_twice_is_one_too(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    step(thread_id)
    sent = [history.fork(thread_id, author="olga", go_on=False, submit_token="s1") for _ in range(2)]
    others = [history.fork(thread_id, author=who, go_on=False, submit_token=token) for who, token in OTHERS]
    assert sent[0] == sent[1]
    assert len({sent[0], *others}) == 4
    assert history.forked_by(thread_id, author="olga", submit_token="s1") == sent[0]
    assert history.forked_by(thread_id, author="olga", submit_token="") is None


OTHERS = [("olga", "s2"), ("ben", "s1"), ("olga", "")]


def test_a_running_thread_is_forked_from_its_last_committed_checkpoint(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    lease = runs.claim(thread_id, "worker")
    assert lease is not None
    runner.advance(lease, emit=lambda event: None)  # stored, and not closed: the thread is still held
    assert driving.thread(thread_id).status == "busy"
    fork = history.fork(thread_id, author="olga")
    assert driving.thread(fork).ancestor_checkpoint == ids(thread_id)[0]
    assert [call.name for ask in step(fork).asks for call in ask.calls] == ["issue_refund"]


def test_a_fork_takes_the_context_of_its_original(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    Run.objects.filter(thread_id=thread_id).update(context={"tenant": "north"})
    step(thread_id)
    fork = history.fork(thread_id, author="olga")
    assert Run.objects.get(thread_id=fork).context == {"tenant": "north"}


def test_a_fork_that_fails_midway_leaves_nothing(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    thread_id = start("support", "Please refund order 10482.")
    step(thread_id)
    before = everything(thread_id), Thread.objects.count(), Run.objects.count(), Checkpoint.objects.count()

    def stopped(*args: Any, **kwargs: Any) -> str:
        raise SystemExit("killed")

    monkeypatch.setattr(runs, "enqueue", stopped)
    with pytest.raises(SystemExit):
        history.fork(thread_id, author="olga")
    assert (everything(thread_id), Thread.objects.count(), Run.objects.count(), Checkpoint.objects.count()) == before
    assert CheckpointPiece.objects.exclude(thread_id=thread_id).count() == 0
