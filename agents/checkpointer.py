"""DjangoSaver: LangGraph's checkpoint saver on this desk's tables.

Every write is fenced: it carries the run and the fencing token that the runner put under
``configurable["__countersign"]``, and a worker that lost its thread writes nothing. What is read is data: a class that
is not known to be safe is never constructed, whatever a row names and the environment says.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

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
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt

from agents import store
from agents.connections import arun, run
from agents.models import run_of
from agents.store import CheckpointRow, Fenced, Place, Search, Writer, WriteRow

__all__ = ["DjangoSaver", "Fenced", "Unreadable"]

_PAGE = 20  # checkpoints a query of list(): each may hold a long conversation


class Unreadable(ValueError):
    """A stored value is of a kind that is never written here, such as a pickle: it is not opened."""


class StrictSerializer(JsonPlusSerializer):
    """Reads plain data, dates and the like, messages and LangGraph's own values; other objects come back as data."""

    def __init__(self) -> None:
        # None is "only the safe types"; left out, it would be "whatever the environment says".
        super().__init__(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in ("msgpack", "bytes", "bytearray", "null"):
            raise Unreadable(f"A stored value of type {data[0]!r} is not read.")
        return super().loads_typed(data)


class DjangoSaver(BaseCheckpointSaver[str]):
    """Checkpoints and pending writes in the desk's database. Safe to share between threads, graphs and event loops."""

    def __init__(self) -> None:
        super().__init__(serde=StrictSerializer())

    # ------------------------------------------------------------------------------------------------------------- read

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return run(self._get, config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await arun(self._get, config)

    def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        row = store.read_checkpoint(*_thread_and_ns(config), get_checkpoint_id(config))
        return None if row is None else self._tuples([row])[0]

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

    def _page(
        self, search: Search, *, after: store.Cursor | None, limit: int
    ) -> tuple[Sequence[CheckpointTuple], store.Cursor | None]:
        rows, after = store.read_page(search, after=after, limit=limit)
        return self._tuples(rows), after

    def _tuples(self, rows: Sequence[CheckpointRow]) -> Sequence[CheckpointTuple]:
        writes = store.read_writes([row.place for row in rows]) if rows else {}
        return [
            CheckpointTuple(
                _config(row.place),
                self.serde.loads_typed((row.type, row.blob)),
                row.metadata,
                _config(Place(row.place.thread_id, row.place.ns, row.parent_id)) if row.parent_id else None,
                [(write.task_id, write.channel, self._load(write)) for write in writes.get(row.place, ())],
            )
            for row in rows
        ]

    def _load(self, row: WriteRow) -> Any:
        return self.serde.loads_typed((row.type, row.blob))

    def latest(self, thread_id: str) -> dict[str, str]:
        """Map each namespace of a thread to the id of its newest checkpoint."""
        return run(store.latest, thread_id)

    def landed(self, thread_id: str, run_id: str) -> bool:
        """Tell whether a run has left a trace in any namespace: a checkpoint, or a write other than a question."""
        return run(store.landed, thread_id, run_id)

    def interrupt_writes(self, thread_id: str) -> Sequence[tuple[str, str, str, Sequence[Interrupt]]]:
        """Return what was asked at the newest checkpoint of each namespace, as it stands stored.

        Items are (namespace, checkpoint id, task id, interrupts). What has been answered since is still among them.
        """
        return run(self._interrupt_writes, thread_id)

    def _interrupt_writes(self, thread_id: str) -> Sequence[tuple[str, str, str, Sequence[Interrupt]]]:
        places = [Place(thread_id, ns, checkpoint_id) for ns, checkpoint_id in sorted(store.latest(thread_id).items())]
        writes = store.read_writes(places) if places else {}
        return [
            (place.ns, place.checkpoint_id, row.task_id, _interrupts(self._load(row)))
            for place in places
            for row in writes.get(place, ())
            if row.channel == store.INTERRUPT
        ]

    # ------------------------------------------------------------------------------------------------------------ write

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        row, writer = self._checkpoint_row(config, checkpoint, metadata)
        run(store.write_checkpoint, row, writer)
        return _config(row.place)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        row, writer = self._checkpoint_row(config, checkpoint, metadata)
        await arun(store.write_checkpoint, row, writer)
        return _config(row.place)

    def _checkpoint_row(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[CheckpointRow, Writer]:
        kept = searchable(get_checkpoint_metadata(config, metadata))
        type_, blob = self.serde.dumps_typed(checkpoint)
        place = Place(*_thread_and_ns(config), checkpoint["id"])
        row = CheckpointRow(place, get_checkpoint_id(config) or "", type_, blob, kept)
        return row, _writer(config, run_id=str(kept.get("run_id") or ""))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if writes:
            place, rows = self._write_rows(config, writes, task_id=task_id, task_path=task_path)
            run(store.write_writes, place, rows, writer=_writer(config), replace=_all_special(writes))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if writes:
            place, rows = self._write_rows(config, writes, task_id=task_id, task_path=task_path)
            await arun(store.write_writes, place, rows, writer=_writer(config), replace=_all_special(writes))

    def _write_rows(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], *, task_id: str, task_path: str
    ) -> tuple[Place, Sequence[WriteRow]]:
        rows: dict[int, WriteRow] = {}
        keep_last = _all_special(writes)
        for position, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, position)
            row = WriteRow(task_id, idx, task_path, channel, *self.serde.dumps_typed(value))
            # One statement must not touch a row twice; what it would end as is the last upsert, or the first insert.
            rows[idx] = row if keep_last else rows.get(idx, row)
        return Place(*_thread_and_ns(config), str(get_checkpoint_id(config))), [*rows.values()]

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the next version of a channel; its random tail keeps two forks of one checkpoint apart."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{secrets.token_hex(8)}"

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
        row = store.read_checkpoint(head.thread_id, head.ns, head.checkpoint_id)
        wanting: set[str] = set(row.metadata.get("counters_since_delta_snapshot") or ()) if row else set()
        while row is not None:
            yield row.place
            wanting -= self.serde.loads_typed((row.type, row.blob))["channel_values"].keys()
            if not wanting or not row.parent_id:
                return
            row = store.read_checkpoint(head.thread_id, head.ns, row.parent_id)


list_of = list  # inside the class `list` is the saver's method


def _thread_and_ns(config: RunnableConfig) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns") or ""


def _config(place: Place) -> RunnableConfig:
    names = {"thread_id": place.thread_id, "checkpoint_ns": place.ns, "checkpoint_id": place.checkpoint_id}
    return {"configurable": names}


def _writer(config: RunnableConfig, *, run_id: str = "") -> Writer:
    """Who writes; ``run_id`` stands in where the runner's mark is missing."""
    marked, token = run_of(cast(dict[str, Any], config))
    return Writer(marked or run_id, token)


def _all_special(writes: Sequence[tuple[str, Any]]) -> bool:
    return all(channel in WRITES_IDX_MAP for channel, _ in writes)


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
