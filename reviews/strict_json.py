"""JSON as a reviewer types it: read strictly, written so that what cannot be seen is spelled out.

``json.loads`` alone keeps the last of repeated keys, turns 1e400 into infinity, takes NaN, and dies of 100,000
brackets. Here each of these is refused with its reason and its place, because what is shown has to be what runs.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError

from agents.outcome import canonical_bytes
from reviews.hidden import iter_hidden

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # what msgpack, and so a checkpoint, can hold
MAX_DIGITS = 4300  # Python's own limit for reading an integer
MAX_NESTING = 200
SHOWN = 40  # characters of a wrong value that its message repeats

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]++|\\.)*+")(?P<colon>[ \t\r\n]*+:)?"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<number>-?[0-9][0-9.eE+\-]*+)|(?P<word>-?[A-Za-z_][A-Za-z_0-9]*+)""",
    re.DOTALL,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_NUMBERS = {"nan", "infinity", "inf"}


class _Place:
    """Turns an offset into "line 3, column 7"."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def __call__(self, offset: int) -> str:
        line = bisect_right(self._starts, offset)
        return f"line {line}, column {offset - self._starts[line - 1] + 1}"


def parse_json(text: str) -> Any:
    """Read one JSON value. Raises ValidationError that names the reason, the value or limit, and the place."""
    try:
        _refuse_what_json_loads_takes(text)
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValidationError(f"This is not JSON: {error.msg}, {place}.", code="not_json") from error


def _refuse_what_json_loads_takes(text: str) -> None:
    keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        try:
            match token.lastgroup:
                case "open":
                    keys.append(set())
                    _check_depth(len(keys))
                case "close" if keys:
                    keys.pop()
                case "number":
                    read_number(token["number"])
                case "word":
                    _check_word(token["word"])
                case "string" | "colon":
                    _check_string(token["string"], keys[-1] if token["colon"] and keys else None)
        except ValidationError as error:
            message = f"{error.message.rstrip('.')}, {_Place(text)(token.start())}."
            raise ValidationError(message, code=error.code) from error


def _check_depth(depth: int) -> None:
    if depth > MAX_NESTING:
        raise ValidationError(f"Too deep: lists and objects, more than {MAX_NESTING} levels.", code="too_deep")


def _check_word(word: str) -> None:
    if word.lower().lstrip("-") in _NOT_NUMBERS:
        raise ValidationError(f"{word} is not a number that JSON can hold.", code="not_a_number")


def _check_string(literal: str, keys: set[str] | None) -> None:
    """Refuse half a surrogate pair; with ``keys``, the keys seen so far in this object, also a repeated key."""
    if keys is None and "\\u" not in literal and literal.isascii():
        return
    value: str = json.loads(literal)
    if half := _SURROGATE.search(value):
        raise ValidationError(f"\\u{ord(half[0]):04x} is half a character.", code="surrogate")
    if keys is None:
        return
    if value in keys:
        raise ValidationError(f"Repeated key {shown(value)}: it is not clear which one counts.", code="repeated_key")
    keys.add(value)


# -------------------------------------------------------------------------------------------------------------- numbers


def read_integer(text: str) -> int:
    """Read a whole number as JSON writes it. Raises ValidationError."""
    if not _INTEGER.fullmatch(text):
        raise ValidationError(f"{shown(text)} is not a whole number.", code="not_an_integer")
    digits = len(text.lstrip("-"))
    if digits > MAX_DIGITS:
        raise ValidationError(f"Too many digits: {digits}, and {MAX_DIGITS} is the most.", code="too_many_digits")
    value = int(text)
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        limits = f"{MIN_INTEGER} to {MAX_INTEGER}"
        raise ValidationError(f"{shown(text)} is out of range: a checkpoint holds {limits}.", code="out_of_range")
    return value


def read_number(text: str) -> int | float:
    """Read a number as JSON writes it: a whole number stays one, others become floats that lose no digit."""
    if _INTEGER.fullmatch(text):
        return read_integer(text)
    if text.lower().lstrip("+-") in _NOT_NUMBERS:
        raise ValidationError(f"{text} is not a number that JSON can hold.", code="not_a_number")
    if not _NUMBER.fullmatch(text):
        hint = " Write the decimals behind a point." if re.fullmatch(r"-?[0-9.]+,[0-9]+", text) else ""
        raise ValidationError(f"{shown(text)} is not a number.{hint}", code="not_a_number")
    value = float(text)
    if math.isinf(value):
        raise ValidationError(f"{shown(text)} is out of range: 1.797e308 is the most.", code="out_of_range")
    # A value of at most 15 digits and no exponent is always kept; the others are held against what was typed.
    if (len(text) > 16 or "e" in text.lower()) and not _same_number(text, value):
        raise ValidationError(f"{shown(text)} has more digits than a number can keep, {value!r}.", code="rounded")
    return value


def _same_number(text: str, value: float) -> bool:
    mantissa, _, exponent = text.lower().partition("e")
    if value == 0:
        return not mantissa.strip("-0.")
    if len(mantissa) > MAX_DIGITS or len(exponent) > 5:
        return False
    return Decimal(text) == Decimal(repr(value))


# -------------------------------------------------------------------------------------------------------------- writing


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write plain data as JSON for an input, hidden characters spelled ``\\u202e``. ValueError for NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    pieces: list[str] = []
    end = 0
    for found in iter_hidden(text):
        pieces += [text[end : found.index], json.dumps(text[found.index])[1:-1]]
        end = found.index + 1
    return "".join([*pieces, text[end:]])


def is_plain(value: Any) -> bool:
    """Say whether strict JSON holds ``value`` exactly: no NaN, bytes, dates, sets, non-text keys, half characters."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        match item:
            case str():
                if not item.isascii() and _SURROGATE.search(item):
                    return False
            case None | bool() | int():
                pass
            case float():
                if not math.isfinite(item):
                    return False
            case list() | tuple():
                waiting.extend(item)
            case dict():
                waiting.extend(item.keys())
                waiting.extend(item.values())
                if not all(isinstance(key, str) for key in item):
                    return False
            case _:
                return False
    return True


def same(first: Any, second: Any) -> bool:
    """Compare by canonical form, where 1, 1.0, "1" and true are four values."""
    return canonical_bytes(first) == canonical_bytes(second)


def json_type(value: Any) -> str:
    """Name the JSON type of ``value`` in the words of the page."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "whole number"
        case float():
            return "number"
        case str():
            return "text"
        case list() | tuple():
            return "list"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def shown(value: str) -> str:
    """Shorten a wrong value for its message."""
    return value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
