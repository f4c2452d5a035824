"""Database calls from threads that are not Django's: LangGraph's executors, event loops, the heartbeat.

Django's connections belong to threads. LangGraph opens threads as it likes, so each would open a connection of its own
and nobody would close it (seen: 14 to 30 connections in 30 runs). Here a few threads of ours do all such work.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
T = TypeVar("T")

MAX_THREADS = 8  # below the size of Django's pool, so that pages still find a connection when all of these are busy


class _Threads:
    """The threads of this process, made at first use, and the connection that each of them opened."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None
        self.opened: list[BaseDatabaseWrapper] = []
        self.local = threading.local()

    def enter(self) -> None:
        """Run once in each new thread."""
        self.local.inside = True
        self.opened.append(connections[connection.alias])

    def get(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.executor is None:
                self.executor = ThreadPoolExecutor(MAX_THREADS, "database", initializer=self.enter)
            return self.executor

    def is_inside(self) -> bool:
        return getattr(self.local, "inside", False)


_threads = _Threads()


def _forget() -> None:
    """In a forked child: its parent's threads do not exist here, and its lock may be held by one of them."""
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_forget)


def run(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``fn`` in a database thread and wait for its result; its exception is raised here.

    A call from such a thread runs at once. So does one from inside ``atomic()``: it joins the caller's transaction, for
    which another connection would wait (on SQLite until the timeout).
    """
    if _threads.is_inside() or connection.in_atomic_block:
        return fn(*args, **kwargs)
    return _threads.get().submit(_call, partial(fn, *args, **kwargs)).result()


async def arun(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await ``fn`` in a database thread. It never joins a transaction. Cancelled, the call still runs to its end."""
    return await asyncio.get_running_loop().run_in_executor(_threads.get(), _call, partial(fn, *args, **kwargs))


def _call(fn: Callable[[], T]) -> T:
    try:
        return fn()
    finally:
        _tidy()


def _tidy() -> None:
    """Hand the connection back to Django's pool. SQLite has none, and opening its file again costs more than a put."""
    if connection.vendor != "sqlite":
        connection.close_if_unusable_or_obsolete()


def close_all() -> None:
    """End the threads and close what they hold open, so that tests can drop the database. The next call begins anew."""
    global _threads
    old, _threads = _threads, _Threads()
    if old.executor is not None:
        old.executor.shutdown(wait=True)
    for opened in old.opened:
        opened.inc_thread_sharing()  # its thread has ended
        opened.close()
