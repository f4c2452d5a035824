"""What was told before is recognised by all that it holds: whatever a node does to a message in place is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agents import packing
from agents.snapshots import StrictSerializer

serde = StrictSerializer()


class Note(HumanMessage):
    """A class of its own, whose dump nobody here knows."""


def pack(value: Any) -> bytes:
    return serde.dumps_typed([value])[1][1:]


def said() -> AIMessage:
    call = {"name": "pay", "args": {"amount": 1, "to": ["a", "b"]}, "id": "c1"}
    return AIMessage("Hello", id="a1", tool_calls=[call], additional_kwargs={"n": 1, "deep": {"x": [0.0]}})


def blobs(items: list[Any]) -> list[bytes]:
    """Return the bytes of each element, as a thread that told others before them gets them."""
    made, digests = packing.elements(items, pack, key="thread")
    found = [*made.after(0)]
    assert digests == packing.digests(found)
    assert [made.after(number) for number in range(len(items) + 1)] == [found[n:] for n in range(len(items) + 1)]
    return found


CHANGES: list[Callable[[AIMessage], object]] = [
    lambda one: setattr(one, "content", "Hallo"),
    lambda one: setattr(one, "id", "a2"),
    lambda one: setattr(one, "name", "bot"),
    lambda one: one.tool_calls[0]["args"].update(amount=2),
    lambda one: one.tool_calls[0]["args"].update(amount=1.0),
    lambda one: one.tool_calls[0]["args"].update(amount=True),
    lambda one: one.tool_calls[0]["args"]["to"].reverse(),
    lambda one: one.tool_calls.clear(),
    lambda one: one.additional_kwargs["deep"]["x"].__setitem__(0, -0.0),
    lambda one: one.additional_kwargs.update(n=object()),
    lambda one: one.additional_kwargs.update(n={1: 2}),
    lambda one: one.response_metadata.update(at=b"x"),
    lambda one: setattr(one, "usage_metadata", {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    lambda one: one.__dict__.update(extra="field"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_in_place_is_packed_anew(change: Callable[[AIMessage], object]) -> None:
    message = said()
    blobs([message])
    change(message)
    try:
        expected = pack(message)
    except TypeError:
        with pytest.raises(TypeError):
            blobs([message])
        return
    assert blobs([message]) == [expected]


def test_the_bytes_are_those_inside_the_list_whatever_was_told_before() -> None:
    told: list[BaseMessage] = [HumanMessage("Hi", id="h"), said(), ToolMessage("done", tool_call_id="c1")]
    for items in (
        told,
        told,
        [*told, HumanMessage("more"), HumanMessage("and more")],
        told[:1],
        [*told, HumanMessage("\ud800")],
        [*told, HumanMessage("one of its own", more=1)],
        [*told, HumanMessage("more")],
        [told[1], told[0]],
        [*told, Note(content="mine"), HumanMessage("Hi", id="h")],
    ):
        assert packing.header("list", len(items)) + b"".join(blobs(items)) == serde.dumps_typed(items)[1]


def test_equal_fields_of_another_class_are_another_message() -> None:
    message, note = HumanMessage("Hi", id="h"), Note(content="Hi", id="h")
    assert blobs([message]) != blobs([note])
    as_system = SystemMessage("Hi", id="h")
    as_system.__dict__["type"] = "human"
    assert blobs([message]) != blobs([as_system])


def test_only_what_is_new_is_packed() -> None:
    told = [HumanMessage(str(number)) for number in range(20)]
    asked: list[str] = []

    def counting(value: Any) -> bytes:
        asked.append(value.text)
        return pack(value)

    packing.elements(told[:15], counting, key="counted")
    made, _ = packing.elements(told, counting, key="counted")
    assert asked == [*map(str, range(20))]
    assert len(made.after(15)) == 5
    assert len(asked) == 20
    assert made.after(0) == [pack(message) for message in told]
    told[3].content = "changed in place"
    packing.elements(told, counting, key="counted")
    assert asked[-20:] == [message.text for message in told]


def test_what_was_told_is_remembered_by_thread_and_too_much_is_forgotten() -> None:
    memory = packing.Memory()
    for number in range(2 * packing.REMEMBERED_BYTES // (1 << 20)):
        for _ in range(3):  # a thread is remembered once
            memory.keep(number, packing.Telling([], b"x" * (1 << 20), b""))
    assert memory.get(0) is None
    assert memory.get(number) is not None
    held = [*memory._young.values(), *memory._old.values()]
    assert len(held) >= packing.REMEMBERED_BYTES // 3 >> 20
    assert sum(len(one.body) for one in held) <= packing.REMEMBERED_BYTES + (2 << 20)
