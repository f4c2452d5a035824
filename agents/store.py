"""Storing checkpoints, their pieces and pending writes: every SQL statement that changes them. ``stored`` reads them.

A write begins by reading the thread's row, which is the lock: on PostgreSQL ``for share`` and in the same statement, so
that one which had to wait for a claim sees the token as it is now, not as its snapshot knew it. On SQLite a writing
transaction has the database to itself.

Pieces are only deleted under the exclusive advisory lock of their thread, and a checkpoint that reuses its parent's
pieces takes it shared, then makes sure that the parent still stands: so no checkpoint ever names a piece that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from django.db import connection, transaction

from agents import stored
from agents.connections import current
from agents.marks import Marks
from agents.models import Checkpoint, CheckpointPiece, CheckpointWrite
from agents.pieces import Piece, Span, addresses, merged
from agents.statements import NOW, changed, execute, execute_both
from agents.stored import Place

_CHUNK = 500  # rows a statement: SQLite takes 32,766 parameters
_FEW = 4  # rows that PostgreSQL is told one by one: the driver takes longer over arrays


class Fenced(RuntimeError):
    """A write by a worker that no longer holds the thread, or by nobody while somebody does. Nothing is stored."""


class Writer(NamedTuple):
    """Who writes: a run under its fencing token, or ("", None) for nobody in particular."""

    run: str = ""
    token: int | None = None


class Basis(NamedTuple):
    """The parent whose pieces a checkpoint names again, with its spans as the writer knows them."""

    place: Place
    spans: tuple[Span, ...]


# ---------------------------------------------------------------------------------------------------------- statements

_FENCE = """
with fence as materialized (select token, holder, lease_until from agents_thread where id = %s $share)
"""
# The lock comes first whatever the planner thinks: both rows below are read from it.
_LOCKED_GATE = """
with l (id, lock) as materialized (
    select id, pg_advisory_xact_lock_shared(hashtextextended(id, 55)) from (values (cast(%s as text))) t (id)
),
fence as materialized (
    select token, holder, lease_until from l join agents_thread a on a.id = l.id for share of a
),
ready as materialized (select 1 from l where $allowed)
"""
_HELD = "exists (select 1 from fence where token = %s)"
_FREE = "not exists (select 1 from fence where holder <> '' and (lease_until is null or lease_until >= $now))"
# The same where a statement is alone anyway: it is half as long in coming without a row of its own for the fence.
_HELD_ALONE = "exists (select 1 from agents_thread where id = %s and token = %s)"
_FREE_ALONE = (
    "not exists (select 1 from agents_thread"
    " where id = %s and holder <> '' and (lease_until is null or lease_until >= $now))"
)
_PARENT = "c.thread_id = %s and c.ns = %s and c.checkpoint_id = %s and c.spans = cast(%s as $json)"
_BASIS_ALONE = f" and exists (select 1 from agents_checkpoint c where {_PARENT})"  # noqa: S608  # parts of our own
_BASIS = f"""
, basis as materialized (
    select 1 from ready, agents_checkpoint c where {_PARENT} for key share of c
)
"""  # noqa: S608
_PIECES = """
, added as (
    insert into agents_checkpointpiece (thread_id, chain, number, digest, blob)
    select %s, new.* from $new where exists (select 1 from $gate)
    on conflict do nothing returning 1
)
"""
_ADD_PIECE = """
insert into agents_checkpointpiece (thread_id, chain, number, digest, blob)
values (%s, %s, %s, %s, %s) on conflict do nothing
"""
_CHECKPOINT = """agents_checkpoint (thread_id, ns, checkpoint_id, parent_id, run_id, type, blob, spans, metadata,
    next_nodes, messages, outer_id, left_id)
"""
_ANEW = """
on conflict (thread_id, ns, checkpoint_id) do update set
    parent_id = excluded.parent_id, run_id = excluded.run_id, type = excluded.type, blob = excluded.blob,
    spans = excluded.spans, metadata = excluded.metadata, next_nodes = excluded.next_nodes,
    messages = excluded.messages, outer_id = excluded.outer_id
"""
_PUT = f"""
insert into {_CHECKPOINT}
select %s, %s, %s, %s, %s, %s, %s, cast(%s as jsonb), cast(%s as jsonb), %s, cast(%s as integer), %s,
    coalesce($left, '')
where $ready
{_ANEW}
"""
# SQLite takes a third longer for a select from the table that it writes to. So a row that may not be written gets no
# thread, which is not allowed, and is ignored.
_PUT_ALONE = f"""
insert or ignore into {_CHECKPOINT}
values ((select %s where $ready), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, coalesce($left, ''))
{_ANEW}
"""  # noqa: S608
_PUT_WRITES = """
insert into agents_checkpointwrite
    (thread_id, ns, checkpoint_id, task_id, idx, task_path, run_id, channel, type, blob)
select %s, %s, %s, %s, column1, %s, %s, column2, column3, column4 from $new where $allowed
on conflict (thread_id, ns, checkpoint_id, task_id, idx) do $conflict
"""
_WRITE = ("integer", "text", "text", "$bytes")  # the types of what is new of one
_PIECE = ("bigint", "integer", "$bytes", "$bytes")
# The head, when it is not the parent: then this checkpoint begins a branch. One look into an index.
_LEFT = (
    "(select nullif(h.checkpoint_id, %s) from agents_checkpoint h"
    " where h.thread_id = %s and h.ns = %s order by h.id desc limit 1)"
)
_READY = "exists (select 1 from $gate)"
_COUNTED = " and (select count(*) from added) = %s"
_REPLACE = """update set
    task_path = excluded.task_path, run_id = excluded.run_id, channel = excluded.channel, type = excluded.type,
    blob = excluded.blob
"""
_REFUSAL = """
select token, holder, holder <> '' and (lease_until is null or lease_until >= $now) from fence
"""
_DIALECT = {
    "postgresql": {"$share": "for share", "$json": "jsonb", "$bytes": "bytea", "$now": NOW["postgresql"]},
    "sqlite": {"$share": "", "$json": "text", "$bytes": "blob", "$now": NOW["sqlite"]},
}


def _sql(text: str, *, vendor: str, held: bool = False, **parts: str) -> str:
    """Fill in a statement: what the vendor's dialect needs, and whether a token is compared."""
    alone = vendor == "sqlite"
    filled = {f"${name}": part for name, part in parts.items()}
    filled |= {"$allowed": (_HELD_ALONE if alone else _HELD) if held else (_FREE_ALONE if alone else _FREE)}
    for name, part in {**filled, "$left": _LEFT, **_DIALECT[vendor]}.items():
        text = text.replace(name, part)
    return text


def _new(types: Sequence[str], *, rows: int) -> str:
    """Return a table of so many new rows, or of any number where it is 0: the parameters are then columns."""
    if rows:
        row = ", ".join(f"cast(%s as {name})" for name in types)
        return f"(values {', '.join([f'({row})'] * rows)}) new"
    return f"unnest({', '.join(f'%b::{name}[]' for name in types)}) new (column1, column2, column3, column4)"


@cache
def _put_sql(*, vendor: str, held: bool, based: bool, pieces: int | None = None) -> str:
    """Return the statement that stores a checkpoint: nothing, but under the writer's token, while its basis stands.

    ``pieces``: how many come with it, 0 for any number as columns. On SQLite they come by themselves.
    """
    if vendor == "sqlite":
        return _sql(_PUT_ALONE, vendor=vendor, held=held, ready="$allowed" + (_BASIS_ALONE if based else ""))
    text = _LOCKED_GATE + (_BASIS if based else "") + ("" if pieces is None else _PIECES) + _PUT + "returning 1"
    gate, ready = "basis" if based else "ready", _READY + ("" if pieces is None else _COUNTED)
    return _sql(text, vendor=vendor, held=held, ready=ready, gate=gate, new=_new(_PIECE, rows=pieces or 0))


@lru_cache(maxsize=64)
def _put_writes_sql(*, vendor: str, held: bool, replace: bool, rows: int) -> str:
    """Return the statement that stores so many writes; 0 stands for any number, as columns."""
    text = _PUT_WRITES if vendor == "sqlite" else _FENCE + _PUT_WRITES + "returning 1"
    conflict, new = _REPLACE if replace else "nothing", _new(_WRITE, rows=rows)
    return _sql(text, vendor=vendor, held=held, conflict=conflict, new=new)


# --------------------------------------------------------------------------------------------------------------- fence


def guard(thread_id: str, writer: Writer) -> None:
    """Raise Fenced where a write of this writer would. In a transaction nobody can claim the thread before it ends."""
    found = execute(_sql(_FENCE + _REFUSAL, vendor=current().vendor), [thread_id])
    token, holder, is_held = found[0] if found else (None, "", False)
    who = f"Run {writer.run!r}" if writer.run else "Somebody"
    if writer.token is not None and writer.token != token:
        raise Fenced(f"{who} writes to thread {thread_id} with token {writer.token}; the current one is {token}.")
    if writer.token is None and is_held:
        why = f"without a token while {holder!r} holds it; the current one is {token}."
        raise Fenced(f"{who} writes to thread {thread_id} {why}")


def _token(writer: Writer) -> list[int]:
    return [] if writer.token is None else [writer.token]


def _alone(*thread_ids: str) -> None:
    """Until this transaction ends, let nobody write checkpoints of these threads. On SQLite a transaction is alone."""
    if connection.vendor == "postgresql":
        for thread_id in sorted(thread_ids):
            execute("select pg_advisory_xact_lock(hashtextextended(%s, 55))", [thread_id])


# --------------------------------------------------------------------------------------------------------- checkpoints


class NewCheckpoint(NamedTuple):
    """A checkpoint to store: its row, and the pieces that are its own. ``metadata``: as JSON."""

    place: Place
    parent_id: str
    type: str
    blob: bytes
    spans: tuple[Span, ...]
    metadata: str
    marks: Marks
    pieces: Sequence[Piece]

    def values(self, writer: Writer) -> list[Any]:
        values = [*self.place, self.parent_id, writer.run, self.type, self.blob, _as_json(self.spans), self.metadata]
        left = [self.parent_id, self.place.thread_id, self.place.ns]
        return [*values, *self.marks, *left]


def _as_json(spans: Iterable[Span]) -> str:
    return str([*map(list, spans)])  # as json.dumps has it


def write_checkpoint(new: NewCheckpoint, *, basis: Basis | None, writer: Writer) -> bool:
    """Store a checkpoint, anew if it exists, with its new pieces. Raises Fenced.

    False, and nothing but perhaps unused pieces is stored, when the basis is not there any more or one of the pieces'
    places is taken: by another child of the same parent.
    """
    write = _write_at_once if current().vendor == "postgresql" else _write_in_steps
    if write(new, basis=basis, writer=writer):
        return True
    guard(new.place.thread_id, writer)
    return False


def _write_at_once(new: NewCheckpoint, *, basis: Basis | None, writer: Writer) -> bool:
    params, pieces, held = [*_gate_values(new, writer), *_basis_values(basis)], new.pieces, writer.token is not None
    rows, told = _told([(one.chain, one.number, one.digest, one.blob) for one in pieces])
    if pieces:
        params += [new.place.thread_id, *told]
    params += [*new.values(writer), *([len(pieces)] if pieces else [])]
    sql = _put_sql(vendor="postgresql", held=held, based=basis is not None, pieces=rows if pieces else None)
    return bool(execute(sql, params))


def _write_in_steps(new: NewCheckpoint, *, basis: Basis | None, writer: Writer) -> bool:
    sql = _put_sql(vendor="sqlite", held=writer.token is not None, based=basis is not None)
    thread_id, *values = new.values(writer)
    params = [thread_id, *_gate_values(new, writer), *_basis_values(basis), *values]
    if not new.pieces:
        return changed(sql, params) > 0
    rows = [(new.place.thread_id, one.chain, one.number, one.digest, one.blob) for one in new.pieces]
    return execute_both(sql, params, _ADD_PIECE, rows)


def _gate_values(new: NewCheckpoint, writer: Writer) -> list[Any]:
    return [new.place.thread_id, *_token(writer)]


def _basis_values(basis: Basis | None) -> list[Any]:
    if basis is None:
        return []
    return [*basis.place, _as_json(basis.spans)]


def _told(rows: Sequence[tuple[Any, ...]]) -> tuple[int, list[Any]]:
    """Return the parameters of new rows, for a statement of ``_new`` with so many: as columns if there are many."""
    if len(rows) <= _FEW:
        return len(rows), [*chain.from_iterable(rows)]
    return 0, [list(column) for column in zip(*rows, strict=True)]


# -------------------------------------------------------------------------------------------------------------- writes


class NewWrites(NamedTuple):
    """What one task wrote at a checkpoint. ``replace``: rows that exist already; otherwise they stay as they are."""

    place: Place
    task_id: str
    task_path: str
    rows: Sequence[tuple[int, str, str, bytes]]  # idx, channel, type, blob
    writer: Writer
    replace: bool


def write_writes(new: NewWrites) -> None:
    """Store what a task wrote. Raises Fenced."""
    for start in range(0, len(new.rows), _CHUNK):
        rows = new.rows[start : start + _CHUNK]
        # No row may also mean that all existed. A look tells; the second try is for a lease that ended in between.
        if not _insert_writes(new, rows):
            guard(new.place.thread_id, new.writer)
            _insert_writes(new, rows)


def _insert_writes(new: NewWrites, rows: Sequence[tuple[int, str, str, bytes]]) -> int:
    (thread_id, ns, checkpoint_id), vendor = new.place, current().vendor
    kind = {"vendor": vendor, "held": new.writer.token is not None, "replace": new.replace}
    at = [thread_id, ns, checkpoint_id, new.task_id, new.task_path, new.writer.run]
    if vendor == "postgresql":
        count, told = _told(rows)
        return len(execute(_put_writes_sql(**kind, rows=count), [thread_id, *at, *told, *_token(new.writer)]))
    values = chain.from_iterable(rows)
    return changed(_put_writes_sql(**kind, rows=len(rows)), [*at, *values, thread_id, *_token(new.writer)])


# -------------------------------------------------------------------------------------------------------- copy, delete

_COPIES = (
    "insert into agents_checkpoint (thread_id, ns, checkpoint_id, parent_id, run_id, type, blob, spans, metadata,"
    " next_nodes, messages, outer_id, left_id)"
    " select %s, ns, checkpoint_id, parent_id, '', type, blob, spans, metadata, next_nodes, messages, outer_id, left_id"
    " from agents_checkpoint where thread_id = %s order by id",
    "insert into agents_checkpointwrite"
    " (thread_id, ns, checkpoint_id, task_id, idx, task_path, run_id, channel, type, blob)"
    " select %s, ns, checkpoint_id, task_id, idx, task_path, '', channel, type, blob"
    " from agents_checkpointwrite where thread_id = %s",
    "insert into agents_checkpointpiece (thread_id, chain, number, digest, blob)"
    " select %s, chain, number, digest, blob"
    " from agents_checkpointpiece where thread_id = %s order by chain, number",
)


def copy_thread(source: str, target: str) -> None:
    """Copy all rows of a thread. The copies bear no run: none of the target's runs wrote them. Raises Fenced."""
    with transaction.atomic():
        _alone(source, target)
        guard(target, Writer())
        for sql in _COPIES:
            execute(sql, [target, source])


def delete_thread(thread_id: str) -> None:
    """Delete all checkpoints, pieces and writes of a thread. Raises Fenced while somebody holds it."""
    with transaction.atomic():
        _alone(thread_id)
        guard(thread_id, Writer())
        for model in (CheckpointWrite, Checkpoint, CheckpointPiece):
            model.objects.filter(thread_id=thread_id).delete()


def delete_for_runs(run_ids: Iterable[str], *, writer: Writer | None = None) -> None:
    """Delete what these runs stored, and others' writes at their checkpoints.

    Raises Fenced while a thread is held by another than ``writer``.
    """
    runs = [run_id for run_id in run_ids if run_id]
    gone = Checkpoint.objects.filter(run_id__in=runs)
    loose = CheckpointWrite.objects.filter(run_id__in=runs)
    with transaction.atomic():
        threads = {*gone.values_list("thread_id", flat=True), *loose.values_list("thread_id", flat=True)}
        _alone(*threads)
        for thread_id in sorted(threads):
            guard(thread_id, writer or Writer())
        loose.delete()
        _delete_checkpoints([Place(*key) for key in gone.values_list("thread_id", "ns", "checkpoint_id")])
        for thread_id in threads:
            _sweep(thread_id)


def keep_latest(thread_id: str, *, needed_by: Callable[[Place], Iterable[Place]]) -> None:
    """Delete all checkpoints of a thread but each namespace's newest and what that needs. Raises Fenced while held."""
    with transaction.atomic():
        _alone(thread_id)
        guard(thread_id, Writer())
        heads = [Place(thread_id, ns, newest) for ns, newest in stored.latest(thread_id).items()]
        kept = {place for head in heads for place in needed_by(head)}
        keys = Checkpoint.objects.filter(thread_id=thread_id).values_list("thread_id", "ns", "checkpoint_id")
        _delete_checkpoints([place for key in keys if (place := Place(*key)) not in kept])
        _sweep(thread_id)


def _delete_checkpoints(places: Iterable[Place]) -> None:
    for place in places:
        key = {"thread_id": place.thread_id, "ns": place.ns, "checkpoint_id": place.checkpoint_id}
        CheckpointWrite.objects.filter(**key).delete()
        Checkpoint.objects.filter(**key).delete()


def _sweep(thread_id: str) -> None:
    """Delete the pieces that no checkpoint of the thread names any more."""
    spans = Checkpoint.objects.filter(thread_id=thread_id).values_list("spans", flat=True)
    named = set(addresses(merged([tuple(span) for some in spans for span in some])))
    pieces = CheckpointPiece.objects.filter(thread_id=thread_id)
    loose = [key for key in pieces.values_list("chain", "number") if key not in named]
    for line, first, end in merged([(line, number, number + 1) for line, number in loose]):
        pieces.filter(chain=line, number__gte=first, number__lt=end).delete()
