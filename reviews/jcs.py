"""RFC 8785, the JSON Canonicalization Scheme, for bodies that hold no fractions.

One value has one text, so that anybody can hash an audit entry again with any JCS library. Bodies hold texts, whole
numbers, booleans, null, lists and objects; a float is refused, and so its number rules are never needed.
"""

from __future__ import annotations

import json
from typing import Any

MAX_INTEGER = 2**53 - 1  # beyond it a double, and so every JavaScript reader, loses digits


class NotJcs(ValueError):
    """The value cannot stand in a body: a float, a big integer, half a character, a key that is no text."""


def to_jcs(value: Any) -> str:
    """Return the canonical text of ``value``. Raises NotJcs."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int():
            return _integer(value)
        case str():
            return _text(value)
        case list() | tuple():
            return "[" + ",".join(to_jcs(item) for item in value) + "]"
        case dict():
            return _object(value)
        case _:
            raise NotJcs(f"A {type(value).__name__} cannot stand in a body.")


def _integer(value: int) -> str:
    if abs(value) > MAX_INTEGER:
        raise NotJcs(f"{value} is beyond {MAX_INTEGER}.")
    return str(int(value))


def _text(value: str) -> str:
    _utf16(value)
    return json.dumps(str(value), ensure_ascii=False)  # escapes exactly what JSON.stringify escapes


def _object(value: dict[Any, Any]) -> str:
    if not all(isinstance(key, str) for key in value):
        raise NotJcs("A key has to be text.")
    return "{" + ",".join(f"{_text(key)}:{to_jcs(value[key])}" for key in sorted(value, key=_utf16)) + "}"


def _utf16(text: str) -> bytes:
    """Return the order of the standard: UTF-16 code units, where U+1F600 stands before U+FB33."""
    try:
        return text.encode("utf-16-be")
    except UnicodeEncodeError as error:
        raise NotJcs("Half a surrogate pair is no character.") from error
