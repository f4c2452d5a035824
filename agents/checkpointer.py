"""DjangoSaver: LangGraph's checkpoint saver on this desk's tables.

Every write is fenced: it carries the run and the fencing token that the runner put under
``configurable["__countersign"]``, and a worker that lost its thread writes nothing. What is read is data: a class that
is not known to be safe is never constructed, whatever a row names and the environment says.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from json import JSONEncoder
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.types import Interrupt

from agents import snapshots, store, stored
from agents.connections import arun, arun_plain, run, run_plain
from agents.marks import Marks, marks_of
from agents.models import run_of
from agents.pieces import Address
from agents.snapshots import Draft, Gone, Known, Laying, StrictSerializer, Unreadable
from agents.store import Basis, Fenced, NewCheckpoint, NewWrites, Writer
from agents.stored import CheckpointRow, Place, Search, WriteRow

__all__ = ["DjangoSaver", "Fenced", "Gone", "InHand", "StrictSerializer", "Unreadable"]

T = TypeVar("T")
_PAGE = 20  # checkpoints a query of list(): each may hold a long conversation
_ATTEMPTS = 5  # at storing a checkpoint: one more for each time that another branch was faster, or the parent went
_memory = snapshots.Memory()  # one a process: each agent has a saver of its own, and they share threads


class _Drafted(NamedTuple):
    """A checkpoint as bytes, before its pieces have their places."""

    place: Place
    parent_id: str
    draft: Draft
    metadata: str
    marks: Marks
    writer: Writer

    def laid(self, laying: Laying) -> NewCheckpoint:
        values = snapshots.TYPE, laying.blob, laying.spans, self.metadata, self.marks, laying.new
        return NewCheckpoint(self.place, self.parent_id, *values)


class DjangoSaver(BaseCheckpointSaver[int]):
    """Checkpoints and pending writes in the desk's database. Safe to share between threads, graphs and event loops."""

    def __init__(self) -> None:
        super().__init__(serde=StrictSerializer())

    # ------------------------------------------------------------------------------------------------------------- read

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return run_plain(self._get, config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await arun_plain(self._get, config)

    def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns = _thread_and_ns(config)
        return _unless_gone(lambda: self._read(thread_id, ns, get_checkpoint_id(config)))

    def _read(self, thread_id: str, ns: str, checkpoint_id: str | None) -> CheckpointTuple | None:
        found = stored.read_whole(thread_id, ns, checkpoint_id)
        if found is None:
            return None
        row, writes = found
        pieces = stored.read_pieces(thread_id, row.spans)
        checkpoint, _memory[row.place] = snapshots.restore(row, pieces, self.serde)
        return self._tuple(row, checkpoint, writes)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        search, after = _search(config, filter=filter, before=before), None
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(limit, _PAGE)
            tuples, after = run(self._page, search, after=after, limit=size)
            yield from tuples
            if after is None:
                return
            limit = None if limit is None else limit - len(tuples)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        pages = self.list(config, filter=filter, before=before, limit=limit)
        while page := await arun(lambda: list_of(islice(pages, _PAGE))):
            for found in page:
                yield found

    def _page(self, search: Search, *, after: int | None, limit: int) -> tuple[Sequence[CheckpointTuple], int | None]:
        return _unless_gone(lambda: self._read_page(search, after=after, limit=limit))

    def _read_page(
        self, search: Search, *, after: int | None, limit: int
    ) -> tuple[Sequence[CheckpointTuple], int | None]:
        rows, after = stored.read_page(search, after=after, limit=limit)
        writes = stored.read_writes([row.place for row in rows])
        found: dict[Place, CheckpointTuple] = {}
        for thread_id in {row.place.thread_id for row in rows}:
            some = [row for row in rows if row.place.thread_id == thread_id]
            pieces = stored.read_pieces(thread_id, [span for row in some for span in row.spans])
            loaded: dict[Address, Any] = {}
            for row in some:
                checkpoint, _ = snapshots.restore(row, pieces, self.serde, loaded=loaded)
                found[row.place] = self._tuple(row, checkpoint, writes[row.place])
        return [found[row.place] for row in rows], after

    def _tuple(self, row: CheckpointRow, checkpoint: Checkpoint, writes: Sequence[WriteRow]) -> CheckpointTuple:
        return CheckpointTuple(
            _config(row.place),
            checkpoint,
            row.metadata,
            _config(Place(row.place.thread_id, row.place.ns, row.parent_id)) if row.parent_id else None,
            [(write.task_id, write.channel, self._load(write)) for write in writes],
        )

    def _load(self, row: WriteRow) -> Any:
        return self.serde.loads_typed((row.type, row.blob))

    def latest(self, thread_id: str) -> dict[str, str]:
        """Map each namespace of a thread to the id of its newest checkpoint."""
        return run(stored.latest, thread_id)

    def landed(self, thread_id: str, run_id: str) -> bool:
        """Tell whether a run has left a trace in any namespace: a checkpoint, or a write other than a question."""
        return run(stored.landed, thread_id, run_id)

    def interrupt_writes(self, thread_id: str) -> Sequence[tuple[str, str, str, Sequence[Interrupt]]]:
        """Return what was asked at the newest checkpoint of each namespace, as it stands stored.

        Items are (namespace, checkpoint id, task id, interrupts). What has been answered since is still among them.
        """
        return run(self._interrupt_writes, thread_id)

    def _interrupt_writes(self, thread_id: str) -> Sequence[tuple[str, str, str, Sequence[Interrupt]]]:
        places = [Place(thread_id, ns, checkpoint_id) for ns, checkpoint_id in sorted(stored.latest(thread_id).items())]
        writes = stored.read_writes(places)
        return [
            (place.ns, place.checkpoint_id, row.task_id, _interrupts(self._load(row)))
            for place in places
            for row in writes[place]
            if row.channel == stored.INTERRUPT
        ]

    # ------------------------------------------------------------------------------------------------------------ write

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        drafted = self._drafted(config, checkpoint, metadata)
        run_plain(self._put, drafted)
        return _config(drafted.place)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        drafted = self._drafted(config, checkpoint, metadata)
        await arun_plain(self._put, drafted)
        return _config(drafted.place)

    def _drafted(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> _Drafted:
        """Serialise at once, in the caller's thread: nodes change messages in place."""
        kept = get_checkpoint_metadata(config, metadata)
        place = Place(*_thread_and_ns(config), checkpoint["id"])
        return _Drafted(
            place,
            get_checkpoint_id(config) or "",
            snapshots.draft(checkpoint, key=(place.thread_id, place.ns)),
            searchable_json(kept),
            marks_of(checkpoint, kept, ns=place.ns),
            _writer(config, run_id=str(kept.get("run_id") or "")),
        )

    def _put(self, new: _Drafted) -> None:
        parent, draft = Place(new.place.thread_id, new.place.ns, new.parent_id), new.draft
        for attempt in range(_ATTEMPTS):
            known = self._known(parent, ask=attempt > 0) if new.parent_id and draft.cuts else {}
            laying = snapshots.lay(draft, known, fresh=attempt > 0)
            basis = Basis(parent, snapshots.spans_of(known)) if laying.reuses else None
            if store.write_checkpoint(new.laid(laying), basis=basis, writer=new.writer):
                _memory[new.place] = laying.laid
                return
        raise Gone(f"Checkpoint {new.place} could not be stored: its parent changed {_ATTEMPTS} times meanwhile.")

    def _known(self, parent: Place, *, ask: bool) -> Known:
        """Return where the parent's values lie; {} for a parent that is not there."""
        if not ask and (known := _memory.get(parent)) is not None:
            return known
        row = stored.read_checkpoint(parent.thread_id, parent.ns, parent.checkpoint_id)
        if row is None or row.type != snapshots.TYPE:
            return {}
        try:
            return snapshots.known_of(row, stored.read_pieces(parent.thread_id, row.spans), self.serde)
        except Gone:
            return {}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if writes:
            run_plain(store.write_writes, self._new_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if writes:
            await arun_plain(store.write_writes, self._new_writes(config, writes, task_id, task_path))

    def _new_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> NewWrites:
        dumped = self.serde.dumps_typed
        rows = [
            (WRITES_IDX_MAP.get(channel, at), channel, *dumped(value)) for at, (channel, value) in enumerate(writes)
        ]
        replace = max(rows)[0] < 0
        if len(rows) > 1:
            # One statement must not touch a row twice; what it would end as is the last upsert, or the first insert.
            rows = [*{row[0]: row for row in (rows if replace else reversed(rows))}.values()]
        place = Place(*_thread_and_ns(config), str(get_checkpoint_id(config)))
        return NewWrites(place, task_id, task_path, rows, _writer(config), replace)

    # ----------------------------------------------------------------------------------------------------- copy, delete

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        run(store.copy_thread, source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await arun(store.copy_thread, source_thread_id, target_thread_id)

    def delete_thread(self, thread_id: str) -> None:
        run(store.delete_thread, thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await arun(store.delete_thread, thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        run(store.delete_for_runs, run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await arun(store.delete_for_runs, run_ids)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        run(self._prune, thread_ids, strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await arun(self._prune, thread_ids, strategy)

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"There is no strategy {strategy!r} to prune by.")
        for thread_id in thread_ids:
            if strategy == "delete":
                store.delete_thread(thread_id)
            else:
                store.keep_latest(thread_id, needed_by=self._needed)

    def _needed(self, head: Place) -> Iterator[Place]:
        """Yield a checkpoint and those of its ancestors from which its delta channels are rebuilt."""
        row = stored.read_checkpoint(head.thread_id, head.ns, head.checkpoint_id)
        wanting: set[str] = set(row.metadata.get("counters_since_delta_snapshot") or ()) if row else set()
        while row is not None:
            yield row.place
            wanting -= snapshots.channels(row, self.serde)
            if not wanting or not row.parent_id:
                return
            row = stored.read_checkpoint(head.thread_id, head.ns, row.parent_id)


class InHand(DjangoSaver):
    """The saver for looking once more at a thread's head that was just read: ``saved`` is not read again."""

    def __init__(self, saved: CheckpointTuple) -> None:
        super().__init__()
        self._saved = saved

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        is_head = not get_checkpoint_id(config) and _thread_and_ns(config) == _thread_and_ns(self._saved.config)
        return self._saved if is_head else super().get_tuple(config)


list_of = list  # inside the class `list` is the saver's method


def _unless_gone(read: Callable[[], T]) -> T:
    """Read once more if pieces were missing: the checkpoint was deleted between two queries, and now is not found."""
    try:
        return read()
    except Gone:
        return read()


def _thread_and_ns(config: RunnableConfig) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns") or ""


def _config(place: Place) -> RunnableConfig:
    names = {"thread_id": place.thread_id, "checkpoint_ns": place.ns, "checkpoint_id": place.checkpoint_id}
    return {"configurable": names}


def _writer(config: RunnableConfig, *, run_id: str = "") -> Writer:
    """Who writes; ``run_id`` stands in where the runner's mark is missing."""
    marked, token = run_of(config)
    return Writer(marked or run_id, token)


def _interrupts(value: Any) -> Sequence[Interrupt]:
    return [item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, Interrupt)]


def _search(
    config: RunnableConfig | None, *, filter: Mapping[str, Any] | None, before: RunnableConfig | None
) -> Search:
    names = config["configurable"] if config else {}
    return Search(
        names.get("thread_id"),
        names.get("checkpoint_ns"),
        names.get("checkpoint_id"),
        get_checkpoint_id(before) if before else None,
        tuple(searchable(dict(filter or {})).items()),
    )


_json = JSONEncoder(allow_nan=False)


def searchable_json(value: Any) -> str:
    """Return ``searchable(value)`` as JSON text."""
    try:
        text = _json.encode(value)
    except (TypeError, ValueError):  # an object, NaN
        return _json.encode(searchable(value))
    # Whatever may be NUL or a lone surrogate is looked at again, and keys that JSON would spell in its own way.
    odd = "\\u0000" in text or "\\ud" in text or not {str}.issuperset(map(type, value))
    return _json.encode(searchable(value)) if odd else text


def searchable(value: Any) -> Any:
    """Return ``value`` as JSON that any database keeps: jsonb refuses NUL, lone surrogates, NaN and Infinity."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else repr(value)
        case str():
            return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        case Mapping():
            return {searchable(str(key)): searchable(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [searchable(item) for item in value]
    return searchable(str(value))
