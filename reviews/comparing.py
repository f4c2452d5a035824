"""What differs between two checkpoints: messages by their ids, other values key by key, texts word by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.outcome import MessageView, Snapshot, ToolCallView, from_canonical
from reviews.diffs import Change, changes
from reviews.strict_json import same
from reviews.texts import Path

Kind = Literal["added", "changed", "removed"]
MOST_MESSAGES = 200  # that are told one by one
MOST_CHANGES = 200
WHO = {"human": "person", "ai": "agent", "tool": "tool", "system": "instructions", "other": "message"}


@dataclass(frozen=True)
class MessageChange:
    """A message that is not as it was, and what of it: its text, a call, a result."""

    kind: Kind
    who: str
    parts: tuple[Change, ...]


@dataclass(frozen=True)
class Difference:
    """Messages ``before`` and ``after`` are counts. ``same_values``: names. ``cut``: more differs."""

    before: int
    after: int
    messages: tuple[MessageChange, ...]
    values: tuple[Change, ...]
    same_values: tuple[str, ...]
    cut: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.messages or self.values)


def compare(old: Snapshot | None, new: Snapshot) -> Difference:
    """Return what is in ``new`` and was not in ``old`` (None: nothing was before), and the other way round."""
    told = list(_messages(old.messages if old else (), new.messages))
    before, after = (_named(from_canonical(one.values)) if one else {} for one in (old, new))
    differing = list(_values(before, after))
    return Difference(
        before=len(old.messages) if old else 0,
        after=len(new.messages),
        messages=tuple(told[:MOST_MESSAGES]),
        values=tuple(differing[:MOST_CHANGES]),
        same_values=tuple(str(name) for name in after if name in before and same(before[name], after[name])),
        cut=len(told) > MOST_MESSAGES or len(differing) > MOST_CHANGES,
    )


# ------------------------------------------------------------------------------------------------------------- messages


def shared(old: Sequence[MessageView], new: Sequence[MessageView]) -> int:
    """Return how many messages both conversations begin with."""
    limit = min(len(old), len(new))
    return next((at for at in range(limit) if old[at] != new[at]), limit)


def _messages(old: Sequence[MessageView], new: Sequence[MessageView]) -> Iterator[MessageChange]:
    start = shared(old, new)
    before = {_key(one, at): one for at, one in enumerate(old[start:])}
    after = {_key(one, at): one for at, one in enumerate(new[start:])}
    for key, one in before.items():
        if key not in after:
            yield MessageChange("removed", _who(one), tuple(_parts(one, None)))
    for key, one in after.items():
        if key not in before:
            yield MessageChange("added", _who(one), tuple(_parts(None, one)))
        elif parts := tuple(_parts(before[key], one)):
            yield MessageChange("changed", _who(one), parts)


def _key(message: MessageView, at: int) -> str:
    return message.id or f"at {at}"  # what has no id can only be told apart by its place


def _who(message: MessageView) -> str:
    return WHO.get(message.role, message.role)


def _parts(old: MessageView | None, new: MessageView | None) -> Iterator[Change]:
    before, after = (dict(_pieces(one)) if one else {} for one in (old, new))
    yield from changes(before, after)


def _pieces(message: MessageView) -> Iterator[tuple[str, Any]]:
    """Yield what a message is made of: its text, and of each call the arguments and the result."""
    if message.content:
        yield "text", message.content
    for at, call in enumerate(message.calls):
        yield _call_name("call", call, at), call.args
        if call.result is not None:
            yield _call_name("error" if call.error else "result", call, at), call.result


def _call_name(word: str, call: ToolCallView, at: int) -> str:
    return f"{word} {call.name}" if at == 0 else f"{word} {at + 1} {call.name}"


# --------------------------------------------------------------------------------------------------------------- values


def _named(values: Any) -> Mapping[Any, Any]:
    return values if isinstance(values, Mapping) else {"value": values}


def _values(old: Any, new: Any, path: Path = ()) -> Iterator[Change]:
    """Yield what differs, as deep as both sides are of one kind; each with its path, as people write it."""
    if isinstance(old, dict) and isinstance(new, dict) and (old or new):
        for change in changes(old, new):
            if change.kind == "changed":
                yield from _values(change.old, change.new, (*path, change.name))
            else:
                yield Change(_written((*path, change.name)), change.old, change.new, change.kind)
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        yield from _items(old, new, path)
    else:
        yield Change(_written(path), old, new, "changed")


def _items(old: list[Any], new: list[Any], path: Path) -> Iterator[Change]:
    """Compare two lists: what both begin and end with is the same, the middle is told place by place."""
    limit = min(len(old), len(new))
    head = next((at for at in range(limit) if not same(old[at], new[at])), limit)
    tail = next((at for at in range(limit - head) if not same(old[-1 - at], new[-1 - at])), limit - head)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    for at in range(max(len(before), len(after))):
        place = (*path, head + at)
        if at >= len(before):
            yield Change(_written(place), None, after[at], "added")
        elif at >= len(after):
            yield Change(_written(place), before[at], None, "removed")
        elif not same(before[at], after[at]):
            yield from _values(before[at], after[at], place)


def _written(path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")
