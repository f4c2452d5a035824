"""The rows behind the saver: every SQL statement on checkpoints and their writes.

Writing is one statement, on PostgreSQL as on SQLite. It begins by reading the thread's row, which is the lock: on
PostgreSQL ``for share``, so that a statement that had to wait for a claim sees the token as it is now, not as its
snapshot knew it; on SQLite a writing statement has the database to itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, Q
from django.db.models.fields.json import KeyTransform

from agents.models import Checkpoint, CheckpointWrite

INTERRUPT = "__interrupt__"
_CHUNK = 500  # writes a statement: SQLite takes 32,766 parameters


class Fenced(RuntimeError):
    """A write by a worker that no longer holds the thread, or by nobody while somebody does. Nothing is stored."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a checkpoint stands."""

    thread_id: str
    ns: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: a run under its fencing token, or ("", None) for nobody in particular."""

    run: str = ""
    token: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    place: Place
    parent_id: str
    type: str
    blob: bytes
    metadata: Any


@dataclass(frozen=True, slots=True)
class WriteRow:
    task_id: str
    idx: int
    task_path: str
    channel: str
    type: str
    blob: bytes


# ---------------------------------------------------------------------------------------------------------------- write

_FENCE = """
with fence as materialized (
    select token, holder, lease_until from agents_thread where id = %s $share
)
"""
_HELD = "exists (select 1 from fence where token = %s)"
_FREE = "not exists (select 1 from fence where holder <> '' and (lease_until is null or lease_until >= $now))"
_PUT = """
insert into agents_checkpoint (thread_id, ns, checkpoint_id, parent_id, run_id, type, blob, metadata)
select %s, %s, %s, %s, %s, %s, %s, cast(%s as $json) where $allowed
on conflict (thread_id, ns, checkpoint_id) do update set
    parent_id = excluded.parent_id, run_id = excluded.run_id, type = excluded.type, blob = excluded.blob,
    metadata = excluded.metadata
"""
_PUT_WRITES = """
, new (idx, channel, type, blob) as (values $rows)
insert into agents_checkpointwrite
    (thread_id, ns, checkpoint_id, task_id, idx, task_path, run_id, channel, type, blob)
select %s, %s, %s, %s, idx, %s, %s, channel, type, blob from new where $allowed
on conflict (thread_id, ns, checkpoint_id, task_id, idx) do $conflict
"""
_REPLACE = """update set
    task_path = excluded.task_path, run_id = excluded.run_id, channel = excluded.channel, type = excluded.type,
    blob = excluded.blob
"""
_DIALECT = {
    "postgresql": {"$share": "for share", "$json": "jsonb", "$now": "statement_timestamp()"},
    "sqlite": {"$share": "", "$json": "text", "$now": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"},
}


@cache
def _sql(body: str, *, vendor: str, held: bool, rows: int = 0, replace: bool = False) -> str:
    parts = {
        "$allowed": _HELD if held else _FREE,
        "$conflict": _REPLACE if replace else "nothing",
        "$rows": ", ".join(["(%s, %s, %s, %s)"] * rows),
        **_DIALECT[vendor],
    }
    text = _FENCE + body + ("returning 1" if "insert into" in body else "")
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def _rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Execute and return the rows. Counting is by rows returned: SQLite has no rowcount for what begins with `with`."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def write_checkpoint(row: CheckpointRow, writer: Writer) -> None:
    """Store a checkpoint, or store it anew. Raises Fenced."""
    place = row.place
    sql = _sql(_PUT, vendor=connection.vendor, held=writer.token is not None)
    params: list[Any] = [place.thread_id, place.thread_id, place.ns, place.checkpoint_id, row.parent_id, writer.run]
    params += [row.type, row.blob, json.dumps(row.metadata), *_token(writer)]
    if not _rows(sql, params):
        raise Fenced(_refusal(place.thread_id, writer) or f"Run {writer.run!r} came late to thread {place.thread_id}.")


def write_writes(place: Place, rows: Sequence[WriteRow], *, writer: Writer, replace: bool) -> None:
    """Store what one task wrote at a checkpoint; rows that exist are replaced or left as they are. Raises Fenced."""
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        # No row may also mean that all existed. A look tells; the second try is for a lease that ended in between.
        if not _insert_writes(place, chunk, writer=writer, replace=replace):
            guard(place.thread_id, writer)
            _insert_writes(place, chunk, writer=writer, replace=replace)


def _insert_writes(place: Place, rows: Sequence[WriteRow], *, writer: Writer, replace: bool) -> int:
    held = writer.token is not None
    sql = _sql(_PUT_WRITES, vendor=connection.vendor, held=held, rows=len(rows), replace=replace)
    params: list[Any] = [place.thread_id]
    for row in rows:
        params += [row.idx, row.channel, row.type, row.blob]
    params += [place.thread_id, place.ns, place.checkpoint_id, rows[0].task_id, rows[0].task_path, writer.run]
    return len(_rows(sql, [*params, *_token(writer)]))


def _token(writer: Writer) -> list[int]:
    return [] if writer.token is None else [writer.token]


def guard(thread_id: str, writer: Writer) -> None:
    """Raise Fenced where a write of this writer would. In a transaction nobody can claim the thread before it ends."""
    if refusal := _refusal(thread_id, writer):
        raise Fenced(refusal)


def _refusal(thread_id: str, writer: Writer) -> str:
    select = "select token, holder, holder <> '' and (lease_until is null or lease_until >= $now) from fence"
    found = _rows(_sql(select, vendor=connection.vendor, held=False), [thread_id])
    token, holder, is_held = found[0] if found else (None, "", False)
    if writer.token is not None and writer.token != token:
        return f"Run {writer.run!r} writes to thread {thread_id} with token {writer.token}; the current one is {token}."
    if writer.token is None and is_held:
        who = f"Run {writer.run!r}" if writer.run else "Somebody"
        return (
            f"{who} writes to thread {thread_id} without a token while {holder!r} holds it; the current one is {token}."
        )
    return ""


# ----------------------------------------------------------------------------------------------------------------- read

_COLUMNS = ("thread_id", "ns", "checkpoint_id", "parent_id", "type", "blob", "metadata", "pk")


def read_checkpoint(thread_id: str, ns: str, checkpoint_id: str | None = None) -> CheckpointRow | None:
    """Return one checkpoint, or the newest of the namespace."""
    found = Checkpoint.objects.filter(thread_id=thread_id, ns=ns)
    if checkpoint_id:
        found = found.filter(checkpoint_id=checkpoint_id)
    values = found.order_by("-checkpoint_id").values_list(*_COLUMNS).first()
    return _row(values) if values else None


@dataclass(frozen=True, slots=True)
class Search:
    """Which checkpoints to list; None means any. ``filter`` compares top-level keys of the metadata."""

    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: tuple[tuple[str, Any], ...] = ()


Cursor = tuple[str, int]  # checkpoint id and primary key: copies of a thread repeat the ids


def read_page(search: Search, *, after: Cursor | None, limit: int) -> tuple[list[CheckpointRow], Cursor | None]:
    """Return up to ``limit`` checkpoints, newest first, and where the next page begins (None: nowhere)."""
    wanted = {"thread_id": search.thread_id, "ns": search.ns, "checkpoint_id": search.checkpoint_id}
    found = Checkpoint.objects.filter(**{name: value for name, value in wanted.items() if value is not None})
    if search.before is not None:
        found = found.filter(checkpoint_id__lt=search.before)
    for number, (key, value) in enumerate(search.filter):
        # By position, because a key may be any text; spelt as a lookup, `a__b` would be a path.
        found = found.alias(**{f"key{number}": KeyTransform(key, "metadata")}).filter(**{f"key{number}": value})
    if after is not None:
        found = found.filter(Q(checkpoint_id__lt=after[0]) | Q(checkpoint_id=after[0], pk__lt=after[1]))
    page = list(found.order_by("-checkpoint_id", "-pk").values_list(*_COLUMNS)[:limit])
    rows = [_row(values) for values in page]
    return rows, (page[-1][2], page[-1][-1]) if len(page) == limit else None


def read_writes(places: Sequence[Place]) -> dict[Place, list[WriteRow]]:
    """Return the writes at each checkpoint, in the order in which LangGraph applies them."""
    found: dict[Place, list[WriteRow]] = defaultdict(list)
    written = CheckpointWrite.objects.filter(
        thread_id__in={place.thread_id for place in places},
        ns__in={place.ns for place in places},
        checkpoint_id__in={place.checkpoint_id for place in places},
    )
    names = ("task_id", "idx", "task_path", "channel", "type", "blob")
    for values in written.values_list("thread_id", "ns", "checkpoint_id", *names):
        task_id, idx, task_path, channel, type_, blob = values[3:]
        found[Place(*values[:3])].append(WriteRow(task_id, idx, task_path, channel, type_, bytes(blob)))
    for rows in found.values():
        # By code point, as LangGraph compares; a database's collation may differ.
        rows.sort(key=lambda row: (row.task_path, row.task_id, row.idx))
    return found


def _row(values: Sequence[Any]) -> CheckpointRow:
    thread_id, ns, checkpoint_id, parent_id, type_, blob, metadata, _ = values
    return CheckpointRow(Place(thread_id, ns, checkpoint_id), parent_id, type_, bytes(blob), metadata)


def latest(thread_id: str) -> dict[str, str]:
    """Map each namespace of a thread to the id of its newest checkpoint."""
    newest = Checkpoint.objects.filter(thread_id=thread_id).values("ns").annotate(newest=Max("checkpoint_id"))
    return dict(newest.values_list("ns", "newest"))


def landed(thread_id: str, run_id: str) -> bool:
    """Tell whether a run has left a trace: a checkpoint, or a write that is more than a question."""
    if not run_id:
        return False
    mark = {"thread_id": thread_id, "run_id": run_id}
    return (
        Checkpoint.objects.filter(**mark).exists()
        or CheckpointWrite.objects.filter(**mark).exclude(channel=INTERRUPT).exists()
    )


# --------------------------------------------------------------------------------------------------------- copy, delete


def copy_thread(source: str, target: str) -> None:
    """Copy all rows of a thread. The copies bear no run: none of the target's runs wrote them. Raises Fenced."""
    with transaction.atomic():
        guard(target, Writer())
        _rows(
            "insert into agents_checkpoint (thread_id, ns, checkpoint_id, parent_id, run_id, type, blob, metadata)"
            " select %s, ns, checkpoint_id, parent_id, '', type, blob, metadata"
            " from agents_checkpoint where thread_id = %s order by id",
            [target, source],
        )
        _rows(
            "insert into agents_checkpointwrite"
            " (thread_id, ns, checkpoint_id, task_id, idx, task_path, run_id, channel, type, blob)"
            " select %s, ns, checkpoint_id, task_id, idx, task_path, '', channel, type, blob"
            " from agents_checkpointwrite where thread_id = %s order by id",
            [target, source],
        )


def delete_thread(thread_id: str) -> None:
    """Delete all checkpoints and writes of a thread. Raises Fenced while somebody holds it."""
    with transaction.atomic():
        guard(thread_id, Writer())
        CheckpointWrite.objects.filter(thread_id=thread_id).delete()
        Checkpoint.objects.filter(thread_id=thread_id).delete()


def delete_for_runs(run_ids: Iterable[str]) -> None:
    """Delete what these runs stored, and others' writes at their checkpoints. Raises Fenced while a thread is held."""
    runs = [run_id for run_id in run_ids if run_id]
    with transaction.atomic():
        gone = Checkpoint.objects.filter(run_id__in=runs)
        loose = CheckpointWrite.objects.filter(run_id__in=runs)
        threads = {*gone.values_list("thread_id", flat=True), *loose.values_list("thread_id", flat=True)}
        for thread_id in sorted(threads):
            guard(thread_id, Writer())
        loose.delete()
        _delete_checkpoints([Place(*key) for key in gone.values_list("thread_id", "ns", "checkpoint_id")])


def keep_latest(thread_id: str, *, needed_by: Callable[[Place], Iterable[Place]]) -> None:
    """Delete all checkpoints of a thread but each namespace's newest and what that needs. Raises Fenced while held."""
    with transaction.atomic():
        guard(thread_id, Writer())
        heads = [Place(thread_id, ns, newest) for ns, newest in latest(thread_id).items()]
        kept = {place for head in heads for place in needed_by(head)}
        keys = Checkpoint.objects.filter(thread_id=thread_id).values_list("thread_id", "ns", "checkpoint_id")
        _delete_checkpoints([place for key in keys if (place := Place(*key)) not in kept])


def _delete_checkpoints(places: Iterable[Place]) -> None:
    for place in places:
        key = {"thread_id": place.thread_id, "ns": place.ns, "checkpoint_id": place.checkpoint_id}
        CheckpointWrite.objects.filter(**key).delete()
        Checkpoint.objects.filter(**key).delete()
