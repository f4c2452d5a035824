"""A LangGraph checkpoint as a row and pieces, and back again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple, cast

import ormsgpack
from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_POS_ARGS,
    JsonPlusSerializer,
    _msgpack_default,
    _msgpack_enc,
    _option,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from agents import messages
from agents.packing import DIGEST_BYTES
from agents.pieces import Address, Cut, Kind, Laid, Piece, Span, addresses, cut_values, joined, place
from agents.stored import CheckpointRow, Place

TYPE = "pieces"  # of a row whose blob is [checkpoint with its small values, layout of the others]
_KEYS = {"v", "ts", "id", "channel_values", "channel_versions", "versions_seen", "updated_channels"}
_READABLE = ("msgpack", "bytes", "bytearray", "null")
_RAW = (bytes, bytearray, type(None))  # LangGraph has types of their own for these
_REMEMBERED = 128  # checkpoints; 16 bytes for each of their messages

Known = Mapping[str, Laid]  # channel -> where its value lies, in the order of the row's spans
Pieces = Mapping[Address, tuple[bytes, bytes]]  # digest and bytes


class Unreadable(ValueError):
    """A stored value is of a kind that is never written here, such as a pickle: it is not opened."""


class Gone(LookupError):
    """Pieces of a checkpoint are missing. It was deleted while it was read, or the database is damaged."""


class StrictSerializer(JsonPlusSerializer):
    """Reads plain data, dates and the like, messages and LangGraph's own values; other objects come back as data.

    Messages of the core classes are written in a form of our own, but for those inside of other objects.
    """

    def __init__(self) -> None:
        # None is "only the safe types"; left out, it would be "whatever the environment says".
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in _READABLE:
            raise Unreadable(f"A stored value of type {data[0]!r} is not read.")
        if data[0] != "msgpack":
            return super().loads_typed(data)
        return ormsgpack.unpackb(data[1], ext_hook=self._object, option=ormsgpack.OPT_NON_STR_KEYS)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return super().dumps_typed(obj) if isinstance(obj, _RAW) else ("msgpack", packed(obj))

    def _object(self, code: int, data: bytes) -> Any:
        return messages.unpacked(data) if code == messages.CODE else self._unpack_ext_hook(code, data)


def packed(value: Any) -> bytes:
    """Return a value's msgpack, as it stands inside of others."""
    return ormsgpack.packb(value, default=_extension, option=_option)


def _extension(obj: Any) -> Any:
    if type(obj) is Send and obj.timeout is None:
        # As LangGraph has it, which looks at twenty other kinds first; each step of an agent's tools is one of these.
        call = Send.__module__, Send.__name__, (obj.node, obj.arg)
        return ormsgpack.Ext(EXT_CONSTRUCTOR_POS_ARGS, _msgpack_enc(call))
    found = messages.packed(obj)
    return _msgpack_default(obj) if found is None else found


# --------------------------------------------------------------------------------------------------------------- write


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint as it was when it was handed over: all values are bytes already, whoever changes them later."""

    small: bytes
    cuts: Mapping[str, Cut]


class Laying(NamedTuple):
    """A draft with a place for each piece."""

    blob: bytes
    laid: Known
    spans: tuple[Span, ...]
    new: Sequence[Piece]
    reuses: bool  # it names pieces that are not its own


def spans_of(known: Known) -> tuple[Span, ...]:
    return tuple([span for laid in known.values() for span in laid.spans])


def draft(checkpoint: Checkpoint, *, key: tuple[str, ...]) -> Draft:
    """Serialise a checkpoint. ``key``: of its thread and namespace, which told most of it before."""
    small, cuts = cut_values(checkpoint["channel_values"], packed, key=key)
    return Draft(packed(_brief(checkpoint, small)), cuts)


def _brief(checkpoint: Checkpoint, values: dict[str, Any]) -> Any:
    """Return a checkpoint without its id, which the row has, and with each channel's name said once."""
    versions, updated = checkpoint["channel_versions"], checkpoint.get("updated_channels")
    if checkpoint.keys() != _KEYS or not {str}.issuperset(map(type, versions)):
        return {**checkpoint, "channel_values": values}
    at = dict(zip(versions, count())).get  # a name's number; of a name that is not there: itself
    seen = {
        node: dict(zip(map(at, some, some), some.values(), strict=True))
        for node, some in checkpoint["versions_seen"].items()
    }
    told = None if updated is None else [*map(at, updated, updated)]
    return [checkpoint["v"], checkpoint["ts"], values, [*versions], [*versions.values()], seen, told]


def _whole(brief: Any, place: Place) -> Checkpoint:
    if isinstance(brief, dict):  # as LangGraph has it
        return cast(Checkpoint, brief)
    v, ts, values, names, versions, seen, updated = brief
    return Checkpoint(
        v=v,
        ts=ts,
        id=place.checkpoint_id,
        channel_values=values,
        channel_versions=dict(zip(names, versions, strict=True)),
        versions_seen={node: {_named(names, at): one for at, one in some.items()} for node, some in seen.items()},
        updated_channels=None if updated is None else [_named(names, at) for at in updated],
    )


def _named(names: Sequence[str], at: int | str) -> str:
    return names[at] if isinstance(at, int) else at


def lay(drafted: Draft, known: Known, *, fresh: bool) -> Laying:
    """Find a place for each piece, beside those of the parent."""
    laid: dict[str, Laid] = {}
    layout: list[Any] = []
    new: list[Piece] = []
    bytes_of_digests = 0
    for name, cut in drafted.cuts.items():
        laid[name], pieces = place(cut, known.get(name), fresh=fresh)
        layout.append((name, cut.kind, cut.count, cut.delta, len(laid[name].spans)))
        new += pieces
        bytes_of_digests += len(cut.digests)
    blob = b"\x92" + drafted.small + packed(layout)
    return Laying(blob, laid, spans_of(laid), new, bytes_of_digests > len(new) * DIGEST_BYTES)


# ---------------------------------------------------------------------------------------------------------------- read


@dataclass(frozen=True, slots=True)
class Layout:
    """One big value, before its pieces are loaded."""

    name: str
    kind: Kind
    count: int
    delta: bool
    spans: tuple[Span, ...]


def restore(
    row: CheckpointRow, pieces: Pieces, serde: SerializerProtocol, *, loaded: dict[Address, Any] | None = None
) -> tuple[Checkpoint, Known]:
    """Return the checkpoint of a row, and where its big values lie. Raises Gone, Unreadable.

    ``loaded`` keeps list elements between the rows of one listing, which then share them.
    """
    checkpoint, layout = opened(row, serde)
    _number_versions(checkpoint)
    known = _known(row.place, layout, pieces)
    for value in layout:
        where = list(addresses(value.spans))
        if loaded is not None and value.kind == "list" and value.count == len(where):
            inner = _shared(where, pieces, serde, loaded)
        else:
            data = joined(value.kind, value.count, [pieces[address][1] for address in where])
            inner = serde.loads_typed(("msgpack", data))
        checkpoint["channel_values"][value.name] = _DeltaSnapshot(inner) if value.delta else inner
    return checkpoint, known


def _number_versions(checkpoint: Checkpoint) -> None:
    """Turn versions like "00012.0.81", as other savers give and ours gave, into numbers.

    Each next one is a number, and LangGraph compares them all. The tails say nothing within one line of checkpoints.
    """
    versions, seen = checkpoint.get("channel_versions") or {}, checkpoint.get("versions_seen") or {}
    if not any(type(version) is str for version in versions.values()):
        return
    try:
        numbers = _numbered(versions), {name: _numbered(some) for name, some in seen.items()}
    except ValueError:  # of nobody we know
        return
    checkpoint["channel_versions"], checkpoint["versions_seen"] = numbers


def _numbered(versions: ChannelVersions) -> ChannelVersions:
    return {
        name: int(version.partition(".")[0]) if isinstance(version, str) else version
        for name, version in versions.items()
    }


def known_of(row: CheckpointRow, pieces: Pieces, serde: SerializerProtocol) -> Known:
    """Return where the big values of a row lie. Raises Gone."""
    return _known(row.place, opened(row, serde)[1], pieces)


def _known(place: Place, layout: Sequence[Layout], pieces: Pieces) -> Known:
    try:
        return {
            value.name: Laid(value.spans, b"".join([pieces[address][0] for address in addresses(value.spans)]))
            for value in layout
        }
    except KeyError as missing:
        raise Gone(f"Piece {missing} of checkpoint {place} is missing.") from missing


def opened(row: CheckpointRow, serde: SerializerProtocol) -> tuple[Checkpoint, list[Layout]]:
    """Return a checkpoint without its big values (None stands in their places), and how those are laid out."""
    if row.type != TYPE:
        return cast(Checkpoint, serde.loads_typed((row.type, row.blob))), []
    brief, layout = serde.loads_typed(("msgpack", row.blob))
    spans = iter(row.spans)
    return _whole(brief, row.place), [
        Layout(name, kind, count, delta, tuple(islice(spans, number))) for name, kind, count, delta, number in layout
    ]


def _shared(
    where: Sequence[Address], pieces: Pieces, serde: SerializerProtocol, loaded: dict[Address, Any]
) -> list[Any]:
    missing = [address for address in dict.fromkeys(where) if address not in loaded]
    data = joined("list", len(missing), [pieces[address][1] for address in missing])
    loaded.update(zip(missing, serde.loads_typed(("msgpack", data)), strict=True))
    return [loaded[address] for address in where]


def channels(row: CheckpointRow, serde: SerializerProtocol) -> set[str]:
    """Return the names of the channels that have a value."""
    return set(opened(row, serde)[0]["channel_values"])


# -------------------------------------------------------------------------------------------------------------- memory


class Memory:
    """Where the big values of the last checkpoints lie, so that their children need not ask. ``store`` checks it.

    Two halves: the older one is forgotten whole, so nothing is kept in order.
    """

    def __init__(self) -> None:
        self._young: dict[Place, Known] = {}
        self._old: dict[Place, Known] = {}

    def __setitem__(self, place: Place, known: Known) -> None:
        self._young[place] = known
        if len(self._young) > _REMEMBERED // 2:
            self._young, self._old = {}, self._young

    def get(self, place: Place) -> Known | None:
        known = self._young.get(place)
        return self._old.get(place) if known is None else known

    def clear(self) -> None:
        self._young, self._old = {}, {}
