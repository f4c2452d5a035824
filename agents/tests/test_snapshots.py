"""What was stored reads back, whoever wrote beside it, and a conversation is stored once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Barrier
from typing import Annotated, Any, TypedDict

import pytest
from django.db.models import Sum
from django.db.models.functions import Length
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import Checkpoint as Saved
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Send

from agents import checkpointer, connections, store
from agents.checkpointer import DjangoSaver, Gone, StrictSerializer
from agents.models import Agent, Checkpoint, CheckpointPiece, CheckpointWrite, Thread
from agents.stored import Place

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "A sentence of some length that says something about an order. " * 5


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    forget()
    yield
    connections.close_all()


def forget() -> None:
    """Be another process: remember nothing of the checkpoints that were stored."""
    checkpointer._memory.clear()


def at(thread_id: str = "t", **names: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **names}}


def put(values: dict[str, Any], parent: RunnableConfig | None = None) -> RunnableConfig:
    saved: Saved = {**empty_checkpoint(), "channel_values": values}
    return DjangoSaver().put(parent or at(), saved, {"source": "loop"}, {})


def values(config: RunnableConfig) -> Any:
    found = DjangoSaver().get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


def talk(*texts: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(content=text + TEXT, id=text) for text in texts]}


def texts(config: RunnableConfig) -> list[str]:
    return [message.id for message in values(config)["messages"]]


def merge(old: list[Any], *new: Any) -> Any:
    return add_messages(old, [*new])


EDITS: list[Callable[[list[Any]], list[Any]]] = [
    lambda old: [*old, HumanMessage(content=TEXT, id="h")],
    lambda old: [*old, AIMessage(content=TEXT, id="a", tool_calls=[{"name": "pay", "args": {"n": 1}, "id": "c"}])],
    lambda old: [*old, HumanMessage(content="short", id="s")],
    lambda old: merge(old, AIMessage(content="edited", id="a")),
    lambda old: merge(old, RemoveMessage(id="h")),
    lambda old: [old[0].model_copy(update={"content": "in place"}), *old[1:]],
    lambda old: merge(old, RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage(content="new", id="n")),
    lambda old: [*old, ("tuple", None, b"bytes", {"dict": TEXT})],
]


@pytest.mark.parametrize("warm", [True, False])
def test_every_checkpoint_reads_back_as_serde_gives_it(warm: bool) -> None:
    serde, expected = StrictSerializer(), {}
    messages: list[Any] = []
    parent = at()
    for step, edit in enumerate(EDITS):
        messages = edit(messages)
        state = {
            "messages": messages,
            "files": {f"f{n}": TEXT * n for n in range(9 - step)},
            "step": step,
            "none": None,
        }
        state |= {"long": TEXT * step, "lines": ["line"] * 300 * step, "pair": (step, TEXT)}
        parent = put(state, parent)
        expected[parent["configurable"]["checkpoint_id"]] = serde.loads_typed(serde.dumps_typed(state))
        if not warm:
            forget()
    assert {item: values(at(checkpoint_id=item)) for item in expected} == expected
    listed = {item.checkpoint["id"]: item.checkpoint["channel_values"] for item in DjangoSaver().list(at())}
    assert listed == expected
    assert [*values(parent)] == [*state]


def test_a_conversation_is_stored_once() -> None:
    parent, spoken = at(), talk("0")
    for number in range(60):
        spoken = {"messages": [*spoken["messages"], *talk(str(number))["messages"]]}
        parent = put(spoken, parent)
    assert CheckpointPiece.objects.count() == 61
    stored = (
        CheckpointPiece.objects.aggregate(n=Sum(Length("blob")))["n"]
        + Checkpoint.objects.aggregate(n=Sum(Length("blob")))["n"]
    )
    assert stored < 61 * (len(TEXT) + 700)  # each message, and a small row for each step
    assert len(texts(parent)) == 61


@pytest.mark.parametrize("warm", [True, False])
def test_two_branches_of_one_checkpoint_do_not_mix(warm: bool) -> None:
    root = put(talk("a"))
    branches = []
    for name in ("b", "c", "d"):
        if not warm:
            forget()
        branches.append(put(talk("a", name), root))
    assert [texts(branch) for branch in branches] == [["a", "b"], ["a", "c"], ["a", "d"]]
    assert texts(put(talk("a", "c", "e"), branches[1])) == ["a", "c", "e"]
    assert CheckpointPiece.objects.count() == 5


def test_branches_that_are_written_at_once_do_not_mix() -> None:
    root, start = put(talk("a")), Barrier(6)

    def branch(name: str) -> RunnableConfig:
        start.wait(60)
        return put(talk("a", name), root)

    with ThreadPoolExecutor(6) as pool:
        written = dict(zip("bcdefg", pool.map(branch, "bcdefg"), strict=True))
    assert {name: texts(config) for name, config in written.items()} == {name: ["a", name] for name in "bcdefg"}


def test_a_parent_that_another_process_deleted_is_not_leant_on() -> None:
    root = put(talk("a"))
    remembered = dict(checkpointer._memory._young)
    DjangoSaver().delete_thread("t")
    checkpointer._memory._young.update(remembered)
    child = put(talk("a", "b"), root)
    assert texts(child) == ["a", "b"]
    forget()
    assert texts(child) == ["a", "b"]


def test_a_parent_that_was_written_anew_is_not_leant_on() -> None:
    saved: Saved = {**empty_checkpoint(), "channel_values": talk("a")}
    root = DjangoSaver().put(at(), saved, {}, {})
    remembered = dict(checkpointer._memory._young)
    DjangoSaver().put(at(), {**saved, "channel_values": talk("x")}, {}, {})
    store.keep_latest("t", needed_by=lambda head: [head])
    checkpointer._memory._young.update(remembered)
    assert texts(put(talk("a", "b"), root)) == ["a", "b"]


def test_a_fenced_checkpoint_leaves_no_piece() -> None:
    Thread.objects.create(id="t", agent=Agent.objects.create(name="a", title="A"), token=2, holder="w")
    with pytest.raises(checkpointer.Fenced):
        put(talk("a"), at(__countersign={"run": "r", "token": 1}))
    assert not CheckpointPiece.objects.exists()


def test_a_missing_piece_is_an_error_and_never_a_shorter_conversation() -> None:
    head = put(talk("a", "b", "c"))
    CheckpointPiece.objects.filter(number=1).delete()
    with pytest.raises(Gone):
        values(head)
    with pytest.raises(Gone):
        list(DjangoSaver().list(at()))
    forget()
    assert texts(put(talk("a", "b", "c", "d"), head)) == ["a", "b", "c", "d"]


def test_pruning_deletes_just_the_pieces_that_nobody_names() -> None:
    root = put(talk("a", "gone"))
    old = put(talk("a", "b", "gone too"), root)
    put(talk("a", "c"), old)
    DjangoSaver().prune(["t"])
    assert texts(at()) == ["a", "c"]
    assert CheckpointPiece.objects.count() == 2
    DjangoSaver().delete_thread("t")
    assert not CheckpointPiece.objects.exists()


def test_a_copy_has_pieces_of_its_own() -> None:
    put(talk("a", "b"), put(talk("a")))
    DjangoSaver().copy_thread("t", "u")
    DjangoSaver().delete_thread("t")
    assert texts(at("u")) == ["a", "b"]
    assert texts(put(talk("a", "b", "c"), at("u", checkpoint_id=at_head("u")))) == ["a", "b", "c"]


def at_head(thread_id: str) -> str:
    return DjangoSaver().latest(thread_id)[""]


def test_rows_from_before_there_were_pieces_are_read_and_continued() -> None:
    saved: Saved = {**empty_checkpoint(), "channel_values": talk("a")}
    type_, blob = StrictSerializer().dumps_typed(saved)
    Checkpoint.objects.create(thread_id="t", checkpoint_id=saved["id"], type=type_, blob=blob)
    assert texts(at()) == ["a"]
    assert texts(put(talk("a", "b"), at(checkpoint_id=saved["id"]))) == ["a", "b"]


def some_checkpoint() -> Saved:
    return {
        "v": 4,
        "ts": "2026-12-01T20:29:43.489415+00:00",
        "id": empty_checkpoint()["id"],
        "channel_values": talk("a"),
        "channel_versions": {"messages": 3, "branch:to:model": 2},
        "versions_seen": {"__input__": {}, "model": {"branch:to:model": 2, "gone": 1}},
        "updated_channels": ["messages", "new"],
    }


ODD: list[Callable[[Any], object]] = [
    lambda saved: None,
    lambda saved: saved.update(updated_channels=None),
    lambda saved: saved.update(pending_sends=["of an older LangGraph"]),
    lambda saved: saved.pop("updated_channels"),
    lambda saved: saved.update(id="1f1edc59-0000"),
    lambda saved: saved.update(channel_versions={}),
]


@pytest.mark.parametrize("change", ODD)
def test_all_of_a_checkpoint_comes_back(change: Callable[[Any], object]) -> None:
    saved = some_checkpoint()
    change(saved)
    found = DjangoSaver().get_tuple(DjangoSaver().put(at(), saved, {}, {}))
    assert found is not None
    assert found.checkpoint == saved


@pytest.mark.parametrize("count", [1, 2, store._FEW, store._FEW + 1, 3 * store._FEW])
def test_however_many_come_at_once_all_pieces_and_writes_come_back_in_order(count: int) -> None:
    told = talk(*map(str, range(count)))
    place = put(told)
    written = [(f"channel {number}", number) for number in range(count)]
    DjangoSaver().put_writes(place, written, "task")
    for config in (place, at()):  # by its name, and as the newest
        found = DjangoSaver().get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"] == told
        assert found.pending_writes == [("task", *one) for one in written]


@pytest.mark.parametrize("timeout", [None, 3])
def test_a_send_is_written_as_langgraph_writes_it(timeout: int | None) -> None:
    sends = [Send("tools", {"call": 1, "when": {2}}, timeout=timeout)]
    assert StrictSerializer().dumps_typed(sends) == JsonPlusSerializer().dumps_typed(sends)


def test_rows_that_name_all_keys_of_a_checkpoint_are_read() -> None:
    saved = some_checkpoint()
    DjangoSaver().put(at(), saved, {}, {})
    brief, layout = StrictSerializer().loads_typed(("msgpack", bytes(Checkpoint.objects.get().blob)))
    small = {**saved, "channel_values": {"messages": None}}
    Checkpoint.objects.update(blob=StrictSerializer().dumps_typed([small, layout])[1])
    found = DjangoSaver().get_tuple(at())
    assert found is not None
    assert isinstance(brief, list)
    assert found.checkpoint == saved


class State(TypedDict):
    log: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *chain(*new)], snapshot_frequency=3)]
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def build(saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("note", lambda state: {"log": [f"{state['count']} {TEXT}"], "count": 1})
    graph.add_edge(START, "note")
    return graph.compile(checkpointer=saver)


@pytest.mark.filterwarnings("ignore:.*DeltaChannel")
def test_delta_channels_are_rebuilt_as_in_memory_after_pruning_and_in_a_copy() -> None:
    ours, theirs = build(DjangoSaver()), build(InMemorySaver())
    for step in range(8):
        for graph in (ours, theirs):
            graph.invoke({"messages": [HumanMessage(content=TEXT, id=str(step))]}, at(), durability="sync")
    history = [[state.values for state in graph.get_state_history(at())] for graph in (ours, theirs)]
    assert history[0] == history[1]
    DjangoSaver().copy_thread("t", "u")
    DjangoSaver().prune(["t"])
    assert Checkpoint.objects.filter(thread_id="t").count() < len(history[0])
    for thread_id in "tu":
        assert ours.get_state(at(thread_id)).values == history[0][0]


def test_a_run_is_deleted_with_its_pieces_and_the_rest_still_reads() -> None:
    root = put(talk("a"), at(__countersign={"run": "r1", "token": None}))
    names = {**root["configurable"], "__countersign": {"run": "r2", "token": None}}
    put(talk("a", "b"), {"configurable": names})
    DjangoSaver().put_writes(root, [("messages", talk("c"))], "task")
    DjangoSaver().delete_for_runs(["r2"])
    assert texts(at()) == ["a"]
    assert CheckpointPiece.objects.count() == 1
    assert CheckpointWrite.objects.count() == 1
    assert Place("t", "", at_head("t")) in checkpointer._memory._young
