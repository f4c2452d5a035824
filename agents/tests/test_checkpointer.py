"""DjangoSaver: LangGraph's own conformance suite, real graphs, and rows that somebody else wrote."""

from __future__ import annotations

import operator
import os
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from uuid import UUID

import ormsgpack
import pytest
from django.db import connection
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import _msgpack
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt, interrupt

from agents import connections
from agents.checkpointer import DjangoSaver, InHand, StrictSerializer, Unreadable
from agents.models import Checkpoint, CheckpointWrite

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = {
    "when": datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
    "amount": Decimal("10.50"),
    "order": UUID(int=7),
    "scan": b"\x00\xff",
    "tags": {"a", "b"},
    "text": "zero \0 and all",
}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    connections.close_all()


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def plan(state: State) -> dict[str, Any]:
    return {"log": ["plan"]}


def ask(state: State) -> dict[str, Any]:
    return {"log": [interrupt(QUESTION)]}


def build(saver: BaseCheckpointSaver[Any] | None) -> Any:
    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("ask", ask)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def at(thread_id: str, **names: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **names}}


def answer(found: Any) -> Command[Any]:
    return Command(resume={found.interrupts[0].id: "yes"})


async def test_langgraphs_conformance_suite_passes_whole() -> None:
    @checkpointer_test(name="DjangoSaver")
    async def ours() -> Any:
        yield DjangoSaver()

    report = await validate(ours)
    assert {name: result.failures for name, result in report.results.items() if result.passed is not True} == {}


def test_a_sync_run_is_answered_through_a_fresh_saver() -> None:
    build(DjangoSaver()).invoke({"log": []}, at("t"), durability="sync")
    fresh = build(DjangoSaver())
    assert fresh.invoke(answer(fresh.get_state(at("t"))), at("t"), durability="sync") == {"log": ["plan", "yes"]}
    assert [step.metadata["step"] for step in fresh.get_state_history(at("t"))] == [2, 1, 0, -1]


async def test_an_async_run_is_answered_through_a_fresh_saver() -> None:
    await build(DjangoSaver()).ainvoke({"log": []}, at("t"))
    fresh = build(DjangoSaver())
    found = await fresh.aget_state(at("t"))
    assert await fresh.ainvoke(answer(found), at("t"), durability="sync") == {"log": ["plan", "yes"]}
    assert [step.metadata["step"] async for step in fresh.aget_state_history(at("t"), limit=2)] == [2, 1]


def test_the_question_reads_back_as_it_was_asked() -> None:
    saver = DjangoSaver()
    build(saver).invoke({"log": []}, at("t"), durability="sync")
    [(ns, checkpoint_id, task_id, [asked])] = saver.interrupt_writes("t")
    assert isinstance(asked, Interrupt)
    assert asked.value == QUESTION
    assert {"": checkpoint_id} == saver.latest("t")
    assert (ns, task_id) == ("", CheckpointWrite.objects.get(channel="__interrupt__").task_id)


def moved(theirs: InMemorySaver, ours: DjangoSaver) -> None:
    """Store the newest checkpoint of another saver's thread, with what was written at it, in ours."""
    found = theirs.get_tuple(at("t"))
    assert found is not None
    place = ours.put(at("t"), found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    for task_id, channel, value in found.pending_writes or []:
        ours.put_writes(place, [(channel, value)], task_id)


def test_versions_are_numbers_and_a_thread_that_began_with_texts_goes_on_in_numbers() -> None:
    theirs, ours = InMemorySaver(), DjangoSaver()
    build(theirs).invoke({"log": []}, at("t"), durability="sync")
    moved(theirs, ours)
    assert b".0." in bytes(Checkpoint.objects.get().blob)  # "00...03.0.5": texts, as they came
    graph = build(ours)
    graph.update_state(at("t"), {"log": ["more"]}, as_node="plan")
    graph.invoke(None, at("t"))
    assert graph.invoke(answer(graph.get_state(at("t"))), at("t")) == {"log": ["plan", "more", "yes"]}
    for found in ours.list(at("t")):
        seen = [version for some in found.checkpoint["versions_seen"].values() for version in some.values()]
        assert {type(version) for version in (*found.checkpoint["channel_versions"].values(), *seen)} == {int}


def test_versions_that_nobody_can_count_stay_as_they_are() -> None:
    ours = DjangoSaver()
    odd: dict[str, Any] = {"a": "x", "b": "00001.0"}
    stored = ours.put(at("t"), {**empty_checkpoint(), "channel_versions": odd}, {}, odd)
    found = ours.get_tuple(stored)
    assert found is not None
    assert found.checkpoint["channel_versions"] == odd


def test_each_namespace_has_a_latest_checkpoint_and_its_own_question() -> None:
    saver = DjangoSaver()
    outer = StateGraph(State)
    outer.add_node("inner", build(None))  # a subgraph takes its parent's saver
    outer.add_edge(START, "inner")
    outer.compile(checkpointer=saver).invoke({"log": []}, at("t"), durability="sync")
    inner = next(ns for ns in saver.latest("t") if ns)
    assert [ns for ns, *_ in saver.interrupt_writes("t")] == ["", inner]


def test_a_run_has_landed_when_it_left_more_than_a_question() -> None:
    saver, mark = DjangoSaver(), {"__countersign": {"run": "r1", "token": None}}
    assert not saver.landed("t", "r1")
    saver.put_writes(at("t", checkpoint_id="c", **mark), [("__interrupt__", (Interrupt("?"),))], "task")
    assert not saver.landed("t", "r1")
    saver.put_writes(at("t", checkpoint_id="c", checkpoint_ns="in:1", **mark), [("log", ["x"])], "task")
    assert saver.landed("t", "r1")
    assert not saver.landed("other", "r1")
    assert not saver.landed("t", "")


def test_a_checkpoint_lands_its_run() -> None:
    saver = DjangoSaver()
    saver.put(at("t", __countersign={"run": "r1", "token": None}), empty_checkpoint(), {"source": "input"}, {})
    assert saver.landed("t", "r1")


def test_special_writes_are_replaced_and_others_are_kept() -> None:
    saver, place = DjangoSaver(), at("t", checkpoint_id="c")
    for value in ("first", "second"):
        saver.put_writes(place, [("__resume__", value)], "task")
        saver.put_writes(place, [("log", value), ("__error__", value), ("log", value)], "task")
    stored = {
        row.idx: StrictSerializer().loads_typed((row.type, bytes(row.blob))) for row in CheckpointWrite.objects.all()
    }
    assert stored == {-4: "second", 0: "first", -1: "first", 2: "first"}


def test_writes_come_in_the_order_in_which_the_step_applied_them() -> None:
    saver = DjangoSaver()
    stored = saver.put(at("t"), empty_checkpoint(), {}, {})
    for task_id, path in (("b", "~2"), ("a", "~2"), ("c", "~1")):
        saver.put_writes(stored, [("x", 1), ("y", 2)], task_id, path)
    found = saver.get_tuple(stored)
    assert found is not None and found.pending_writes is not None
    assert [(task, channel) for task, channel, _ in found.pending_writes] == [
        ("c", "x"), ("c", "y"), ("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"),
    ]  # fmt: skip


def test_metadata_that_jsonb_refuses_is_cleaned_and_can_be_searched() -> None:
    saver = DjangoSaver()
    config = at("t", tenant="a\0b", half="\ud800")
    config["metadata"] = {"score": float("nan"), "user": "u1"}
    saver.put(config, empty_checkpoint(), {"source": "input", "parents": {"x\0": "\udfff"}}, {})
    saver.put(at("t"), empty_checkpoint(), {"source": "loop", "step": 1}, {})
    [found] = saver.list(at("t"), filter={"user": "u1", "score": float("nan")})
    assert found.metadata["parents"] == {"x\ufffd": "?"}
    assert [item.metadata["source"] for item in saver.list(at("t"), filter={"step": 1})] == ["loop"]
    assert [*saver.list(at("t"), filter={"no' or 1=1 --": 1})] == []


def test_a_long_history_is_listed_page_by_page() -> None:
    saver = DjangoSaver()
    ids = [saver.put(at("t"), empty_checkpoint(), {}, {})["configurable"]["checkpoint_id"] for _ in range(45)]
    listed = [item.config["configurable"]["checkpoint_id"] for item in saver.list(None, limit=41)]
    assert listed == ids[::-1][:41]


class Trap:
    """Says so when somebody constructs it."""

    sprung: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sprung.append("init")

    def __setstate__(self, state: Any) -> None:
        self.sprung.append("setstate")

    def __reduce__(self) -> Any:
        return Trap, ("pickled",)


@pytest.mark.parametrize("kind", range(6))
def test_a_row_that_names_a_class_is_data(kind: int) -> None:
    body = {0: "arg", 1: ["arg"], 2: {"arg": 1}, 3: "arg", 4: {"arg": 1}, 5: {"arg": 1}}[kind]
    named = ormsgpack.Ext(kind, ormsgpack.packb([Trap.__module__, "Trap", body, "__init__"]))
    saver = DjangoSaver()
    stored = saver.put(at("t"), empty_checkpoint(), {}, {})
    Checkpoint.objects.update(type="msgpack", blob=ormsgpack.packb({"channel_values": {"trap": named}}))
    found = saver.get_tuple(stored)
    assert found is not None
    assert found.checkpoint["channel_values"]["trap"] == body
    assert Trap.sprung == []


@pytest.mark.parametrize(
    ("type_", "blob"),
    [
        ("pickle", pickle.dumps(Trap.__new__(Trap))),
        ("json", b'{"lc": 2, "type": "constructor", "id": ["pathlib", "Path"], "args": ["x"]}'),
        ("surprise", b""),
    ],
)
def test_a_row_of_another_type_is_not_opened(type_: str, blob: bytes) -> None:
    saver = DjangoSaver()
    stored = saver.put(at("t"), empty_checkpoint(), {}, {})
    CheckpointWrite.objects.create(
        thread_id="t", checkpoint_id=stored["configurable"]["checkpoint_id"], task_id="x", idx=0, type=type_, blob=blob
    )
    with pytest.raises(Unreadable, match=type_):
        saver.get_tuple(stored)
    assert Trap.sprung == []


def test_it_is_strict_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", False)
    row = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb([Trap.__module__, "Trap", "arg"])))
    assert StrictSerializer().loads_typed(("msgpack", row)) == "arg"
    assert Trap.sprung == []


def test_pruning_keeps_each_head_with_its_writes_and_runs_on() -> None:
    saver = DjangoSaver()
    graph = build(saver)
    graph.invoke({"log": []}, at("t"), durability="sync")
    saver.prune(["t"])
    assert Checkpoint.objects.count() == 1
    assert graph.invoke(answer(graph.get_state(at("t"))), at("t")) == {"log": ["plan", "yes"]}


def test_a_copy_bears_no_run_and_outlives_the_original() -> None:
    saver = DjangoSaver()
    build(saver).invoke({"log": []}, at("t", __countersign={"run": "r1", "token": None}), durability="sync")
    saver.copy_thread("t", "u")
    saver.delete_for_runs(["r1"])
    assert saver.get_tuple(at("t")) is None
    assert not saver.landed("u", "r1")
    copy = build(saver)
    assert copy.invoke(answer(copy.get_state(at("u"))), at("u")) == {"log": ["plan", "yes"]}


@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="SQLite has no server to ask")
async def test_thirty_runs_do_not_gather_connections() -> None:
    graph = build(DjangoSaver())
    counts = []
    for number in range(30):
        await graph.ainvoke({"log": []}, at(f"a{number}"), durability="sync")
        await connections.arun(graph.invoke, {"log": []}, at(f"s{number}"), durability="sync")
        counts.append(await connections.arun(count_connections))
    assert counts[-1] <= max(counts[:3]) + 1
    assert counts[-1] <= connections.MAX_CALLS + 1


def count_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_stat_activity where datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_head_in_hand_is_not_read_again_and_the_rest_is_as_stored() -> None:
    saver = DjangoSaver()
    graph, config = build(saver), at("in hand")
    graph.invoke({"log": []}, config)
    saved = saver.get_tuple(config)
    assert saved is not None
    expected = graph.get_state(config)
    in_hand = InHand(saved)
    Checkpoint.objects.filter(checkpoint_id=saved.checkpoint["id"]).delete()
    assert graph.get_state(config) != expected
    assert graph.get_state(at("in hand", __pregel_checkpointer=in_hand)) == expected
    parent = saved.parent_config
    assert parent is not None
    assert in_hand.get_tuple(parent) == saver.get_tuple(parent) != saved
    assert in_hand.get_tuple(at("another")) is None
