"""A worker is killed at every database operation of a run, in a real process; what is left is finished by the next one.

The child is forked and ends with ``os._exit`` right before, or right after, its nth operation of the saver or the
ledger: no handler of ours runs, as with ``kill -9``.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from langchain_core.messages import AIMessage, ToolMessage

from agents import connections, registry, runner, runs
from agents.checkpointer import DjangoSaver
from agents.models import Run, Thread
from agents.outcome import Effect, Outcome
from agents.streams import rows
from agents.tests import driving, graphs
from agents.tests.forking import DONE, KILLED, in_child


def die_at(thread_id: str, nth: int, *, after: bool) -> int:
    """Advance a thread in a forked child that dies at its nth operation. Returns the child's exit code."""
    return in_child(lambda: _live_and_die(thread_id, nth, after=after))


def _live_and_die(thread_id: str, nth: int, *, after: bool) -> None:
    lease = runs.claim(thread_id, f"victim-{nth}")
    assert lease is not None
    real, count = connections._call, 0

    def counted(fn: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        if any(getattr(one, "func", None) in (rows.write, rows.last_seq) for one in args):
            return real(fn, *args, **kwargs)  # what is told has a thread of its own, and no run rests on it
        count += 1
        mine = count
        if mine == nth and not after:
            os._exit(KILLED)
        result = real(fn, *args, **kwargs)
        if mine == nth and after:
            os._exit(KILLED)
        return result

    connections._call = counted
    runner.advance(lease, emit=lambda event: None)


def lapse(thread_id: str) -> None:
    """Let the dead worker's lease end, by the database's clock."""
    Thread.objects.filter(pk=thread_id).update(lease_until=Now() - timedelta(seconds=1))


def finish(thread_id: str, demo: Any) -> tuple[Outcome, list[Effect]]:
    """Advance until the thread rests; tell the ledger what really happened when it asks.

    Returns all effects on the way.
    """
    outcome = driving.step(thread_id)
    effects = list(outcome.effects)
    for _ in range(4):
        unknown = [ask for ask in outcome.asks if ask.kind == "execution"]
        if not unknown:
            return outcome, effects
        (ask,) = unknown
        ran = bool(payments(demo, thread_id))
        value = {"type": "respond", "message": "It ran."} if ran else {"type": "approve"}
        driving.answer(thread_id, ask, value, [value["type"]])
        outcome = driving.step(thread_id)
        effects += outcome.effects
    raise AssertionError(f"asked again and again: {outcome}")


def messages(thread_id: str) -> list[Any]:
    saved = DjangoSaver().get_tuple({"configurable": {"thread_id": thread_id}})
    assert saved is not None
    return list(saved.checkpoint["channel_values"]["messages"])


def human(thread_id: str) -> list[Any]:
    return [one for one in messages(thread_id) if one.type == "human"]


def assert_whole(thread_id: str, *, humans: int = 1) -> None:
    """One message a person sent, and no tool call without exactly one result."""
    said = messages(thread_id)
    assert len(human(thread_id)) == humans
    made = [str(call["id"]) for one in said if isinstance(one, AIMessage) for call in one.tool_calls]
    told = [one.tool_call_id for one in said if isinstance(one, ToolMessage)]
    assert sorted(made) == sorted(told)


def paying(mode: Any) -> Any:
    return lambda: graphs.agent(graphs.on_disk, mode=mode)


PAY = graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})], [("read", {"id": 2})])
CASES = {
    "batched": (paying("batched"), PAY, driving.decisions({"type": "approve"})),
    "per_call": (paying("per_call"), PAY, {"type": "approve"}),
    "inner agent": (
        lambda: graphs.delegating(graphs.on_disk),
        graphs.turns([("delegate", {"task": graphs.turns([("pay", {"amount": 5})])})]),
        driving.decisions({"type": "approve"}),
    ),
}


@pytest.mark.crash
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("case", CASES)
def test_a_resume_is_killed_at_every_operation(shop: Any, case: str, after: bool) -> None:
    build, say, value = CASES[case]
    with registry.override("paying", build):
        for nth in range(1, 300):
            thread_id = driving.start("paying", say)
            (ask,) = driving.step(thread_id).asks
            driving.answer(thread_id, ask, value, ["approve"])
            code = die_at(thread_id, nth, after=after)
            if code == DONE:
                break
            assert code == KILLED
            lapse(thread_id)
            outcome, effects = finish(thread_id, shop)
            assert outcome.status == "success", f"killed at operation {nth}: {outcome}"
            assert payments(shop, thread_id) == [{"amount": 5}], f"killed at operation {nth}"
            mine = [effect for effect in effects if effect.interrupt_id == ask.interrupt_id]
            assert {(effect.state, effect.differs) for effect in mine} == {("executed", False)}, f"at operation {nth}"
            assert_whole(thread_id)
            assert not Run.objects.filter(thread_id=thread_id, status__in=Run.ACTIVE).exists()
    assert nth > 10, "the count of operations does not reach the tool"


def payments(demo: Any, thread_id: str) -> list[Any]:
    rows = [row["args"] for row in demo.effects("ran", thread_id=thread_id)]
    return [{"amount": row["args"]["amount"]} for row in rows if row["tool"] == "pay"]


@pytest.mark.crash
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_input_is_killed_at_every_operation(shop: Any, after: bool) -> None:
    for nth in range(1, 200):
        thread_id = driving.start("support", "Please refund order 10482.")
        code = die_at(thread_id, nth, after=after)
        if code == DONE:
            break
        assert code == KILLED
        lapse(thread_id)
        outcome = driving.step(thread_id)
        assert outcome.status == "interrupted", f"killed at operation {nth}: {outcome.error}"
        assert [call.name for ask in outcome.asks for call in ask.calls] == ["issue_refund"]
        assert len(human(thread_id)) == 1
        assert not shop.effects("refund", thread_id=thread_id)
    assert nth > 10
