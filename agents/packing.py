"""The bytes of a list's elements, and their digests. What a thread told before is recognised by its content.

A conversation is handed over whole at each step, and packing it takes longer than storing what is new. Nodes change
messages in place, so an object says nothing about what it holds now. What decides is all that its messages hold,
written down as plain data in one go: where that begins with what the thread held last, only the rest is packed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

import ormsgpack

from agents.messages import PLAIN, SHAPE_OF, built

Pack = Callable[[Any], bytes]

DIGEST_BYTES = 16  # 128 bits of blake2b: nobody may find another message with the digest of one that is stored
REMEMBERED_BYTES = 16 << 20  # of conversations, in one process


class Telling(NamedTuple):
    """A list of messages as it was told: their classes, all that they hold as plain data, and their digests."""

    kinds: list[type]
    body: bytes
    digests: bytes

    def begins(self, kinds: list[type], body: bytes) -> bool:
        return body.startswith(self.body) and kinds[: len(self.kinds)] == self.kinds


_EXTRA = attrgetter("__pydantic_extra__")
_NOTHING = Telling([], b"", b"")


class Blobs:
    """The bytes of elements. Those of the first ones, which are stored already, are made when somebody asks."""

    def __init__(self, tail: Sequence[bytes], first: int = 0, remade: Callable[[], Sequence[bytes]] = list) -> None:
        self._tail, self._first, self._remade = tail, first, remade

    def after(self, number: int) -> Sequence[bytes]:
        """Return all but the first ``number``."""
        return self._tail[number - self._first :] if number >= self._first else self._remade()[number:]


class Memory:
    """What was told last under each key. Two halves: the older one is forgotten whole, so nothing is kept in order."""

    def __init__(self) -> None:
        self._young: dict[Hashable, Telling] = {}
        self._old: dict[Hashable, Telling] = {}
        self._size = 0

    def get(self, key: Hashable) -> Telling | None:
        return self._young.get(key) or self._old.get(key)

    def keep(self, key: Hashable, telling: Telling) -> None:
        before = self._young.get(key)
        self._young[key] = telling
        self._size += len(telling.body) - (len(before.body) if before else 0)
        if self._size > REMEMBERED_BYTES // 2:
            self._young, self._old, self._size = {}, self._young, 0


_memory = Memory()


def digest(blob: bytes) -> bytes:
    return blake2b(blob, digest_size=DIGEST_BYTES).digest()


def digests(blobs: Sequence[bytes]) -> bytes:
    return b"".join(map(digest, blobs))


def elements(items: Sequence[Any], pack: Pack, *, key: Hashable = None) -> tuple[Blobs, bytes]:
    """Return the bytes that each element has inside the packed list, and their digests.

    ``key``: where the same list was told before, if it was. Nothing but time depends on it.
    """
    told = _told(items)
    if told is None:
        blobs = [pack(item) for item in items]
        return Blobs(blobs), digests(blobs)
    kinds, body = told
    before = _memory.get(key)
    if before is None or not before.begins(kinds, body):
        before = _NOTHING
    tail = [pack(item) for item in items[len(before.kinds) :]]
    now = Telling(kinds, body, before.digests + digests(tail))
    _memory.keep(key, now)
    return Blobs(tail, len(before.kinds), lambda: [pack(item) for item in _retold(now)]), now.digests


def _told(items: Sequence[Any]) -> tuple[list[type], bytes] | None:
    """Return the class of each message and all that decides how they are packed; None where that cannot be said."""
    kinds = [*map(type, items)]
    if not SHAPE_OF.keys() >= {*kinds} or any(map(_EXTRA, items)):
        return None
    try:
        return kinds, _body([item.__dict__ for item in items])
    except TypeError:  # something in them is more than plain data
        return None


def _body(held: list[dict[str, Any]]) -> bytes:
    return ormsgpack.packb(held, option=PLAIN)[len(header("list", len(held))) :]


def _retold(telling: Telling) -> list[Any]:
    """Return the messages as they were when they were told."""
    held = ormsgpack.unpackb(header("list", len(telling.kinds)) + telling.body)
    return [built(SHAPE_OF[kind], one) for kind, one in zip(telling.kinds, held, strict=True)]


def header(kind: str, count: int) -> bytes:
    """Return what stands before the elements of a packed list, or else dict."""
    short, middle, long = (0x90, 0xDC, 0xDD) if kind == "list" else (0x80, 0xDE, 0xDF)
    if count < 16:
        return bytes([short | count])
    return struct.pack(">BH", middle, count) if count < 1 << 16 else struct.pack(">BI", long, count)
