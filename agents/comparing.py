"""Two checkpoints side by side, of one thread or of several: what differs, message by message and value by value.

Big values lie in pieces with a digest each. What has the same digests is the same; only pieces that differ are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents import snapshots, stored, values
from agents.branches import common_ancestor
from agents.checkpointer import DjangoSaver
from agents.conversation import views
from agents.head import messages_of
from agents.outcome import MessageView, digest_of_bytes
from agents.pieces import Address, addresses, joined
from agents.snapshots import Layout
from agents.stored import CheckpointRow
from agents.values import Point, UnknownCheckpoint, is_internal, shown_bytes

_saver = DjangoSaver()
Kind = Literal["added", "changed", "removed"]


@dataclass(frozen=True)
class MessageChange:
    """One message that is not the same on both sides; ``after`` is None for a removed one, ``before`` for an added."""

    kind: Kind
    id: str
    before: MessageView | None = None
    after: MessageView | None = None


@dataclass(frozen=True)
class ValueChange:
    """One value, or one entry of a value that is an object on both sides. The bytes are canonical."""

    kind: Kind
    name: str
    key: str = ""
    before: bytes | None = None
    after: bytes | None = None


@dataclass(frozen=True)
class Comparison:
    """``a`` is before, ``b`` is after. ``unread``: values that only the agent's code could rebuild: not compared."""

    a: Point
    b: Point
    ancestor: Point | None
    messages: tuple[MessageChange, ...]
    values: tuple[ValueChange, ...]
    same_messages: int
    unread: tuple[str, ...] = ()


def compare(a: Point, b: Point) -> Comparison:
    """Compare two checkpoints. Raises UnknownCheckpoint."""
    sides = _Side.of(a), _Side.of(b)
    if any(side.rebuilds for side in sides):
        sides = sides[0].rebuilt(), sides[1].rebuilt()
    before, after = sides
    messages, same = _messages(before, after)
    return Comparison(
        a=a,
        b=b,
        ancestor=None if a.namespace or b.namespace else common_ancestor(a, b),
        messages=tuple(messages),
        values=tuple(_values(before, after)),
        same_messages=same,
        unread=tuple(sorted({*before.unread, *after.unread})),
    )


# ---------------------------------------------------------------------------------------------------------------- sides


@dataclass(frozen=True)
class _Side:
    """One checkpoint: small values at once, big ones by their layout until somebody must see them."""

    point: Point
    small: Mapping[str, Any]
    layouts: Mapping[str, Layout]
    digests: Mapping[Address, bytes]
    rebuilds: bool = False
    unread: tuple[str, ...] = ()

    @classmethod
    def of(cls, point: Point) -> _Side:
        values.checked(point)
        row = stored.read_checkpoint(point.thread_id, point.namespace, point.checkpoint_id)
        if row is None:
            raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint {point.checkpoint_id}.")
        checkpoint, layouts = snapshots.opened(row, _saver.serde)
        laid = {one.name: one for one in layouts}
        small = {name: values.unwrapped(one) for name, one in checkpoint["channel_values"].items() if name not in laid}
        return cls(point, small, laid, stored.read_digests(point.thread_id, row.spans), _rebuilds(row, checkpoint))

    def rebuilt(self) -> _Side:
        """Return the same side with all values loaded: some are kept as writes."""
        whole = values.read(self.point)
        return _Side(self.point, whole.values, {}, {}, unread=whole.unread)

    def names(self) -> set[str]:
        return {name for name in {*self.small, *self.layouts} if name != "messages" and not is_internal(name)}

    def fingerprint(self, name: str) -> Any:
        """Return what is equal on two sides where their values are, as far as this can be said without loading them."""
        if name in self.layouts:
            layout = self.layouts[name]
            return layout.kind, layout.count, self.pieces(name)
        return digest_of_bytes(shown_bytes(self.small[name]))

    def pieces(self, name: str) -> list[bytes]:
        return [self.digests.get(address, b"") for address in addresses(self.layouts[name].spans)]

    def value(self, name: str) -> Any:
        if name not in self.layouts:
            return self.small.get(name)
        layout = self.layouts[name]
        blobs = self.blobs(list(addresses(layout.spans)))
        return _saver.serde.loads_typed(("msgpack", joined(layout.kind, layout.count, blobs)))

    def blobs(self, wanted: Sequence[Address]) -> list[bytes]:
        found = stored.read_pieces(self.point.thread_id, [(chain, at, at + 1) for chain, at in wanted])
        missing = [address for address in wanted if address not in found]
        if missing:
            raise snapshots.Gone(f"Piece {missing[0]} of checkpoint {self.point.checkpoint_id} is missing.")
        return [found[address][1] for address in wanted]

    @property
    def lists_messages(self) -> bool:
        """Tell whether each message is a piece of its own."""
        layout = self.layouts.get("messages")
        return layout is not None and layout.kind == "list" and layout.count == len(self.pieces("messages"))

    @property
    def has_no_messages(self) -> bool:
        return "messages" not in self.layouts and not self.small.get("messages")


def _rebuilds(row: CheckpointRow, checkpoint: Mapping[str, Any]) -> bool:
    kept = row.metadata.get("counters_since_delta_snapshot") or ()
    return any(name in checkpoint["channel_versions"] and name not in checkpoint["channel_values"] for name in kept)


# --------------------------------------------------------------------------------------------------------------- values


def _values(a: _Side, b: _Side) -> Iterator[ValueChange]:
    for name in sorted(a.names() | b.names()):
        if name not in b.names():
            yield ValueChange("removed", name, before=shown_bytes(a.value(name)))
        elif name not in a.names():
            yield ValueChange("added", name, after=shown_bytes(b.value(name)))
        elif a.fingerprint(name) != b.fingerprint(name):
            yield from _changed(name, a.value(name), b.value(name))


def _changed(name: str, before: Any, after: Any) -> Iterator[ValueChange]:
    if isinstance(before, dict) and isinstance(after, dict) and all(type(key) is str for key in {**before, **after}):
        for key in {**before, **after}:
            yield from _entry(name, key, before, after)
        return
    left, right = shown_bytes(before), shown_bytes(after)
    if left != right:  # one side may lie in pieces where the other is small
        yield ValueChange("changed", name, before=left, after=right)


def _entry(name: str, key: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[ValueChange]:
    left = shown_bytes(before[key]) if key in before else None
    right = shown_bytes(after[key]) if key in after else None
    if left != right:
        kind: Kind = "added" if left is None else "removed" if right is None else "changed"
        yield ValueChange(kind, name, key, left, right)


# ------------------------------------------------------------------------------------------------------------- messages


class _Listed:
    """The messages of one side, by digest; only those that differ are loaded."""

    def __init__(self, digests: Sequence[bytes], load: Callable[[Sequence[int]], list[Any]]) -> None:
        self.digests, self._load = digests, load

    def others(self, common: set[bytes]) -> dict[int, Any]:
        """Return the messages that are not on the other side, by where they stand."""
        wanted = [at for at, one in enumerate(self.digests) if one not in common]
        return dict(zip(wanted, self._load(wanted), strict=True))


def _messages(a: _Side, b: _Side) -> tuple[list[MessageChange], int]:
    # Digests of pieces can only be compared with digests of pieces.
    pieced = all(side.lists_messages or side.has_no_messages for side in (a, b))
    left, right = _listed(a, pieced=pieced), _listed(b, pieced=pieced)
    common = set(left.digests) & set(right.digests)
    before, after = left.others(common), right.others(common)
    same = len(right.digests) - len(after)
    return _paired(left.digests, before, right.digests, after), same


def _paired(
    left: Sequence[bytes], before: Mapping[int, Any], right: Sequence[bytes], after: Mapping[int, Any]
) -> list[MessageChange]:
    """Return the changes in the order of the later side; what was removed follows what it stood behind."""
    old = {_id(message): message for message in before.values() if _id(message)}
    counterparts = {_id(message): at for at, message in after.items() if _id(message)}
    places = {one: at for at, one in enumerate(right) if at not in after}
    found = [((at, 0, at), _arrived(old.get(_id(message)), message)) for at, message in after.items()]
    behind = -1
    for at, digest in enumerate(left):
        place = counterparts.get(_id(before[at])) if at in before else places.get(digest)
        if place is not None:
            behind = place
        elif at in before:
            found.append(((behind, 1, at), MessageChange("removed", _id(before[at]), before=_view(before[at]))))
    return [change for _, change in sorted(found, key=lambda one: one[0])]


def _arrived(old: Any, message: Any) -> MessageChange:
    if old is None:
        return MessageChange("added", _id(message), after=_view(message))
    return MessageChange("changed", _id(message), _view(old), _view(message))


def _id(message: Any) -> str:
    return str(getattr(message, "id", None) or "")


def _view(message: Any) -> MessageView:
    return views([message])[0]


def _listed(side: _Side, *, pieced: bool) -> _Listed:
    if not (pieced and side.lists_messages):
        messages = messages_of({"messages": side.value("messages")})
        digests = [digest_of_bytes(shown_bytes(one)).encode() for one in messages]
        return _Listed(digests, lambda wanted: [messages[at] for at in wanted])
    where = list(addresses(side.layouts["messages"].spans))

    def load(wanted: Sequence[int]) -> list[Any]:
        blobs = side.blobs([where[at] for at in wanted])
        return list(_saver.serde.loads_typed(("msgpack", joined("list", len(blobs), blobs))))

    return _Listed(side.pieces("messages"), load)
