"""The texts inside a value, keys too: where they stand, and which hidden characters they hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from reviews.hidden import Hidden, find_hidden, hidden_runs, iter_hidden

Path = tuple[Any, ...]  # keys and list indexes from the outside in


def texts_in(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield each text with its path, in the order of the page; a key stands under the path it names."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        match item:
            case str():
                yield path, item
            case dict():
                for key in item:
                    yield from (((*path, key), text) for _, text in texts_in(key))
                waiting.extend(((*path, key), part) for key, part in reversed(item.items()))
            case list() | tuple():
                waiting.extend(((*path, index), part) for index, part in reversed(list(enumerate(item))))
            case set() | frozenset():
                waiting.extend((path, part) for part in item)


def hidden_in(value: Any, *, limit: int | None = None) -> list[Hidden]:
    """Return the hidden characters of all texts in ``value``, at most ``limit``."""
    return list(islice((found for _, text in texts_in(value) for found in iter_hidden(text)), limit))


def spelled(text: str) -> str:
    """Write each hidden character of a text as ``[U+202E]``, for places that hold no markup."""
    pieces: list[str] = []
    end = 0
    for found, count in hidden_runs(text):
        pieces += [text[end : found.index], f"[{found.label}]" * count]
        end = found.index + count
    return "".join([*pieces, text[end:]])


def without_hidden(value: Any) -> Any:
    """Return plain data without hidden characters in texts and keys. Of keys that become equal the later one counts."""
    match value:
        case str():
            return _stripped(value)
        case dict():
            return {without_hidden(key): without_hidden(item) for key, item in value.items()}
        case list() | tuple():
            return [without_hidden(item) for item in value]
        case _:
            return value


def _stripped(text: str) -> str:
    # What is left may be hidden only now: a joiner loses the letter that needed it. Each round removes at least one.
    while hidden := find_hidden(text):
        places = {found.index for found in hidden}
        text = "".join(sign for index, sign in enumerate(text) if index not in places)
    return text
