"""Arguments as plain data: brought into one form without loss, looked through for what a reviewer must know."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from agents.outcome import NotCanonical, as_plain, canonical_bytes
from reviews.dialects.proposals import BrokenRules, quoted
from reviews.hidden import iter_hidden

# The canonical form goes to 400, but a deep value must also survive encoders and pages that are deep in calls already.
MAX_NESTING = 200
MAX_SAFE_INTEGER = 2**53 - 1  # beyond it JavaScript rounds
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # what msgpack, and so a checkpoint, can hold

Path = tuple[str | int, ...]


class _Repeated(ValueError):
    """An object in JSON text has one key twice."""


def plain_copy(value: Any, depth: int = 0) -> Any:
    """Return ``value`` with its objects as plain data and the order of keys kept. Raises BrokenRules: ``too_deep``."""
    if depth > MAX_NESTING:
        raise BrokenRules(
            "too_deep", f"The value is nested deeper than {MAX_NESTING} levels, so it cannot be shown whole."
        )
    plain = as_plain(value)
    if plain is not value:
        return plain_copy(plain, depth + 1)
    if isinstance(plain, dict):
        copied = {}
        for key, item in plain.items():  # loops, not comprehensions: one stack frame a level
            copied[key] = plain_copy(item, depth + 1)
        return copied
    if isinstance(plain, list | tuple):
        items = []
        for item in plain:
            items.append(plain_copy(item, depth + 1))
        return items
    return plain


def is_object(value: Any) -> bool:
    """Say whether ``value`` is an object as JSON knows it, so that an edit can send it back."""
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def normal_args(given: Any) -> tuple[Any, set[str]]:
    """Return the arguments and what was done to them. Text is decoded once; what is no object stays as it came."""
    if given is None:
        return {}, {"args_missing"}
    if isinstance(given, str):
        decoded = _decoded(given)
        return (given, {"args_not_object"}) if decoded is None else (decoded, {"args_from_text"})
    return given, set() if is_object(given) else {"args_not_object"}


def _decoded(text: str) -> dict[str, Any] | None:
    """Read JSON text that holds an object; None where decoding would lose something. Raises BrokenRules."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_exact, parse_float=_exact)
    except _Repeated as error:
        raise BrokenRules(
            "ambiguous", f"The text in args has the key {error} twice; which one counts is not known."
        ) from error
    except RecursionError as error:
        raise BrokenRules("too_deep", f"The text in args is nested deeper than {MAX_NESTING} levels.") from error
    except ValueError:
        return None
    return plain_copy(value) if isinstance(value, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in pairs:
        if key in found:
            raise _Repeated(quoted(key))
        found[key] = item
    return found


def _exact(text: str) -> float:
    """Read a number; ValueError for NaN, Infinity and 1e400, which JSON does not have or a float cannot keep."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


# ---------------------------------------------------------------------------------------------------------------- flags


def flags_of(args: Any, *texts: str | None) -> set[str]:
    """Look through arguments and further texts: ``big_int``, ``not_json``, ``hidden_chars``, ``invalid_unicode``."""
    flags = set()
    found = [text for text in texts if text is not None]
    waiting = [args]
    while waiting:
        node = waiting.pop()
        match node:
            case str():
                found.append(node)
            case dict():
                waiting.extend(node.keys())
                waiting.extend(node.values())
            case list() | tuple() | set() | frozenset():
                waiting.extend(node)
        if not _is_json(node):
            flags.add("not_json")
        elif type(node) is int and abs(node) > MAX_SAFE_INTEGER:
            flags.add("big_int")
    return flags | _text_flags(" ".join(found))


def _is_json(node: Any) -> bool:
    """Judge one node, not what it holds."""
    match node:
        case float():
            return math.isfinite(node)
        case dict():
            return is_object(node)
        case _:
            # Tuples come as keys only here: plain_copy made the others lists.
            return node is None or isinstance(node, bool | int | str | list | tuple)


def _text_flags(text: str) -> set[str]:
    flags = set() if _is_unicode(text) else {"invalid_unicode"}
    if any(hidden.kind != "surrogate" for hidden in iter_hidden(text)):
        flags.add("hidden_chars")
    return flags


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------- edits


def locked_leaves(args: Any) -> dict[Path, Any]:
    """Return what JSON cannot hold (NaN, dates, bytes, other than text keys), by its place. An edit keeps it."""
    return {path: node for path, node in _walk(args) if not _is_json(node)}


def unsendable(value: Any) -> Iterator[tuple[Path, str, str]]:
    """Yield place, code and message of what a person may not send: it would be refused or changed on its way."""
    for path, node in _walk(value):
        if len(path) > MAX_NESTING:
            yield path, "too_deep", f"This is nested deeper than {MAX_NESTING} levels."
            return
        if fault := _fault(node):
            yield path, *fault


def _fault(node: Any) -> tuple[str, str] | None:
    if isinstance(node, float) and not math.isfinite(node):
        return "not_a_number", f"{node} is not a number that JSON can hold."
    if not _is_json(node):
        return "not_json", f"A value of type {type(node).__name__} cannot be sent as JSON."
    if type(node) is int and not MIN_INTEGER <= node <= MAX_INTEGER:
        return "out_of_range", f"The number is out of range: a checkpoint holds {MIN_INTEGER} to {MAX_INTEGER}."
    if isinstance(node, str) and not _is_unicode(node):
        return (
            "invalid_unicode",
            "The text holds half a character (a lone surrogate), which would become a question mark.",
        )
    return None


def same(first: Any, second: Any) -> bool:
    """Compare by canonical form, where 1, 1.0, "1" and true are four values."""
    try:
        return canonical_bytes(first) == canonical_bytes(second)
    except NotCanonical:
        return False


def at(value: Any, path: Path) -> Any:
    """Return what stands at ``path``. Raises LookupError."""
    found = value
    for step in path:
        # A list takes positions only, an object texts only: else {"0": …} would pass for a list.
        holder: type[Any] = list if isinstance(step, int) else dict
        if not isinstance(found, holder):
            raise LookupError(path)
        found = found[step]
    return found


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield each node with its place, keys of objects included (as text at the object's own place)."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        if isinstance(node, dict) and is_object(node):
            waiting.extend((path, key) for key in node)
            waiting.extend(((*path, key), item) for key, item in node.items())
        elif isinstance(node, list | tuple):
            waiting.extend(((*path, index), item) for index, item in enumerate(node))
