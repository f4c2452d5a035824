"""What is shown of messages: streamed under one id and stored under another, edited, removed, of text or of blocks."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from agents.streams.reading import Reader
from agents.tests.screen import Screen


def of_state(*messages: Any, ns: tuple[str, ...] = (), paused: bool = False) -> dict[str, Any]:
    return {"type": "values", "ns": ns, "data": {"messages": list(messages)}, "interrupts": (1,) if paused else ()}


def chunk(text: Any, message_id: str, *, ns: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "type": "messages",
        "ns": ns,
        "data": (AIMessageChunk(content=text, id=message_id, **more), {"langgraph_node": "model"}),
    }


def read(*parts: dict[str, Any], head: tuple[Any, ...] = (), ends: bool = True) -> Screen:
    reader = Reader(head)
    screen = Screen()
    for part in parts:
        screen.take(reader.read(part))
    return screen.take(reader.leave()) if ends else screen


def test_a_message_that_was_streamed_under_another_id_is_shown_once() -> None:
    """HC-29."""
    screen = read(chunk("Hel", "run--1"), chunk("lo", "run--1"), of_state(AIMessage("Hello", id="msg_9")))
    assert screen.bubbles() == [("msg_9", "Hello")]
    assert screen.jumps == 0


def test_a_whole_message_after_its_deltas_is_the_same_one() -> None:
    whole = {"type": "messages", "ns": (), "data": (AIMessage("Hello", id="msg_9"), {"langgraph_node": "model"})}
    screen = read(chunk("Hello", "run--1"), whole, ends=False)
    assert screen.bubbles() == [("run--1", "Hello")]
    assert read(whole, of_state(AIMessage("Hello", id="msg_9"))).bubbles() == [("msg_9", "Hello")]


def test_two_messages_without_ids_are_two() -> None:
    """HC-29."""
    assert [text for _, text in read(of_state(AIMessage("first"), AIMessage("second"))).bubbles()] == [
        "first",
        "second",
    ]


def test_a_message_that_is_edited_later_replaces_the_earlier_one_and_a_removed_one_goes() -> None:
    """HC-29."""
    one, two = AIMessage("one", id="1"), AIMessage("two", id="2")
    screen = read(of_state(one, two), of_state(one, AIMessage("TWO", id="2")), of_state(AIMessage("TWO", id="2")))
    assert screen.bubbles() == [("2", "TWO")]


def test_a_message_changed_in_place_is_told_again() -> None:
    """HITL hands the AI message back under the same id, changed: it is compared by content."""
    message = AIMessage("before", id="1")
    reader, screen = Reader(), Screen()
    screen.take(reader.read(of_state(message)))
    message.content = "after"
    assert screen.take(reader.read(of_state(message))).bubbles() == [("1", "after")]


def test_what_a_model_said_that_is_no_part_of_the_state_goes() -> None:
    """A model that is asked for a summary, say: a reload would not show it."""
    assert read(chunk("only a thought", "run--1"), of_state(HumanMessage("hi", id="h"))).bubbles() == [("h", "hi")]
    assert read(chunk("half a sen", "run--1")).bubbles() == []


def test_what_others_stream_stays_when_a_step_pauses() -> None:
    screen = read(
        chunk("still ", "run--1"),
        of_state(HumanMessage("hi", id="h"), paused=True),
        chunk("talking", "run--1"),
        ends=False,
    )
    assert ("run--1", "still talking") in screen.bubbles()


@pytest.mark.parametrize(
    ("parts", "text", "reasoning"),
    [
        (["Hel", "lo"], "Hello", ""),
        ([[{"type": "text", "text": "Hel", "index": 0}], [{"type": "text", "text": "lo", "index": 0}]], "Hello", ""),
        (
            [[{"type": "thinking", "thinking": "hm", "index": 0}], [{"type": "text", "text": "Yes", "index": 1}]],
            "Yes",
            "hm",
        ),
        (
            [[{"type": "reasoning", "summary": [{"text": "hm"}], "index": 0}], [{"type": "text", "text": "Yes"}]],
            "Yes",
            "hm",
        ),
        ([[{"type": "text", "text": "A", "index": 0}], [{"type": "text", "text": "B", "index": 2}]], "A\nB", ""),
    ],
)
def test_content_may_be_text_or_blocks(parts: list[Any], text: str, reasoning: str) -> None:
    screen = read(*(chunk(part, "run--1") for part in parts), ends=False)
    assert screen.bubbles() == [("run--1", text)]
    assert screen.reasoning("run--1") == reasoning


def test_reasoning_beside_the_content_is_told_too() -> None:
    part = chunk("", "run--1", additional_kwargs={"reasoning_content": "hm"})
    assert read(part, ends=False).reasoning("run--1") == "hm"
