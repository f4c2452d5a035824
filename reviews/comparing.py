"""What differs between two checkpoints: messages by their ids, other values key by key, texts word by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents import history
from agents.history import Point
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
    """``same_values``: names of what did not change; ``cut``: more differs; ``unread``: what could not be compared."""

    messages: tuple[MessageChange, ...]
    values: tuple[Change, ...]
    same_messages: int
    same_values: tuple[str, ...]
    unread: tuple[str, ...] = ()
    cut: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.messages or self.values)


def compare(old: Point | None, new: Snapshot) -> Difference:
    """Return what is in ``new`` and not in ``old`` (None: nothing was before), and the other way round.

    Only what differs is loaded of ``old``. Raises UnknownCheckpoint.
    """
    values = _named(from_canonical(new.values))
    if old is None:
        messages = [_told("added", None, one) for one in new.messages]
        differing = [Change(str(name), None, value, "added") for name, value in values.items()]
        return _difference(messages, differing, same_messages=0, names=())
    found = history.compare(old, Point(new.thread_id, new.checkpoint_id, new.namespace))
    messages = [_told(one.kind, one.before, one.after) for one in found.messages]
    changed = {one.name for one in found.values}
    return _difference(
        [one for one in messages if one.parts or one.kind != "changed"],
        [change for one in found.values for change in _value(one)],
        same_messages=found.same_messages,
        names=tuple(str(name) for name in values if name not in changed),
        unread=found.unread,
    )


def _difference(
    messages: Sequence[MessageChange],
    values: Sequence[Change],
    *,
    same_messages: int,
    names: tuple[str, ...],
    unread: tuple[str, ...] = (),
) -> Difference:
    return Difference(
        tuple(messages[:MOST_MESSAGES]),
        tuple(values[:MOST_CHANGES]),
        same_messages,
        names,
        unread,
        cut=len(messages) > MOST_MESSAGES or len(values) > MOST_CHANGES,
    )


# ------------------------------------------------------------------------------------------------------------- messages


def shared(old: Sequence[MessageView], new: Sequence[MessageView]) -> int:
    """Return how many messages both conversations begin with."""
    limit = min(len(old), len(new))
    return next((at for at in range(limit) if old[at] != new[at]), limit)


def _told(kind: Kind, old: MessageView | None, new: MessageView | None) -> MessageChange:
    one = new or old
    who = _who(one) if one else ""
    return MessageChange(kind, who, tuple(_parts(old, new)))


def _who(message: MessageView) -> str:
    """Name who speaks; a result bears the name of its tool."""
    if message.role == "tool" and message.name:
        return f"result {message.name}"
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


def _value(change: history.ValueChange) -> Iterator[Change]:
    path: Path = (change.name, change.key) if change.key else (change.name,)
    before = None if change.before is None else from_canonical(change.before)
    after = None if change.after is None else from_canonical(change.after)
    if change.kind == "changed":
        yield from _values(before, after, path)
    else:
        yield Change(_written(path), before, after, change.kind)


def _values(old: Any, new: Any, path: Path) -> Iterator[Change]:
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
