"""Ours and the savers that LangGraph ships, on the database of the settings."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from agents.checkpointer import DjangoSaver
from agents.models import Agent, Thread

# What the desk's own connections are set to. By itself SqliteSaver waits for the disk at each commit, which would only
# flatter ours.
_SQLITE = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;"
_TABLES = {
    "ours": ("agents_checkpoint", "agents_checkpointpiece", "agents_checkpointwrite"),
    "peer": ("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
}
_RUN, _TOKEN = "bench", 1


@dataclass
class Side:
    """One of the two: its savers for sync and async graphs, and where its rows are."""

    name: str
    saver: Any
    async_saver: Any
    path: Path | None = None  # a SQLite file of its own

    def at(self, thread_id: str, **names: Any) -> Any:
        """Return the config of a thread. Ours writes as a worker does: under a token that is compared each time."""
        mark = {"__countersign": {"run": _RUN, "token": _TOKEN}} if self.name == "ours" else {}
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **mark, **names}}

    def begin(self, *thread_ids: str) -> None:
        if self.name == "ours":
            agent, _ = Agent.objects.get_or_create(name="bench", title="Bench")
            for thread_id in thread_ids:
                Thread.objects.create(id=thread_id, agent=agent, token=_TOKEN, holder=_RUN)

    def size(self) -> int:
        """Bytes on disk of the tables and their indexes."""
        if connection.vendor == "postgresql":
            return _postgres_size(_TABLES[self.name])
        return _sqlite_size(self.path or Path(str(connection.settings_dict["NAME"])))


def _postgres_size(tables: tuple[str, ...]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "select sum(pg_total_relation_size(name::regclass)) from unnest(%s::text[]) name", [list(tables)]
        )
        return int(cursor.fetchone()[0])


def _sqlite_size(path: Path) -> int:
    link = sqlite3.connect(path)
    try:
        counts = [
            link.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        ]
    finally:
        link.close()
    return int((counts[0] - counts[1]) * counts[2])


class Loop:
    """One event loop for all async runs of the benchmark."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def enter(self, context: Any) -> Any:
        """Enter an async context manager, until the loop is closed."""
        return self.run(self._enter(context))

    async def _enter(self, context: Any) -> Any:
        return await self._stack.enter_async_context(context)

    def close(self) -> None:
        self.run(self._stack.aclose())
        self._runner.close()


@contextmanager
def sides(folder: Path) -> Iterator[tuple[Side, Side, Loop]]:
    """Open ours and the peer of this database. SQLite files lie in ``folder``."""
    loop = Loop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        peer = _postgres(stack, loop) if connection.vendor == "postgresql" else _sqlite(stack, loop, folder)
        yield Side("ours", DjangoSaver(), DjangoSaver()), peer, loop


def _postgres(stack: ExitStack, loop: Loop) -> Side:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

    kwargs = {
        "autocommit": True,
        "prepare_threshold": 0,
        "row_factory": dict_row,
        "dbname": connection.settings_dict["NAME"],
    }
    kwargs |= {name: connection.settings_dict[name.upper()] or None for name in ("host", "port", "user", "password")}
    pool = stack.enter_context(ConnectionPool(kwargs=kwargs, min_size=1, max_size=8))
    async_pool = loop.enter(AsyncConnectionPool(kwargs=kwargs, min_size=1, max_size=8, open=False))
    saver = PostgresSaver(pool)  # type: ignore[arg-type]  # its rows are dicts: row_factory says so
    saver.setup()
    return Side("peer", saver, loop.run(_made(AsyncPostgresSaver, async_pool)))


def _sqlite(stack: ExitStack, loop: Loop, folder: Path) -> Side:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    path = folder / "peer.sqlite3"
    saver = stack.enter_context(SqliteSaver.from_conn_string(str(path)))
    saver.setup()
    saver.conn.executescript(_SQLITE)
    async_saver = loop.enter(AsyncSqliteSaver.from_conn_string(str(path)))
    loop.run(_tuned(async_saver))
    return Side("peer", saver, async_saver, path)


async def _made(build: Any, *args: Any) -> Any:
    return build(*args)  # it looks for the running loop


async def _tuned(saver: Any) -> None:
    await saver.setup()
    await saver.conn.executescript(_SQLITE)
