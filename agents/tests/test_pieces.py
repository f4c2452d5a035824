"""Cutting values into pieces: bytes that join to the whole, and spans that stay few."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agents.pieces import MAX_SPANS, Address, Cut, Laid, Piece, addresses, cut_values, joined, merged, place
from agents.snapshots import StrictSerializer

serde = StrictSerializer()


def pack(value: Any) -> bytes:
    return serde.dumps_typed([value])[1][1:]


def cut(value: Any) -> Cut:
    small, cuts = cut_values({"x": value}, pack)
    assert small == {"x": None}
    return cuts["x"]


def said(*texts: str) -> list[Any]:
    return [HumanMessage(content=text, id=text) for text in texts]


def laid(value: Any, known: Laid | None = None, *, fresh: bool = False) -> tuple[Laid, list[Piece]]:
    return place(cut(value), known, fresh=fresh)


@pytest.mark.parametrize(
    "value",
    [
        said("a"),
        said(*(str(number) for number in range(17))),
        [HumanMessage(content="in a tuple"), ("beside", b"bytes", None)],
        tuple(said("a", "b")),
        list(range(70_000)),
        [f"line {number}" for number in range(400)],
        [None, b"\0" * 3000, {"deep": [1.5]}],
        {f"file-{number}": "text " * 100 for number in range(15)},
        {f"file-{number}": "text " * 100 for number in range(16)},
        dict.fromkeys(range(40), "not a text key" * 10),
        "long text " * 500,
        b"\xff" * 5000,
        [["nested"] * 300],
        {"set": {1}, "pad": "x" * 300},
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_pieces_of_a_value_join_to_its_own_bytes(value: Any) -> None:
    made = cut(value)
    assert joined(made.kind, made.count, made.blobs.after(0)) == pack(value)
    snapshot = cut(_DeltaSnapshot(value))
    assert (snapshot.digests, snapshot.delta, made.delta) == (made.digests, True, False)
    assert snapshot.blobs.after(0) == made.blobs.after(0)


@pytest.mark.parametrize("value", [None, True, 7, 1.5, "short", b"short", [], {}, (), ["a", "b"], {"a": 1}])
def test_small_values_stay_where_they_are(value: Any) -> None:
    for one in (value, _DeltaSnapshot(value)):
        small, cuts = cut_values({"x": one}, pack)
        assert (pack(small), cuts) == (pack({"x": one}), {})


def test_a_list_that_only_grows_is_one_span_and_one_new_piece_a_message() -> None:
    known, new = laid(said("0"))
    for number in range(1, 30):
        known, new = laid(said(*map(str, range(number + 1))), known)
        assert (len(known.spans), len(new)) == (1, 1)


def test_an_edit_in_the_middle_costs_one_piece_and_two_spans() -> None:
    before, _ = laid(said("a", "b", "c", "d"))
    after, new = laid(said("a", "x", "c", "d"), before)
    assert (len(after.spans), len(new)) == (3, 1)
    again, new = laid(said("a", "x", "c", "d", "e"), after)
    assert len(new) == 1
    assert [*addresses(again.spans)][:4] == [*addresses(after.spans)]


def test_what_is_removed_or_moved_costs_no_piece() -> None:
    before, _ = laid(said("a", "b", "c"))
    assert laid(said("a", "c"), before)[1] == []
    assert laid(said("c", "b", "a"), before)[1] == []
    assert laid(said("a", "b", "c"), before) == (before, [])


def test_another_branch_gets_a_chain_of_its_own() -> None:
    before, _ = laid(said("a"))
    one, [first] = laid(said("a", "b"), before)
    two, [second] = laid(said("a", "c"), before, fresh=True)
    assert first.chain == before.spans[0][0] != second.chain
    assert (len(one.spans), len(two.spans)) == (1, 2)


def test_a_list_in_too_many_places_is_written_anew() -> None:
    known, _ = laid(said(*map(str, range(2 * MAX_SPANS + 4))))
    scattered, new = laid(said(*map(str, range(0, 2 * MAX_SPANS + 4, 2))), known)
    assert len(scattered.spans) == 1
    assert len(new) == MAX_SPANS + 2


def test_what_lies_somewhere_is_never_changed_however_a_conversation_is_edited() -> None:
    """A random walk, the same each time: every version reads back, and no place is given twice."""
    choose = random.Random(7)
    disk: dict[Address, bytes] = {}
    known: Laid | None = None
    texts = ["start"]
    for step in range(300):
        _edit(texts, choose, step)
        made = cut(said(*texts))
        now, new = place(made, known, fresh=choose.random() < 0.1)
        if any((piece.chain, piece.number) in disk for piece in new):  # as after a removal; the saver tries again
            now, new = place(made, known, fresh=True)
        disk |= {(piece.chain, piece.number): piece.blob for piece in new}
        assert [disk[address] for address in addresses(now.spans)] == made.blobs.after(0)
        known = now


def _edit(texts: list[str], choose: random.Random, step: int) -> None:
    spot = choose.randrange(len(texts))
    match choose.randrange(5):
        case 0 if len(texts) > 1:
            del texts[spot]
        case 1:
            texts[spot] = f"edit {step}"
        case 2:
            texts.insert(spot, texts[-1])
        case _:
            texts.append(f"text {step}")


def test_a_message_that_was_changed_in_place_is_another_piece() -> None:
    messages = [AIMessage(content="", id="1", tool_calls=[{"name": "pay", "args": {"amount": 1}, "id": "c"}])]
    before, _ = laid(messages)
    messages[0].tool_calls[0]["args"]["amount"] = 2
    assert len(laid(messages, before)[1]) == 1


def test_spans_are_merged() -> None:
    assert merged([(2, 0, 4), (1, 5, 7), (2, 3, 6), (1, 7, 8), (2, 8, 9)]) == [(1, 5, 8), (2, 0, 6), (2, 8, 9)]
