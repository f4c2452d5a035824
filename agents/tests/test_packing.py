"""Packed messages are recognised by all that they hold: whatever a node does to one in place is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

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
    return [blob for blob, _ in packing.elements(items, pack)]


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


def test_the_bytes_are_those_inside_the_list_whether_known_or_not() -> None:
    told: list[BaseMessage] = [HumanMessage("Hi", id="h"), said(), ToolMessage("done", tool_call_id="c1")]
    packing._memory.__init__()  # type: ignore[misc]
    for items in (
        told,
        told,
        [*told, HumanMessage("\ud800")],
        [*told, Note(content="mine"), HumanMessage("Hi", id="h")],
    ):
        assert packing.header("list", len(items)) + b"".join(blobs(items)) == serde.dumps_typed(items)[1]
        assert [one for _, one in packing.elements(items, pack)] == [packing.digest(blob) for blob in blobs(items)]


def test_equal_fields_of_another_class_are_another_message() -> None:
    message, note = HumanMessage("Hi", id="h"), Note(content="Hi", id="h")
    assert blobs([message]) != blobs([note])


def test_what_was_packed_is_not_packed_again_and_too_much_is_forgotten() -> None:
    memory, asked = packing._Memory(), b"x" * 100
    memory.add(asked, (b"blob", b"digest"))
    for number in range(2 * packing.REMEMBERED_BYTES // (1 << 20)):
        memory.get(asked)
        memory.add(b"%d" % number, (b"b" * (1 << 20), b"d"))
    assert memory.get(asked) == (b"blob", b"digest")  # asked for, so kept
    assert memory.get(b"0") is None
    held = sum(len(blob) for half in (memory._young, memory._old) for blob, _ in half.values())
    assert held <= packing.REMEMBERED_BYTES + (2 << 20)
