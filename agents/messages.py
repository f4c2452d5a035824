"""The bytes of a message: a number for its class and fields, and the values of those in a row.

LangGraph writes each field's name into each message and reads one back through its constructor. Ours is half as long
and read in half the time, and gives the very object that was put. It is for the core classes while they hold plain
data of the types that their fields declare; all else goes LangGraph's way, and so do rows from before.

A *shape* that was ever stored stays here for good. Where the installed langchain-core has other fields than a shape,
its constructor is asked, as LangGraph does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import itemgetter
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

CODE = 77  # of the msgpack extension; LangGraph's own begin at 0
# Whatever these name is not written as plain data but refused, and so is text with half a character.
PLAIN = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
Types = frozenset[type]
_TEXT: Types = frozenset({str})
_TEXT_OR_NONE: Types = frozenset({str, type(None)})
_DICT: Types = frozenset({dict})
_TYPES: dict[str, Types] = {
    "content": frozenset({str, list}),
    "additional_kwargs": _DICT,
    "response_metadata": _DICT,
    "type": _TEXT,
    "name": _TEXT_OR_NONE,
    "id": _TEXT_OR_NONE,
    "tool_calls": frozenset({list}),
    "invalid_tool_calls": frozenset({list}),
    "usage_metadata": frozenset({dict, type(None)}),
    "tool_call_id": _TEXT,
    "status": _TEXT,
}
_BLOCKS, _STATUSES = frozenset({str, dict}), frozenset({"success", "error"})
_CALL = {"name": _TEXT, "args": _DICT, "id": _TEXT_OR_NONE}
_INVALID_CALL = dict.fromkeys(("name", "args", "id"), _TEXT_OR_NONE)


@dataclass(frozen=True)
class Shape:
    """A class as it was when it had these fields. Its values are stored in their order."""

    number: int
    cls: type[BaseMessage]
    kind: str
    fields: tuple[str, ...]
    rest_fits: Callable[[Mapping[str, Any]], bool] | None = None  # of fields that not all messages have
    values: itemgetter[Any] = field(init=False)
    checked: itemgetter[Any] = field(init=False)
    allowed: frozenset[tuple[type, ...]] = field(init=False)  # the types that those may have, together
    is_current: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", itemgetter(*self.fields))
        checked = [name for name in self.fields if name in _TYPES]
        object.__setattr__(self, "checked", itemgetter(*checked))
        object.__setattr__(self, "allowed", frozenset(product(*(_TYPES[name] for name in checked))))
        now = self.cls.model_fields
        object.__setattr__(self, "is_current", tuple(now) == self.fields and now["type"].default == self.kind)


def _calls_fit(held: Mapping[str, Any]) -> bool:
    """Tell whether the calls of a model are such as its class would take."""
    calls, invalid_calls = held["tool_calls"], held["invalid_tool_calls"]
    return (not calls or _are(calls, _CALL)) and (not invalid_calls or _are(invalid_calls, _INVALID_CALL))


def _are(calls: Sequence[Any], types: Mapping[str, Types]) -> bool:
    return all(
        type(call) is dict and all(name in call and type(call[name]) in some for name, some in types.items())
        for call in calls
    )


def _status_fits(held: Mapping[str, Any]) -> bool:
    return held["status"] in _STATUSES


_COMMON = ("content", "additional_kwargs", "response_metadata", "type", "name", "id")
SHAPES = (
    Shape(0, HumanMessage, "human", _COMMON),
    Shape(1, SystemMessage, "system", _COMMON),
    Shape(2, AIMessage, "ai", (*_COMMON, "tool_calls", "invalid_tool_calls", "usage_metadata"), _calls_fit),
    Shape(3, ToolMessage, "tool", (*_COMMON, "tool_call_id", "artifact", "status"), _status_fits),
)
# By class and not by a subclass, whose dump may depend on more than its fields.
SHAPE_OF: dict[type, Shape] = {shape.cls: shape for shape in SHAPES if shape.is_current}


def packed(item: Any) -> ormsgpack.Ext | None:
    """Return a message in this form; None for whatever has none."""
    shape = SHAPE_OF.get(type(item))
    if shape is None or item.__pydantic_extra__ or not _fits(shape, held := item.__dict__):
        return None
    try:
        return ormsgpack.Ext(CODE, ormsgpack.packb([shape.number, *shape.values(held)], option=PLAIN))
    except TypeError:  # something in it is more than plain data
        return None


def unpacked(data: bytes) -> Any:
    """Return the message, or what stands in its place as data where it is none: nothing is constructed then."""
    try:
        plain = ormsgpack.unpackb(data)
        number, *values = plain
        shape = SHAPES[number] if type(number) is int and number >= 0 else None
    except (ValueError, TypeError, IndexError):  # no msgpack, no array, no such shape
        return data
    if shape is None or len(values) != len(shape.fields):
        return plain
    held = dict(zip(shape.fields, values, strict=True))
    if not _fits(shape, held):
        return held
    return built(shape, held) if shape.is_current else _asked(shape, held)


def built(shape: Shape, held: dict[str, Any]) -> BaseMessage:
    """Return the message that holds these values, as its constructor would make it, without asking it."""
    message = shape.cls.__new__(shape.cls)
    object.__setattr__(message, "__dict__", held)
    object.__setattr__(message, "__pydantic_fields_set__", set(shape.fields))
    object.__setattr__(message, "__pydantic_extra__", {})
    object.__setattr__(message, "__pydantic_private__", None)
    return message


def _asked(shape: Shape, held: dict[str, Any]) -> Any:
    try:
        return shape.cls(**held)
    except Exception:  # a class that has changed so far: nothing is lost, but it is no message any more
        return held


def _fits(shape: Shape, held: Mapping[str, Any]) -> bool:
    """Tell whether the values are such as the constructor leaves behind: readers of messages count on that."""
    try:
        if len(held) != len(shape.fields) or (*map(type, shape.checked(held)),) not in shape.allowed:
            return False
    except KeyError:  # a field is missing, and another one there
        return False
    content = held["content"]
    if type(content) is list and not all(type(block) in _BLOCKS for block in content):
        return False
    return held["type"] == shape.kind and (shape.rest_fits is None or shape.rest_fits(held))
