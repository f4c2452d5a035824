"""The bytes of a list's elements, and their digests. A message that was packed before is recognised by its content.

A conversation is handed over whole at each step, and packing it takes longer than storing what is new. Nodes change
messages in place, so an object says nothing about what it holds now. What decides is all that it holds, written down
as plain data: a tenth of the work. Whatever is not plain data, or of another class, is packed each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agents.messages import PLAIN

Pack = Callable[[Any], bytes]
Element = tuple[bytes, bytes]  # its bytes, their digest

DIGEST_BYTES = 16  # 128 bits of blake2b: nobody may find another message with the digest of one that is stored
REMEMBERED_BYTES = 16 << 20  # of elements and of what they held, in one process

# By class and not by a subclass, whose dump may depend on more than its fields.
_NAMES: dict[type, str] = {cls: cls.__name__ for cls in (HumanMessage, AIMessage, ToolMessage, SystemMessage)}


class _Memory:
    """What was packed lately. Two halves: the older one is forgotten whole, so that nothing is kept in order."""

    def __init__(self) -> None:
        self._young: dict[bytes, Element] = {}
        self._old: dict[bytes, Element] = {}
        self._size = 0

    def get(self, content: bytes) -> Element | None:
        found = self._young.get(content)
        if found is None and (found := self._old.get(content)) is not None:
            self.add(content, found)
        return found

    def add(self, content: bytes, element: Element) -> None:
        self._young[content] = element
        self._size += len(content) + len(element[0])
        if self._size > REMEMBERED_BYTES // 2:
            self._young, self._old, self._size = {}, self._young, 0


_memory = _Memory()


def digest(blob: bytes) -> bytes:
    return blake2b(blob, digest_size=DIGEST_BYTES).digest()


def elements(items: Sequence[Any], pack: Pack) -> list[Element]:
    """Return the bytes that each element has inside the packed list, with their digest."""
    contents = [_content(item) for item in items]
    found = [None if content is None else _memory.get(content) for content in contents]
    missing = [at for at, element in enumerate(found) if element is None]
    for at, blob in zip(missing, _packed([items[at] for at in missing], pack), strict=True):
        found[at] = element = (blob, digest(blob))
        if (content := contents[at]) is not None:
            _memory.add(content, element)
    return [element for element in found if element is not None]


def _content(item: Any) -> bytes | None:
    """Return all that decides how a message is packed; None where that cannot be said."""
    name = _NAMES.get(type(item))
    if name is None:
        return None
    try:
        return ormsgpack.packb([name, item.__pydantic_extra__, item.__dict__], option=PLAIN)
    except TypeError:  # something in it is more than plain data
        return None


_EXTENSIONS = {
    0xC7: (">B", 3),
    0xC8: (">H", 4),
    0xC9: (">I", 6),
}  # first byte: form of the length, bytes before the body


def _packed(items: Sequence[Any], pack: Pack) -> Sequence[bytes]:
    """Pack each. Objects are cut out of the packed whole, which is faster than one by one."""
    if not items or not all(isinstance(item, BaseMessage) for item in items):
        return [pack(item) for item in items]
    whole = pack(items)
    blobs, start = [], len(header("list", len(items)))
    while start < len(whole) and whole[start] in _EXTENSIONS:
        form, body = _EXTENSIONS[whole[start]]
        end = start + body + struct.unpack_from(form, whole, start + 1)[0]
        blobs.append(whole[start:end])
        start = end
    return blobs if start == len(whole) else [pack(item) for item in items]


def header(kind: str, count: int) -> bytes:
    """Return what stands before the elements of a packed list, or else dict."""
    short, middle, long = (0x90, 0xDC, 0xDD) if kind == "list" else (0x80, 0xDE, 0xDF)
    if count < 16:
        return bytes([short | count])
    return struct.pack(">BH", middle, count) if count < 1 << 16 else struct.pack(">BI", long, count)
