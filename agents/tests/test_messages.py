"""The bytes of messages: what is put comes back, and a hostile row constructs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as some
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send

from agents import messages
from agents.messages import CODE, SHAPES
from agents.snapshots import StrictSerializer

ours, theirs = StrictSerializer(), JsonPlusSerializer(allowed_msgpack_modules=None)

texts = some.text(some.characters(codec="utf-8"), max_size=20) | some.sampled_from(["a\0b", "\U0001f600", "\u202e"])
scalars = some.none() | some.booleans() | some.integers(-(2**63), 2**64 - 1) | some.floats(allow_nan=False) | texts
plain = some.recursive(
    scalars | some.binary(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
mappings = some.dictionaries(texts, plain, max_size=3)
contents = texts | some.lists(texts | some.fixed_dictionaries({"type": some.just("text"), "text": texts}), max_size=3)
common = {
    "content": contents,
    "additional_kwargs": mappings,
    "response_metadata": mappings,
    "name": some.none() | texts,
    "id": some.none() | texts,
}
calls = some.fixed_dictionaries({"name": texts, "args": mappings, "id": some.none() | texts})
invalid_calls = some.fixed_dictionaries(dict.fromkeys(("name", "args", "id", "error"), some.none() | texts))
counts = some.integers(0, 10**6)
usage = some.fixed_dictionaries(
    dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), counts),
    optional={"input_token_details": some.fixed_dictionaries({"cache_read": counts})},
)
told = some.one_of(
    some.builds(HumanMessage, **common),
    some.builds(SystemMessage, **common),
    some.builds(
        AIMessage,
        **common,
        tool_calls=some.lists(calls, max_size=2),
        invalid_tool_calls=some.lists(invalid_calls, max_size=2),
        usage_metadata=some.none() | usage,
    ),
    some.builds(
        ToolMessage, **common, tool_call_id=texts, artifact=plain, status=some.sampled_from(["success", "error"])
    ),
)


class Note(HumanMessage):
    """A class of its own, whose dump nobody here knows."""


def through(value: Any, serde: Any = ours) -> Any:
    return serde.loads_typed(serde.dumps_typed(value))


def is_compact(message: BaseMessage) -> bool:
    return messages.packed(message) is not None


@given(some.lists(told, max_size=3))
def test_messages_come_back_as_they_were_and_as_langgraph_gives_them(spoken: list[BaseMessage]) -> None:
    assert all(map(is_compact, spoken))
    back = through(spoken)
    assert back == spoken == through(spoken, theirs)
    assert [type(one) for one in back] == [type(one) for one in spoken]
    for mine, yours in zip(back, through(spoken, theirs), strict=True):
        assert mine.__pydantic_fields_set__ == yours.__pydantic_fields_set__
        assert mine.model_dump() == yours.model_dump()
        assert mine.model_copy(update={"id": "x"}) == yours.model_copy(update={"id": "x"})
    assert ours.loads_typed(theirs.dumps_typed(spoken)) == spoken  # a row from before there was this form


def test_each_message_has_values_of_its_own() -> None:
    one, two = through([HumanMessage("a"), HumanMessage("b")])
    one.additional_kwargs["x"] = 1
    one.name = "n"
    assert two == HumanMessage("b")


@pytest.mark.parametrize(
    "message",
    [
        Note(content="of another class"),
        HumanMessage("extra", more=1),
        HumanMessage("a key that is no text", additional_kwargs={1: 2}),
        HumanMessage("half a character \ud800"),
        HumanMessage("more than plain", additional_kwargs={"at": datetime(2026, 12, 1, tzinfo=UTC), "pair": (1, 2)}),
        ToolMessage("done", tool_call_id="c", artifact={1, 2}),
        ToolMessage("done", tool_call_id="c", artifact=HumanMessage("inside")),
        RemoveMessage(id="a"),
    ],
    ids=lambda message: message.text or "remove",
)
def test_what_has_no_such_form_goes_langgraphs_way(message: BaseMessage) -> None:
    assert not is_compact(message)
    assert ours.dumps_typed([message]) == theirs.dumps_typed([message])
    assert through([message]) == through([message], theirs)


CHANGES: list[Callable[[AIMessage], object]] = [
    lambda one: setattr(one, "content", 5),
    lambda one: setattr(one, "tool_calls", None),
    lambda one: one.tool_calls[0].update(args="text"),  # type: ignore[call-arg]
    lambda one: one.tool_calls[0].pop("id"),  # type: ignore[misc]
    lambda one: one.__dict__.update(other="field"),
    lambda one: one.__dict__.pop("usage_metadata"),
    lambda one: one.__dict__.update(type="human"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_message_that_its_constructor_would_not_have_made_goes_langgraphs_way(
    change: Callable[[AIMessage], object],
) -> None:
    message = AIMessage("Hello", tool_calls=[{"name": "pay", "args": {}, "id": "c"}])
    change(message)
    assert not is_compact(message)


def test_inside_of_other_objects_messages_are_written_as_langgraph_reads_them() -> None:
    sent = Send("node", {"messages": [HumanMessage("a")]})
    assert ours.dumps_typed([sent]) == theirs.dumps_typed([sent])
    assert through([sent, HumanMessage("b")]) == [sent, HumanMessage("b")]


def row(payload: Any) -> tuple[str, bytes]:
    body = payload if isinstance(payload, bytes) else ormsgpack.packb(payload, option=ormsgpack.OPT_NON_STR_KEYS)
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(CODE, body)])


PLAIN_AI: list[Any] = ["Hello", {}, {}, "ai", None, "a", [], [], None]
HOSTILE: list[Any] = [
    b"",
    b"\xc1",
    b"\x91",
    7,
    "text",
    {},
    {1: 2},
    [],
    [len(SHAPES), *PLAIN_AI],
    [-1, *PLAIN_AI],
    [True, *PLAIN_AI[:6]],
    ["2", *PLAIN_AI],
    [2, *PLAIN_AI, None],
    [2, *PLAIN_AI[:-1]],
    [1, *PLAIN_AI[:6]],
    [2, 5, *PLAIN_AI[1:]],
    [2, [5], *PLAIN_AI[1:]],
    [2, *PLAIN_AI[:6], [5], [], None],
    [2, *PLAIN_AI[:6], [{"name": "pay"}], [], None],
    [2, *PLAIN_AI[:6], [], {}, None],
    [3, *PLAIN_AI[:3], "tool", None, "t", "c", None, "maybe"],
    [0, "x", {}, {}, "human", None, ormsgpack.Ext(0, ormsgpack.packb(["pathlib", "Path", "x"]))],
    [0, "x", {}, {}, "human", None, ormsgpack.Ext(CODE, b"")],
]


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
def test_a_row_that_is_no_message_is_data(payload: Any) -> None:
    [found] = ours.loads_typed(row(payload))
    assert type(found) in (bytes, str, list, dict)
    assert ours.loads_typed(row([2, *PLAIN_AI])) == [AIMessage("Hello", id="a")]  # so each differs from a good one


def test_the_newest_shapes_are_those_of_the_installed_langchain_core() -> None:
    """Fields that are new ask for a new shape at the end of SHAPES; the old ones stay, for rows that exist."""
    assert {shape.cls for shape in SHAPES if shape.is_current} == {HumanMessage, SystemMessage, AIMessage, ToolMessage}
    assert [shape.number for shape in SHAPES] == list(range(len(SHAPES)))


def test_a_shape_of_another_langchain_core_is_read_through_the_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    data = row([3, "done", {}, {}, "tool", None, None, "c", None, "success"])
    [asked] = [replace(SHAPES[3], number=3)]
    object.__setattr__(asked, "is_current", False)
    monkeypatch.setattr(messages, "SHAPES", (*SHAPES[:3], asked))
    assert ours.loads_typed(data) == [ToolMessage("done", tool_call_id="c")]
    monkeypatch.setattr(ToolMessage, "__init__", None)
    [found] = ours.loads_typed(data)
    assert found["content"] == "done"
