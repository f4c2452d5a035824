"""How the values of a checkpoint are cut into pieces, so that a conversation of n messages is stored once, not n times.

A piece is one message, a run of small list elements, a few entries of a big dict, or one big value. Its bytes are
exactly those that it has inside the whole value, so a value is read back by an array (or map) header and its pieces in
a row, in one load. Pieces are numbered along a *chain* and never change. A *span* ``(chain, first, end)`` names those
from first to before end. A checkpoint names all of its values itself, by spans, so none is needed to read another. An
append-only list is one span however long it grows; an edit in its middle costs two more.

Pure functions: what lies where is decided here, and stored elsewhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agents.packing import DIGEST_BYTES, Blobs, Pack, digests, elements, header

Span = tuple[int, int, int]
Address = tuple[int, int]  # chain, number
Kind = Literal["list", "dict", "whole"]

INLINE_BYTES = 256  # what is smaller stays in the checkpoint's own row
SPLIT_BYTES = 2048  # what is smaller is one piece, unless it holds messages
GROUP_BYTES = 1024  # small elements are put together until they make a piece of this size
MAX_SPANS = 64  # a list of more is written anew in one run
CHAIN_BITS = 52  # JSON readers keep integers up to 2**53
_SMALL = frozenset({type(None), bool, int, float})
_SMALL_WHEN_SHORT: dict[type, int] = {str: 64, list: 1, dict: 1}


@dataclass(frozen=True, slots=True)
class Cut:
    """One value in pieces. ``count``: of list elements or dict entries, for the header."""

    kind: Kind
    count: int
    delta: bool  # it stood inside a DeltaChannel's snapshot
    blobs: Blobs
    digests: bytes  # of the blobs, DIGEST_BYTES each


class Laid(NamedTuple):
    """Where the pieces of one value lie, in order, and their digests."""

    spans: tuple[Span, ...]
    digests: bytes


class Piece(NamedTuple):
    chain: int
    number: int
    digest: bytes
    blob: bytes


# ---------------------------------------------------------------------------------------------------------------- cut


def cut_values(
    values: Mapping[str, Any], pack: Pack, *, key: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, Cut]]:
    """Split channel values into small ones and cut ones. The small ones keep a None in the place of each cut one.

    What had to be packed to see that it is small stands there as packed. ``key``: whose values they are; what was cut
    under the same key lately is not cut again.
    """
    small: dict[str, Any] = {}
    cuts: dict[str, Cut] = {}
    for name, value in values.items():
        found = _cut(value, pack, key, name)
        if type(found) is Cut:
            cuts[name], found = found, None
        small[name] = found
    return small, cuts


def _cut(value: Any, pack: Pack, key: tuple[str, ...], name: str) -> Any:
    """Return a big value's Cut; a small value as it is, or packed."""
    delta = isinstance(value, _DeltaSnapshot)
    inner = value.value if delta else value
    kind = type(inner)
    if kind in _SMALL or (kind in _SMALL_WHEN_SHORT and len(inner) < _SMALL_WHEN_SHORT[kind]):
        return value  # small for certain, without packing it to see
    if (kind is list or kind is tuple) and any(isinstance(item, BaseMessage) for item in inner):
        return Cut("list", len(inner), delta, *elements(inner, pack, key=(*key, name)))
    whole = pack(inner)
    if len(whole) < INLINE_BYTES:
        return value if delta else ormsgpack.Fragment(whole)
    if len(whole) >= SPLIT_BYTES and (kind is list or kind is tuple):
        return _made("list", len(inner), _grouped(pack(item) for item in inner), delta=delta)
    if len(whole) >= SPLIT_BYTES and kind is dict and all(type(key) is str for key in inner):
        entries = (pack(key) + pack(item) for key, item in inner.items())
        return _made("dict", len(inner), _grouped(entries), delta=delta)
    return _made("whole", 1, [whole], delta=delta)


def _grouped(parts: Iterator[bytes]) -> list[bytes]:
    """Join neighbours to GROUP_BYTES, from the front: what is appended leaves all groups but the last as they were."""
    groups: list[bytes] = []
    group: list[bytes] = []
    size = 0
    for part in parts:
        group.append(part)
        size += len(part)
        if size >= GROUP_BYTES:
            groups.append(b"".join(group))
            group, size = [], 0
    return [*groups, b"".join(group)] if group else groups


def _made(kind: Kind, count: int, blobs: Sequence[bytes], *, delta: bool) -> Cut:
    return Cut(kind, count, delta, Blobs(blobs), digests(blobs))


def joined(kind: Kind, count: int, blobs: Sequence[bytes]) -> bytes:
    """Return the msgpack of a whole value."""
    body = b"".join(blobs)
    return body if kind == "whole" else header(kind, count) + body


# -------------------------------------------------------------------------------------------------------------- place


def place(cut: Cut, known: Laid | None, *, fresh: bool) -> tuple[Laid, list[Piece]]:
    """Say where the pieces of a value lie: what the parent has stays where it is, the rest goes after its last ones.

    ``fresh``: the rest goes to a chain of its own, because somebody else was faster there.
    """
    if known is None:
        return _anew(cut)
    if cut.digests == known.digests:
        return known, []
    laid, new = (
        _appended(cut, known, fresh=fresh) if cut.digests.startswith(known.digests) else _edited(cut, known, fresh)
    )
    return (laid, new) if len(laid.spans) <= MAX_SPANS else _anew(cut)


def _anew(cut: Cut) -> tuple[Laid, list[Piece]]:
    new = _in_a_row(_new_chain(), 0, cut.digests, cut.blobs.after(0))
    return Laid(((new[0].chain, 0, len(new)),) if new else (), cut.digests), new


def _appended(cut: Cut, known: Laid, *, fresh: bool) -> tuple[Laid, list[Piece]]:
    chain, number = _continued(known, fresh)
    old = len(known.digests)
    new = _in_a_row(chain, number, cut.digests[old:], cut.blobs.after(old // DIGEST_BYTES))
    spans, first = known.spans, number
    if spans and spans[-1][0] == chain and spans[-1][2] == number:
        spans, first = spans[:-1], spans[-1][1]
    return Laid((*spans, (chain, first, number + len(new))), cut.digests), new


def _in_a_row(chain: int, number: int, digests: bytes, blobs: Sequence[bytes]) -> list[Piece]:
    each = zip(digests_of(digests), blobs, strict=True)
    return [Piece(chain, at, one, blob) for at, (one, blob) in enumerate(each, number)]


def _edited(cut: Cut, known: Laid, fresh: bool) -> tuple[Laid, list[Piece]]:
    line = _Line(*_continued(known, fresh))
    at = dict(zip(addresses(known.spans), digests_of(known.digests), strict=True))
    where = {one: address for address, one in reversed(at.items())}
    for one, blob in zip(digests_of(cut.digests), cut.blobs.after(0), strict=True):
        following = line.following()
        if at.get(following) == one:
            line.reuse(following)
        elif one in where:
            line.reuse(where[one])
        else:
            line.add(one, blob)
    return Laid(tuple(line.spans), cut.digests), line.new


def _continued(known: Laid, fresh: bool) -> Address:
    """Return where the chain of the last span ends, as far as this value knows."""
    if fresh or not known.spans:
        return _new_chain(), 0
    chain = known.spans[-1][0]
    return chain, max([end for other, _, end in known.spans if other == chain])


def _new_chain() -> int:
    return secrets.randbits(CHAIN_BITS)


class _Line:
    """Spans as they grow, and the pieces that are new."""

    def __init__(self, chain: int, number: int) -> None:
        self.chain, self.number = chain, number
        self.spans: list[Span] = []
        self.new: list[Piece] = []

    def following(self) -> Address:
        """Where the next piece lies if it lengthens the last span."""
        return (self.spans[-1][0], self.spans[-1][2]) if self.spans else (-1, -1)

    def reuse(self, address: Address) -> None:
        chain, number = address
        if address == self.following():
            self.spans[-1] = (chain, self.spans[-1][1], number + 1)
        else:
            self.spans.append((chain, number, number + 1))

    def add(self, digest: bytes, blob: bytes) -> None:
        self.new.append(Piece(self.chain, self.number, digest, blob))
        self.reuse((self.chain, self.number))
        self.number += 1


# -------------------------------------------------------------------------------------------------------------- spans


def addresses(spans: Sequence[Span]) -> Iterator[Address]:
    """Yield the address of each piece, in order."""
    for chain, first, end in spans:
        for number in range(first, end):
            yield chain, number


def digests_of(digests: bytes) -> list[bytes]:
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return the fewest spans that cover the same pieces."""
    covered: list[Span] = []
    for chain, first, end in sorted(spans):
        if covered and covered[-1][0] == chain and first <= covered[-1][2]:
            covered[-1] = (chain, covered[-1][1], max(end, covered[-1][2]))
        else:
            covered.append((chain, first, end))
    return covered
