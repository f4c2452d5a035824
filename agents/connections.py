"""Database calls from threads that are not Django's: LangGraph's executors, event loops, the heartbeat.

Django's connections belong to threads. LangGraph opens threads as it likes, so each would open a connection of its own
and nobody would close it (seen: 14 to 30 connections in 30 runs). Here a few connections are lent out, a call at a
time, to the thread that calls. An event loop waits there too: it serves one run, a call takes a millisecond, and to
hand it to another thread and back costs as much on an idle machine, and ten times that beside a busy page.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
T = TypeVar("T")

MAX_CALLS = 8  # at a time; below the size of Django's pool, so that pages still find a connection then
KEPT = 3  # connections that stay open between calls: taking one from the pool costs more than a put
_TRUST = 0.1  # seconds for which an idle connection is taken to be as it was
_DOUBT = 30.0  # and after which it is asked whether its server still knows it


def _is_sqlite() -> bool:
    return str(connections.settings[DEFAULT_DB_ALIAS]["ENGINE"]).endswith("sqlite3")


class _Lent(threading.local):
    connection: BaseDatabaseWrapper | None = None  # that this thread was lent


class _Desk:
    """The connections of this process that are lent out."""

    def __init__(self) -> None:
        self.seats: SimpleQueue[None] = SimpleQueue()
        # SQLite has one writer at a time, and who waits for it in the database sleeps longer than it takes.
        for _ in range(1 if _is_sqlite() else MAX_CALLS):
            self.seats.put(None)
        self.idle: list[tuple[BaseDatabaseWrapper, float]] = []  # with the time since when
        self.lent = _Lent()

    def call(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn`` with one of the connections, of which ``current()`` tells it."""
        self.seats.get()
        try:
            self.lent.connection = connection = self._taken()
            try:
                return fn(*args, **kwargs)
            finally:
                self.lent.connection = None
                if connection.errors_occurred or len(self.idle) >= KEPT:
                    connection.close()
                else:
                    self.idle.append((connection, time.monotonic()))
        finally:
            self.seats.put(None)

    def _taken(self) -> BaseDatabaseWrapper:
        try:
            connection, since = self.idle.pop()
        except IndexError:
            connection = connections.create_connection(DEFAULT_DB_ALIAS)
            connection.inc_thread_sharing()
            return connection
        if connection.vendor != "sqlite" and _is_doubtful(connection, since) and not connection.is_usable():
            connection.close()
        return connection

    def close(self) -> None:
        while self.idle:
            self.idle.pop()[0].close()


def _is_doubtful(connection: BaseDatabaseWrapper, since: float) -> bool:
    """Tell whether a server may have ended this connection: it says something that nobody asked, or was long idle."""
    idle = time.monotonic() - since
    if connection.connection is None or idle < _TRUST:
        return False
    if idle > _DOUBT:
        return True
    news = select.poll()
    news.register(connection.connection, select.POLLIN)
    return bool(news.poll(0))


_desk = _Desk()
_inherited: list[_Desk] = []  # never touched: what a forked child closed, its parent would miss


def _forget() -> None:
    """In a forked child: its parent's threads do not exist here, and its seats may be taken by them."""
    global _desk
    _inherited.append(_desk)
    _desk = _Desk()


os.register_at_fork(after_in_child=_forget)


def _mine() -> BaseDatabaseWrapper | None:
    """Return the connection that this thread has, if Django made it one."""
    made: Any = connections
    local = made._connections  # `all()` says it too, and takes longer
    if asyncio._get_running_loop() is None:
        local = local._storage  # what it looks into then, having seen an exception
    return getattr(local, DEFAULT_DB_ALIAS, None)


def _as_mine(lent: BaseDatabaseWrapper, fn: Callable[[], T]) -> T:
    """Call ``fn`` with a connection in the place of this thread's own."""
    own = _mine()
    connections[DEFAULT_DB_ALIAS] = lent
    try:
        return fn()
    finally:
        if own is None:
            del connections[DEFAULT_DB_ALIAS]
        else:
            connections[DEFAULT_DB_ALIAS] = own


def current() -> BaseDatabaseWrapper:
    """Return the connection that Django uses in this thread, opened."""
    link = _desk.lent.connection or connections[DEFAULT_DB_ALIAS]
    if link.connection is None:
        link.ensure_connection()
    return link


def run(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` with a connection of ours and return its result.

    A call from inside ``atomic()`` joins the caller's transaction, for which another connection would wait (on SQLite
    until the timeout).
    """
    return run_plain(_with_django, partial(fn, *args, **kwargs))


async def arun(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` as ``run`` does, for code that awaits. It never joins a transaction, and is never cancelled."""
    return _call(_with_django, partial(fn, *args, **kwargs))


def run_plain(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` as ``run`` does, if it asks ``current()`` for the connection and uses nothing else of Django's.

    Django learns nothing of the connection, which takes as long as a small statement.
    """
    if _desk.lent.connection is not None or ((own := _mine()) is not None and own.in_atomic_block):
        return fn(*args, **kwargs)
    return _call(fn, *args, **kwargs)


async def arun_plain(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` as ``run_plain`` does, for code that awaits, as ``arun`` does."""
    return _call(fn, *args, **kwargs)


def _with_django(fn: Callable[[], T]) -> T:
    lent = _desk.lent.connection
    return fn() if lent is None or lent is _mine() else _as_mine(lent, fn)


def _call(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` where Django finds no event loop: it refuses to wait for a database there. This one may wait."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return _desk.call(fn, *args, **kwargs)
    asyncio._set_running_loop(None)
    try:
        return _desk.call(fn, *args, **kwargs)
    finally:
        asyncio._set_running_loop(loop)


def close_all() -> None:
    """Close what is open, so that tests can drop the database. The next call begins anew."""
    global _desk
    old, _desk = _desk, _Desk()
    old.close()
