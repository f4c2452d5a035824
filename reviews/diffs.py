"""What changed between what was asked and what a person made of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from reviews.strict_json import same, to_json

Op = Literal["same", "minus", "plus"]
Piece = tuple[Op, str]

MAX_WORDS = 2000  # on each side, what both begin and end with not counted
MAX_PAIRS = 40_000  # equal words, old with new, that the matcher may have to look at again and again
MOSTLY = 0.5
_WORD = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")  # a word takes its blanks along


def word_diff(old: str, new: str) -> list[Piece]:
    """Compare two texts word by word. Texts that differ in too much are one replacement.

    The "same" and "minus" pieces make up ``old``, the "same" and "plus" pieces ``new``.
    """
    if old == new:
        return [("same", old)] if old else []
    before, after = _WORD.findall(old), _WORD.findall(new)
    head = _shared(before, after)
    tail = _shared(before[head:][::-1], after[head:][::-1])
    middle = _compared(before[head : len(before) - tail], after[head : len(after) - tail])
    pieces: list[Piece] = [("same", "".join(before[:head])), *middle]
    pieces.append(("same", "".join(before[len(before) - tail :])))
    return [piece for piece in pieces if piece[1]]


def _shared(first: list[str], second: list[str]) -> int:
    limit = min(len(first), len(second))
    return next((place for place in range(limit) if first[place] != second[place]), limit)


def _compared(before: list[str], after: list[str]) -> list[Piece]:
    if len(before) > MAX_WORDS or len(after) > MAX_WORDS or _pairs(before, after) > MAX_PAIRS:
        return [("minus", "".join(before)), ("plus", "".join(after))]
    pieces: list[Piece] = []
    for op, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if op == "equal":
            pieces.append(("same", "".join(before[start:end])))
        else:
            pieces += [("minus", "".join(before[start:end])), ("plus", "".join(after[new_start:new_end]))]
    return pieces


def _pairs(before: list[str], after: list[str]) -> int:
    counted = Counter(after)
    return sum(counted[word] for word in before)


# -------------------------------------------------------------------------------------------------------- arguments


@dataclass(frozen=True)
class Change:
    """One argument that is not as it was. ``old`` is None where it was added, ``new`` where it was removed."""

    name: str
    old: Any
    new: Any
    kind: Literal["added", "changed", "removed"]

    @property
    def words(self) -> list[Piece]:
        """The change of a text, word by word; of anything else its JSON or form as a whole."""
        if isinstance(self.old, str) and isinstance(self.new, str):
            return word_diff(self.old, self.new)
        pieces: list[Piece] = [] if self.kind == "added" else [("minus", _written(self.old))]
        return pieces if self.kind == "removed" else [*pieces, ("plus", _written(self.new))]


def changes(old_args: Mapping[Any, Any], new_args: Mapping[Any, Any]) -> list[Change]:
    """Return what differs, in the order of the old arguments, added ones last; 1, 1.0 and "1" differ."""
    found = []
    for name, old in old_args.items():
        if name not in new_args:
            found.append(Change(str(name), old, None, "removed"))
        elif not same(old, new_args[name]):
            found.append(Change(str(name), old, new_args[name], "changed"))
    added = [Change(str(name), None, new, "added") for name, new in new_args.items() if name not in old_args]
    return found + added


def mostly_changed(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> bool:
    """Say whether an edit changes most of a call: then the model may take it for a failure and call again.

    Each argument counts the same; a text that was changed counts by the share of it that is new.
    """
    names = {*old, *new}
    if not names:
        return False
    return sum(map(_weight, changes(old, new))) / len(names) > MOSTLY


def _weight(change: Change) -> float:
    if change.kind != "changed" or not (isinstance(change.old, str) and isinstance(change.new, str)):
        return 1.0
    kept = sum(len(text) for op, text in change.words if op == "same")
    return 1.0 - kept / max(len(change.old), len(change.new), 1)


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return to_json(value, indent=None)
    except (TypeError, ValueError):  # dates, bytes, NaN
        return str(value)
