"""A process is killed at every statement of a fork, and at every one of a rewind's run: nothing is left half done."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents import connections, history, registry, runner, runs, statements, store, stored
from agents.models import Checkpoint, CheckpointPiece, CheckpointWrite, Run, Thread
from agents.tests import driving, graphs
from agents.tests.forking import DONE, KILLED, in_child
from agents.tests.journeys import reply, walk
from agents.tests.looking import asks, everything, first_at, ids
from agents.tests.test_kills import assert_whole, lapse, payments

PAY = graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})])


def die_in(work: Callable[[], Any], nth: int) -> int:
    """Do ``work`` in a forked child that dies before its nth statement, counting those of all threads."""
    return in_child(lambda: _work_and_die(work, nth))


def _work_and_die(work: Callable[[], Any], nth: int) -> None:
    count, real = 0, connections._call

    def counted() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os._exit(KILLED)

    def wrapped(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        counted()
        return execute(sql, params, many, context)

    def called(fn: Any, *args: Any, **kwargs: Any) -> Any:
        counted()
        return real(fn, *args, **kwargs)

    def executed(sql: str, params: Any = ()) -> Any:
        counted()
        return statements.execute(sql, params)

    connections._call = called
    for module in (store, stored):  # their statements pass by Django's wrappers
        vars(module)["execute"] = executed
    with connection.execute_wrapper(wrapped):
        work()


def run_claimed(thread_id: str) -> None:
    lease = runs.claim(thread_id, "victim")
    assert lease is not None
    runner.advance(lease, emit=lambda event: None)


@pytest.mark.crash
def test_a_fork_is_whole_or_not_there(shop: Any) -> None:
    thread_id = driving.start("support", "Please refund order 10482.")
    driving.step(thread_id)
    whole = everything(thread_id)
    for nth in range(1, 200):
        code = die_in(lambda: history.fork(thread_id, author="olga", message="Wait."), nth)
        forks = Thread.objects.filter(ancestor_id=thread_id)
        assert everything(thread_id) == whole
        if code == DONE:
            break
        assert code == KILLED
        assert not forks.exists()
        for model in (Checkpoint, CheckpointPiece, CheckpointWrite, Run):
            assert not model.objects.exclude(thread_id=thread_id).exists()
    assert nth > 10
    (fork,) = forks
    assert driving.step(fork.pk).status in ("success", "interrupted")


@pytest.mark.crash
@pytest.mark.parametrize("message", ["", "Do not pay."], ids=["as it was", "with a message"])
def test_a_rewind_is_killed_at_every_statement(shop: Any, message: str) -> None:
    with registry.override("paying", lambda: graphs.agent(graphs.on_disk)):
        for nth in range(1, 400):
            thread_id = driving.start("paying", PAY)
            walk(thread_id)
            rows = ids(thread_id)
            run_id = history.rewind(thread_id, first_at(thread_id, "tools"), author="olga", message=message)
            code = die_in(lambda thread_id=thread_id: run_claimed(thread_id), nth)  # type: ignore[misc]
            if code == KILLED:
                assert_begun_whole(run_id, message)
                lapse(thread_id)
                driving.step(thread_id)
            assert payments(shop, thread_id) == [{"amount": 5}], f"killed at statement {nth}"
            assert len(history.tree(thread_id).branches) == 2
            assert set(rows) <= set(ids(thread_id))
            if code == DONE:
                break
            if not message:
                (ask,) = asks(thread_id)
                reply(thread_id, ask, "yes")
                driving.step(thread_id)
                assert len(payments(shop, thread_id)) == 2
            assert_whole(thread_id, humans=2 if message else 1)
            assert not Run.objects.filter(thread_id=thread_id, status__in=Run.ACTIVE).exists()
    assert nth > 20


def assert_begun_whole(run_id: str, message: str) -> None:
    """The first checkpoint of a rewind has all that it begins with, or there is none."""
    first = Checkpoint.objects.filter(run_id=run_id).order_by("checkpoint_id").first()
    if first is not None and message:
        state = history.state_at(first.thread_id, first.checkpoint_id)
        assert (state.messages[-1].role, state.messages[-1].content) == ("human", message)
        assert all(call.result is not None for one in state.messages for call in one.calls)
