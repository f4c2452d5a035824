"""What is stored of checkpoints, their pieces and pending writes, read back. ``store`` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Max, Q
from django.db.models.fields.json import KeyTransform

from agents.compiled import Compiled
from agents.models import Checkpoint, CheckpointWrite
from agents.pieces import Address, Span, merged
from agents.statements import execute

INTERRUPT = "__interrupt__"
_SELECTS = 100  # spans a query; SQLite takes 500


class Place(NamedTuple):
    """Where a checkpoint stands."""

    thread_id: str
    ns: str
    checkpoint_id: str


class CheckpointRow(NamedTuple):
    place: Place
    parent_id: str
    type: str
    blob: bytes
    spans: tuple[Span, ...]
    metadata: Any


class WriteRow(NamedTuple):
    task_id: str
    idx: int
    task_path: str
    channel: str
    type: str
    blob: bytes


# --------------------------------------------------------------------------------------------------------- checkpoints

# By hand where each step of a graph waits for it: the ORM takes longer to write these than the database to answer.
_SELECT_ONE = (
    "select thread_id, ns, checkpoint_id, parent_id, type, blob, cast(spans as text) spans,"
    " cast(metadata as text) metadata"
    " from agents_checkpoint"
    " where thread_id = %s and ns = %s and checkpoint_id = %s"
)
_SELECT_NEWEST = _SELECT_ONE.removesuffix("and checkpoint_id = %s") + "order by id desc limit 1"
# Its writes come along, and it is not said again with each of them.
_AND_WRITES = """
with c as materialized ({})
select c.*, null task_id, null idx, null task_path, null channel from c
union all
select null, null, null, null, w.type, w.blob, null, null, w.task_id, w.idx, w.task_path, w.channel
from c join agents_checkpointwrite w using (thread_id, ns, checkpoint_id)
"""
_ONE_AND_WRITES, _NEWEST_AND_WRITES = map(_AND_WRITES.format, (_SELECT_ONE, _SELECT_NEWEST))


def read_checkpoint(thread_id: str, ns: str, checkpoint_id: str) -> CheckpointRow | None:
    """Return one checkpoint."""
    for *values, spans, metadata in execute(_SELECT_ONE, [thread_id, ns, checkpoint_id]):
        return _row([*values, json.loads(spans), json.loads(metadata)])
    return None


def read_whole(thread_id: str, ns: str, checkpoint_id: str | None) -> tuple[CheckpointRow, list[WriteRow]] | None:
    """Return one checkpoint, or the newest of the namespace, and the writes at it, as LangGraph applies them."""
    at = [thread_id, ns, checkpoint_id] if checkpoint_id else [thread_id, ns]
    row, writes = None, []
    for *values, spans, metadata, task_id, idx, path, channel in execute(
        _ONE_AND_WRITES if checkpoint_id else _NEWEST_AND_WRITES, at
    ):
        if task_id is None:
            row = _row([*values, json.loads(spans), json.loads(metadata)])
        else:
            writes.append(WriteRow(task_id, idx, path, channel, values[-2], bytes(values[-1])))
    return None if row is None else (row, sorted(writes, key=_applied))


def _row(values: Sequence[Any]) -> CheckpointRow:
    thread_id, ns, checkpoint_id, parent_id, type_, blob, spans, metadata = values
    place = Place(thread_id, ns, checkpoint_id)
    return CheckpointRow(place, parent_id, type_, bytes(blob), tuple(map(tuple, spans)), metadata)


@dataclass(frozen=True, slots=True)
class Search:
    """Which checkpoints to list; None means any. ``filter`` compares top-level keys of the metadata."""

    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: tuple[tuple[str, Any], ...] = ()


_COLUMNS = ("thread_id", "ns", "checkpoint_id", "parent_id", "type", "blob", "spans", "metadata")


def read_page(search: Search, *, after: int | None, limit: int) -> tuple[list[CheckpointRow], int | None]:
    """Return up to ``limit`` checkpoints, newest first, and where the next page begins (None: nowhere).

    Newest is what was written last. Clocks of several workers do not agree, so ids say nothing of it.
    """
    wanted = {"thread_id": search.thread_id, "ns": search.ns, "checkpoint_id": search.checkpoint_id}
    found = Checkpoint.objects.filter(**{name: value for name, value in wanted.items() if value is not None})
    if search.before is not None:
        found = found.filter(_before(search, search.before))
    for number, (key, value) in enumerate(search.filter):
        # By position, because a key may be any text; spelt as a lookup, `a__b` would be a path.
        found = found.alias(**{f"key{number}": KeyTransform(key, "metadata")}).filter(**{f"key{number}": value})
    if after is not None:
        found = found.filter(pk__lt=after)
    page = list(found.order_by("-pk").values_list(*_COLUMNS, "pk")[:limit])
    rows = [_row(values[:-1]) for values in page]
    return rows, page[-1][-1] if len(page) == limit else None


def _before(search: Search, checkpoint_id: str) -> Q:
    """What was written before a checkpoint: of this namespace, or of another, as LangGraph asks of subgraphs."""
    rows = Checkpoint.objects.filter(checkpoint_id=checkpoint_id)
    if search.thread_id is not None:
        rows = rows.filter(thread_id=search.thread_id)
        near = rows.filter(ns__in={search.ns or "", ""}).order_by("-ns")
        rows = near if near.exists() else rows
    place = rows.values_list("pk", flat=True).first()
    return Q(checkpoint_id__lt=checkpoint_id) if place is None else Q(pk__lt=place)


def latest(thread_id: str) -> dict[str, str]:
    """Map each namespace of a thread to the id of its newest checkpoint."""
    return dict(_LATEST(thread_id))


def head(thread_id: str, ns: str) -> str | None:
    """Return the id of the newest checkpoint of one namespace."""
    return _HEAD.first(thread_id, ns)


_LATEST = Compiled(
    lambda thread: Checkpoint.objects.filter(
        pk__in=Checkpoint.objects.filter(thread=thread).values("ns").annotate(newest=Max("pk")).values("newest")
    ).values_list("ns", "checkpoint_id")
)
_HEAD = Compiled(
    lambda thread, ns: (
        Checkpoint.objects.filter(thread=thread, ns=ns).order_by("-pk").values_list("checkpoint_id", flat=True)[:1]
    )
)


def landed(thread_id: str, run_id: str) -> bool:
    """Tell whether a run has left a trace: a checkpoint, or a write that is more than a question."""
    if not run_id:
        return False
    mark = {"thread_id": thread_id, "run_id": run_id}
    return (
        Checkpoint.objects.filter(**mark).exists()
        or CheckpointWrite.objects.filter(**mark).exclude(channel=INTERRUPT).exists()
    )


# -------------------------------------------------------------------------------------------------- pieces and writes


def read_pieces(thread_id: str, spans: Iterable[Span]) -> dict[Address, tuple[bytes, bytes]]:
    """Return digest and bytes of each piece that is there; the caller must notice if one is not."""
    wanted = merged(list(spans))
    found: dict[Address, tuple[bytes, bytes]] = {}
    for start in range(0, len(wanted), _SELECTS):
        # One range scan a span. Joined to a list of spans the planner guesses 100 of them and reads the whole table.
        some = wanted[start : start + _SELECTS]
        sql = " union all ".join([_SPAN] * len(some))
        for chain, number, digest, blob in execute(sql, [value for span in some for value in (thread_id, *span)]):
            found[chain, number] = bytes(digest), bytes(blob)
    return found


def read_digests(thread_id: str, spans: Iterable[Span]) -> dict[Address, bytes]:
    """Return the digest of each piece that is there, without its bytes."""
    wanted = merged(list(spans))
    found: dict[Address, bytes] = {}
    for start in range(0, len(wanted), _SELECTS):
        some = wanted[start : start + _SELECTS]
        sql = " union all ".join([_DIGESTS] * len(some))
        for chain, number, digest in execute(sql, [value for span in some for value in (thread_id, *span)]):
            found[chain, number] = bytes(digest)
    return found


_DIGESTS = (
    "select chain, number, digest from agents_checkpointpiece"
    " where thread_id = %s and chain = %s and number >= %s and number < %s"
)
_SPAN = (
    "select chain, number, digest, blob from agents_checkpointpiece"
    " where thread_id = %s and chain = %s and number >= %s and number < %s"
)


_WRITES = (
    "select thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, type, blob from agents_checkpointwrite"
    " where thread_id = %s and ns = %s and checkpoint_id = %s"
)


def read_writes(places: Sequence[Place]) -> dict[Place, list[WriteRow]]:
    """Return the writes at each checkpoint, in the order in which LangGraph applies them."""
    found: dict[Place, list[WriteRow]] = {place: [] for place in places}
    for start in range(0, len(places), _SELECTS):
        some = places[start : start + _SELECTS]
        sql = " union all ".join([_WRITES] * len(some))
        params = [value for place in some for value in (place.thread_id, place.ns, place.checkpoint_id)]
        for thread_id, ns, checkpoint_id, *values, blob in execute(sql, params):
            task_id, idx, task_path, channel, type_ = values
            row = WriteRow(task_id, idx, task_path, channel, type_, bytes(blob))
            found[Place(thread_id, ns, checkpoint_id)].append(row)
    for rows in found.values():
        rows.sort(key=_applied)
    return found


def _applied(row: WriteRow) -> tuple[str, str, int]:
    """Where LangGraph applies a write. By code point, as it compares; a database's collation may differ."""
    return row.task_path, row.task_id, row.idx
