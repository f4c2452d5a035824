"""Where the streams stand that somebody of this process watches: asked once for all sockets, every few seconds.

A layer may lose the last event of a stream, and then no gap in the numbers shows it. So each page is told by and by
which number its thread has reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.db.models import OuterRef, Subquery

from agents.models import RunEvent, Thread

log = logging.getLogger(__name__)

AT_SECONDS = 10.0
_CHUNK = 500  # threads in one statement


class Watcher(Protocol):
    def stands(self, thread: str, seq: int) -> None:
        """Learn the number of a thread's newest event, 0 before its first."""


class Reminders:
    """Who watches which threads, in one process. It asks as long as somebody does."""

    def __init__(self) -> None:
        self._watched: dict[str, set[Watcher]] = {}
        self._asking: asyncio.Task[None] | None = None

    def add(self, threads: Iterable[str], watcher: Watcher) -> None:
        for thread in threads:
            self._watched.setdefault(thread, set()).add(watcher)
        if self._watched and self._asking is None:
            self._asking = asyncio.create_task(self._ask())

    def remove(self, threads: Iterable[str], watcher: Watcher) -> None:
        for thread in threads:
            watchers = self._watched.get(thread, set())
            watchers.discard(watcher)
            if not watchers:
                self._watched.pop(thread, None)
        if not self._watched and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self) -> None:
        while True:
            await asyncio.sleep(AT_SECONDS)
            try:
                found = await database_sync_to_async(newest, thread_sensitive=False)(list(self._watched))
            except Exception:
                log.exception("Nobody can say where the streams stand.")
                continue
            for thread, seq in found.items():
                for watcher in tuple(self._watched.get(thread, ())):
                    watcher.stands(thread, seq)


def newest(threads: list[str]) -> dict[str, int]:
    """Return the number of each thread's newest event, 0 before its first. One index entry is read for each."""
    found: dict[str, int] = {}
    last = RunEvent.objects.filter(thread=OuterRef("pk")).order_by("-seq").values("seq")[:1]
    for start in range(0, len(threads), _CHUNK):
        rows = Thread.objects.filter(pk__in=threads[start : start + _CHUNK])
        found |= {pk: seq or 0 for pk, seq in rows.values_list("pk", Subquery(last))}
    return found


_reminders: WeakKeyDictionary[asyncio.AbstractEventLoop, Reminders] = WeakKeyDictionary()


def reminders() -> Reminders:
    """Return those of the running loop; a web process has one loop."""
    return _reminders.setdefault(asyncio.get_running_loop(), Reminders())
