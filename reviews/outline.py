"""Any canonical value as lines of text, with a role for each piece: structure, the agent's text, a type, an odd number.

No markup here; reviews.reveal gives each role its look. Walked without recursion, so nesting costs no stack, and
lazily, so a page that shows the first 64 kB of a value does the work of 64 kB. A type stands before the value it names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from agents.outcome import canonical_bytes
from reviews.strict_json import json_type, to_json
from reviews.texts import hidden_in

Role = Literal["plain", "text", "type", "odd"]
Token = tuple[Role, str]

ONE_LINE = 60  # characters of a list or object of plain values that stays on one line
MAX_INDENT = 40  # levels; deeper ones stand under each other
_MOMENTS: dict[type, str] = {datetime: "date and time", date: "date", time: "time"}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})


@dataclass(frozen=True)
class _Node:
    value: Any
    path: str
    depth: int

    @property
    def line(self) -> str:
        return "\n" + "  " * min(self.depth, MAX_INDENT)


def outline(value: Any, *, types: Mapping[str, str] | None = None) -> Iterator[Token]:
    """Yield the pieces of ``value`` in order. ``types``: path -> type name, as Ask.types has it."""
    if isinstance(value, str):
        yield "text", value
        return
    waiting: list[Iterator[Token | _Node]] = [iter([_Node(value, "", 0)])]
    while waiting:
        piece = next(waiting[-1], None)
        if piece is None:
            waiting.pop()
        elif isinstance(piece, _Node):
            waiting.append(_open(piece, types or {}))
        else:
            yield piece


def _open(node: _Node, types: Mapping[str, str]) -> Iterator[Token | _Node]:
    if node.path in types:
        yield "type", types[node.path]
    match node.value:
        case str():
            yield from (("plain", '"'), ("text", node.value.translate(_ESCAPES)), ("plain", '"'))
        case dict() | list() | tuple() if line := _one_line(node.value):
            yield "text", line
        case dict():
            yield from _open_map(node)
        case list() | tuple():
            yield from _open_list(node, node.value, "[]")
        case set() | frozenset():
            yield "type", "set"
            yield from _open_list(node, sorted(node.value, key=canonical_bytes), "{}")
        case _:
            yield from _scalar(node.value)


def _one_line(value: Any) -> str:
    """Write a short list or object of plain values; empty if it is not one."""
    items = value if isinstance(value, list | tuple) else [*value, *value.values()]
    if len(items) > 12 or not all(item is None or isinstance(item, bool | int | float | str) for item in items):
        return ""
    if any(isinstance(item, float) and not math.isfinite(item) for item in items) or not _text_keys(value):
        return ""
    if sum(len(item) for item in items if isinstance(item, str)) > ONE_LINE or hidden_in(value, limit=1):
        return ""
    line = to_json(value, indent=None)
    return line if len(line) <= ONE_LINE else ""


def _text_keys(value: Any) -> bool:
    return not isinstance(value, dict) or all(isinstance(key, str) for key in value)


def _open_map(node: _Node) -> Iterator[Token | _Node]:
    yield "plain", "{"
    for number, (key, item) in enumerate(node.value.items()):
        inner = _Node(item, f"{node.path}/{key}", node.depth + 1)
        yield "plain", ("," if number else "") + inner.line
        yield from _key(key)
        yield "plain", ": "
        yield inner
    yield "plain", node.line + "}"


def _key(key: Any) -> Iterator[Token]:
    if isinstance(key, str):
        yield from (("plain", '"'), ("text", key.translate(_ESCAPES)), ("plain", '"'))
        return
    yield "type", f"{json_type(key)} as a key"
    yield "text", key.isoformat() if isinstance(key, date | time) else str(key)


def _open_list(node: _Node, items: Sequence[Any], brackets: str) -> Iterator[Token | _Node]:
    yield "plain", brackets[0]
    for number, item in enumerate(items):
        inner = _Node(item, f"{node.path}/{number}", node.depth + 1)
        yield "plain", ("," if number else "") + inner.line
        yield inner
    yield "plain", node.line + brackets[1]


def _scalar(value: Any) -> Iterator[Token]:
    match value:
        case None | bool() | int():
            yield "plain", to_json(value)
        case float():
            yield ("plain" if math.isfinite(value) else "odd"), _float_words(value)
        case bytes() | bytearray():
            yield "type", f"{len(value)} byte{'' if len(value) == 1 else 's'}"
            yield "text", value.hex(" ", 2)
        case datetime() | date() | time():
            yield "type", _MOMENTS[type(value)]
            yield "text", value.isoformat()
        case Decimal() | UUID() | timedelta():
            yield "type", {Decimal: "decimal", UUID: "uuid"}.get(type(value), "duration")
            yield "text", str(value)
        case _:  # a value that was never in a checkpoint, such as a held one
            yield "type", type(value).__qualname__
            yield "text", repr(value)


def _float_words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
