"""How a stored value is written for people: texts as they are, the rest as JSON, nothing like another type."""

from __future__ import annotations

import json
import re
from typing import Any

from agents.outcome import canonical_bytes
from reviews.strict_json import is_plain

PREVIEW = 4_000  # bytes of one value on a page; the rest on demand, with its real size
BLOCK = 200_000  # bytes of a whole payload on a page
LINE = 120  # characters of a value inside a sentence or a short list
CHANGE = 1_000  # characters of each side of a change
AROUND = 40  # characters that stay around a changed word
_LOOKS_LIKE_JSON = re.compile(r"\s*(?:-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity)?\s*", re.ASCII)


def written(value: Any, *, indent: int | None = 2) -> str:
    """Write ``value``. A text that could be taken for a number, a word of JSON or nothing stands in quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if _LOOKS_LIKE_JSON.fullmatch(value) else value
    if is_plain(value) or isinstance(value, float):
        return json.dumps(value, ensure_ascii=False, indent=indent if isinstance(value, dict | list) else None)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return json.dumps(value, ensure_ascii=False, indent=indent, default=_named)
    return canonical_bytes(value).decode() if isinstance(value, dict | list | set | frozenset) else _named(value)


def _named(value: Any) -> str:
    """Write what JSON cannot hold with the name of its type: ``date(2026-12-01)``."""
    name = type(value).__name__
    if isinstance(value, bytes):
        return f"{name}({value.hex()})"
    return f"{name}({value if not isinstance(value, set | frozenset) else sorted(map(repr, value))})"


def one_line(value: Any, *, most: int = LINE) -> str:
    head = value[: 2 * most] if isinstance(value, str) else value
    text = " ".join(written(head, indent=None).split("\n"))
    return text if len(text) <= most else f"{text[:most]}…"


def shortened(text: str, *, around: int) -> str:
    """Leave out the middle of a text, keeping ``around`` characters at both ends."""
    return text if len(text) <= 3 * around else f"{text[:around]} … {text[-around:]}"


def size_of(value: Any) -> int:
    """Return the bytes of ``value`` as it is written: of a text its own, else of its JSON."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    return len(written(value).encode("utf-8", "surrogatepass"))
