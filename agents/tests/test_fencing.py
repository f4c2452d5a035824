"""A worker that lost its thread writes nothing: neither checkpoints nor pending writes, sync, async or in a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from agents import connections
from agents.checkpointer import DjangoSaver, Fenced
from agents.models import Agent, Checkpoint, CheckpointWrite, Thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def thread(transactional_db: None) -> Iterator[None]:
    """A thread that worker w1 holds under token 1."""
    agent = Agent.objects.create(name="agent", title="Agent")
    Thread.objects.create(id="t", agent=agent)
    claim("w1")
    yield
    connections.close_all()


def claim(worker: str, *, seconds: float = 60) -> None:
    """Take the thread: what agents.runs does, in its shortest form."""
    until = Now() + timedelta(seconds=seconds)
    Thread.objects.filter(pk="t").update(holder=worker, token=F("token") + 1, lease_until=until)


def at(token: int | None, *, thread_id: str = "t", run: str = "r1", **names: Any) -> RunnableConfig:
    mark = {"run": run, "token": token}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "__countersign": mark, **names}}


def rows() -> tuple[int, int]:
    return Checkpoint.objects.count(), CheckpointWrite.objects.count()


def put(config: RunnableConfig) -> Any:
    return DjangoSaver().put(config, empty_checkpoint(), {"source": "loop"}, {})


def put_writes(config: RunnableConfig, *, channel: str = "x") -> None:
    config["configurable"]["checkpoint_id"] = "c"
    DjangoSaver().put_writes(config, [(channel, 1)], "task")


def put_special_writes(config: RunnableConfig) -> None:
    put_writes(config, channel="__resume__")


EVERY_WRITE = pytest.mark.parametrize("write", [put, put_writes, put_special_writes])


@EVERY_WRITE
def test_the_holder_writes_and_its_run_is_kept(write: Callable[[RunnableConfig], Any]) -> None:
    write(at(1))
    runs = [*Checkpoint.objects.values_list("run_id"), *CheckpointWrite.objects.values_list("run_id")]
    assert runs == [("r1",)]


@EVERY_WRITE
def test_a_late_worker_writes_nothing_and_is_told_why(write: Callable[[RunnableConfig], Any]) -> None:
    claim("w2")
    with pytest.raises(Fenced, match=r"Run 'r1' .* token 1; the current one is 2"):
        write(at(1))
    assert rows() == (0, 0)


def test_a_late_worker_does_not_write_a_stored_checkpoint_anew() -> None:
    saved = empty_checkpoint()
    DjangoSaver().put(at(1), saved, {"source": "loop", "step": 1}, {})
    claim("w2")
    with pytest.raises(Fenced):
        DjangoSaver().put(at(1), saved, {"source": "loop", "step": 2}, {})
    assert Checkpoint.objects.get().metadata["step"] == 1


async def test_a_late_async_worker_writes_nothing() -> None:
    await connections.arun(claim, "w2")
    saver = DjangoSaver()
    with pytest.raises(Fenced):
        await saver.aput(at(1), empty_checkpoint(), {}, {})
    with pytest.raises(Fenced):
        await saver.aput_writes(at(1, checkpoint_id="c"), [("x", 1)], "task")
    assert await connections.arun(rows) == (0, 0)


@EVERY_WRITE
def test_a_token_from_the_future_or_for_no_thread_is_refused_too(write: Callable[[RunnableConfig], Any]) -> None:
    for config in (at(2), at(1, thread_id="nowhere")):
        with pytest.raises(Fenced):
            write(config)
    assert rows() == (0, 0)


@EVERY_WRITE
def test_nobody_in_particular_writes_only_while_nobody_holds_the_thread(write: Callable[[RunnableConfig], Any]) -> None:
    with pytest.raises(Fenced, match="without a token while 'w1' holds it; the current one is 1"):
        write(at(None))
    Thread.objects.update(lease_until=None)  # a holder without an end holds it too
    with pytest.raises(Fenced):
        write(at(None))
    assert rows() == (0, 0)
    Thread.objects.update(holder="")
    write(at(None))
    assert sum(rows()) == 1


@EVERY_WRITE
def test_a_lease_ends_by_the_time_of_the_database(write: Callable[[RunnableConfig], Any]) -> None:
    Thread.objects.update(lease_until=Now() - timedelta(milliseconds=5))
    write(at(None))
    assert sum(rows()) == 1


@EVERY_WRITE
def test_a_thread_without_a_row_is_free(write: Callable[[RunnableConfig], Any]) -> None:
    write(at(None, thread_id="nowhere"))
    assert sum(rows()) == 1


def test_a_late_worker_does_not_replace_what_stands() -> None:
    stored = put(at(1))
    found = DjangoSaver().get_tuple(stored)
    assert found is not None
    claim("w2")
    with pytest.raises(Fenced):
        DjangoSaver().put(at(1), found.checkpoint, {"source": "update"}, {})
    assert Checkpoint.objects.get().metadata["source"] == "loop"


def test_a_repeated_write_is_no_error_but_a_late_repeated_one_is() -> None:
    put_writes(at(1))
    put_writes(at(1))
    claim("w2")
    with pytest.raises(Fenced):
        put_writes(at(1))
    assert rows() == (0, 1)


@pytest.mark.parametrize("verb", ["delete_thread", "copy", "delete_for_runs", "prune"])
def test_a_held_thread_is_not_deleted_from_or_copied_into(verb: str) -> None:
    put(at(1))
    saver = DjangoSaver()
    verbs: dict[str, Callable[[], None]] = {
        "delete_thread": lambda: saver.delete_thread("t"),
        "copy": lambda: saver.copy_thread("u", "t"),
        "delete_for_runs": lambda: saver.delete_for_runs(["r1"]),
        "prune": lambda: saver.prune(["t"]),
    }
    with pytest.raises(Fenced):
        verbs[verb]()
    assert rows() == (1, 0)


@EVERY_WRITE
def test_a_write_that_waits_for_a_claim_sees_the_new_token(write: Callable[[RunnableConfig], Any]) -> None:
    """The race: the late worker's statement begins before the claim commits, and ends after it."""
    with ThreadPoolExecutor(1) as late:
        with transaction.atomic():
            claim("w2")
            writing = late.submit(write, at(1))
            await_lock()
        with pytest.raises(Fenced, match="the current one is 2"):
            writing.result()
    assert rows() == (0, 0)


def await_lock() -> None:
    """Wait until the late worker's statement waits for us. SQLite cannot tell; there a statement begins when it may."""
    end = time.monotonic() + 60
    while connection.vendor == "postgresql" and time.monotonic() < end:
        with connection.cursor() as cursor:
            cursor.execute("select pg_stat_clear_snapshot()")  # or a transaction sees the first answer for ever
            cursor.execute(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database() and query like '%insert into agents_checkpoint%'"
            )
            if cursor.fetchone()[0]:
                return
    assert connection.vendor == "sqlite", "the late worker never waited"


class State(TypedDict):
    answer: str


def build() -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", lambda state: {"answer": interrupt("Go on?")})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=DjangoSaver())


def resume() -> Command[Any]:
    [(_, _, _, [asked])] = DjangoSaver().interrupt_writes("t")
    return Command(resume={asked.id: "yes"})


def test_a_graph_run_by_a_late_worker_leaves_no_trace() -> None:
    build().invoke({"answer": ""}, at(1), durability="sync")
    before = rows()
    claim("w2")
    with pytest.raises(Fenced):
        build().invoke(resume(), at(1, run="r2"), durability="sync")
    assert rows() == before
    assert not DjangoSaver().landed("t", "r2")
    assert build().invoke(resume(), at(2, run="r3"), durability="sync") == {"answer": "yes"}
    assert DjangoSaver().landed("t", "r3")


async def test_an_async_graph_run_by_a_late_worker_leaves_no_trace() -> None:
    await build().ainvoke({"answer": ""}, at(1), durability="sync")
    before = await connections.arun(rows)
    await connections.arun(claim, "w2")
    with pytest.raises(Fenced):
        await build().ainvoke(await connections.arun(resume), at(1, run="r2"), durability="sync")
    assert await connections.arun(rows) == before
    assert await build().ainvoke(await connections.arun(resume), at(2, run="r3"), durability="sync") == {
        "answer": "yes"
    }
