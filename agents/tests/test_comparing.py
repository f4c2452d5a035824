"""Two checkpoints side by side: what was added, changed and removed, without loading the rest."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from agents import history, runs
from agents.checkpointer import DjangoSaver
from agents.history import Point
from agents.tests import driving
from agents.tests.journeys import made, registered, walk
from agents.tests.looking import ids

LONG = "A sentence that is long enough for a piece of its own, as real messages are. " * 8


def put(thread_id: str, values: dict[str, Any], parent: Point | None = None) -> Point:
    config: Any = parent.config if parent else {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    versions = dict.fromkeys(values, "1")
    saved: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    written = DjangoSaver().put(config, saved, {"source": "loop", "step": 0}, {})
    return Point(thread_id, written["configurable"]["checkpoint_id"])


def said(*texts: str) -> list[Any]:
    return [HumanMessage(content=text + LONG, id=text) for text in texts]


@pytest.fixture
def thread_id(shop: Any) -> str:
    return runs.create_thread("support")


def test_messages_are_told_by_id_in_the_order_of_the_later_side(thread_id: str) -> None:
    a = put(thread_id, {"messages": said("one", "two", "three", "four")})
    changed = HumanMessage(content="other words", id="two")
    b = put(thread_id, {"messages": [*said("one"), changed, *said("four", "five")]}, a)
    found = history.compare(a, b)
    assert [(one.kind, one.id) for one in found.messages] == [
        ("changed", "two"),
        ("removed", "three"),
        ("added", "five"),
    ]
    assert found.messages[0].before and found.messages[0].before.content == "two" + LONG
    assert found.messages[0].after and found.messages[0].after.content == "other words"
    assert found.same_messages == 2
    assert history.compare(b, a).messages[-1].kind == "removed"
    assert history.compare(a, a).messages == ()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"n": 1}, {"n": 1.0}, [("changed", "n", "", b"1", b"1.0")]),
        ({"n": 1}, {}, [("removed", "n", "", b"1", None)]),
        ({}, {"n": None}, [("added", "n", "", None, b"null")]),
        ({"log": {"a": 1, "b": 2}}, {"log": {"b": 3, "c": 4}}, [
            ("removed", "log", "a", b"1", None), ("changed", "log", "b", b"2", b"3"), ("added", "log", "c", None, b"4")
        ]),
        ({"big": [LONG] * 9}, {"big": [LONG] * 8}, [
            ("changed", "big", "", json.dumps([LONG] * 9, separators=(",", ":")).encode(), json.dumps(
                [LONG] * 8, separators=(",", ":")).encode())
        ]),
        ({"__start__": 1, "branch:to:x": None, "big": LONG}, {"big": LONG}, []),
        ({"messages": []}, {}, []),
    ],
)  # fmt: skip
def test_values_are_told_key_by_key(thread_id: str, before: Any, after: Any, told: Any) -> None:
    found = history.compare(put(thread_id, before), put(thread_id, after))
    assert [(one.kind, one.name, one.key, one.before, one.after) for one in found.values] == told
    assert found.messages == ()


def test_only_what_differs_is_loaded(thread_id: str) -> None:
    texts = [f"{number}" for number in range(400)]
    a = put(thread_id, {"messages": said(*texts), "files": {f"f{n}": LONG * 4 for n in range(40)}})
    b = put(thread_id, {"messages": said(*texts, "last"), "files": {f"f{n}": LONG * 4 for n in range(40)}}, a)
    with CaptureQueriesContext(connection) as queries:
        found = history.compare(a, b)
    assert [(one.kind, one.id) for one in found.messages] == [("added", "last")]
    assert (found.same_messages, found.values) == (400, ())
    loading = [query["sql"] for query in queries if "digest, blob" in query["sql"]]
    assert len(loading) <= 2 and all(sql.count("union all") < 2 for sql in loading)


def test_what_was_said_after_a_tool_ran_is_told_as_it_is(shop: Any) -> None:
    thread_id = driving.start("support", "Where is order 10311?")
    driving.step(thread_id)
    newest, oldest = ids(thread_id)[0], ids(thread_id)[-1]
    found = history.compare(Point(thread_id, oldest), Point(thread_id, newest))
    assert [one.after.role for one in found.messages if one.after] == ["human", "ai", "tool", "ai"]
    assert {one.kind for one in found.messages} == {"added"}


def test_branches_and_forks_are_compared_with_their_ancestor(shop: Any) -> None:
    thread_id = driving.start("support", "Please refund order 10482.")
    driving.step(thread_id)
    pause = Point(thread_id, ids(thread_id)[0])
    fork = history.fork(thread_id, pause.checkpoint_id, author="olga", message="No refund. Where is order 10311?")
    driving.step(fork)
    walk_on = history.compare(pause, Point(fork, ids(fork)[0]))
    assert walk_on.ancestor == pause
    assert [one.kind for one in walk_on.messages] == ["added"] * len(walk_on.messages) and walk_on.messages
    root = history.compare(pause, Point(fork, ids(fork)[-1]))
    assert (root.messages, root.values, root.ancestor) == ((), (), pause)


def test_delta_channels_are_compared_too(shop: Any) -> None:
    journey = made("delta")
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id)
        rows = ids(thread_id)[::-1]
        for older, newer in pairwise(rows):
            found = history.compare(Point(thread_id, older), Point(thread_id, newer))
            states = [history.state_at(thread_id, one).messages for one in (older, newer)]
            assert len(found.messages) >= len(states[1]) - len(states[0])
            assert found.unread == ()
    assert history.compare(Point(thread_id, rows[1]), Point(thread_id, rows[2])).unread == ("messages",)


def test_an_unknown_side_is_not_found(thread_id: str) -> None:
    a = put(thread_id, {"messages": [AIMessage(content="", id="a")]})
    for other in (
        Point(thread_id, "nonsense"),
        Point("nowhere", a.checkpoint_id),
        Point(thread_id, a.checkpoint_id, "x"),
    ):
        with pytest.raises(history.UnknownCheckpoint):
            history.compare(a, other)
