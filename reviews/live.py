"""Hints to open pages: names of what changed, never how it looks. Sent after the commit, from a thread of their own.

The events of a thread's stream go the same way, to those who watch it.

A hint may be lost: pages poll, and what counts is in the database. So no reviewer ever waits for the channel layer or
sees its failures; they are counted and logged. Hints of the same moment leave as one message to each group.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from channels.layers import get_channel_layer
from django.db import transaction

from agents.outcome import StreamEvent
from reviews import stream

log = logging.getLogger(__name__)

DESK = "desk"  # the group of hints that belong to no agent
EVERYTHING = "everything"  # in the place of more names than a page can act on
GATHER_SECONDS = 0.02  # how long a hint waits for others to go with it
BATCH_SECONDS = 0.002  # and an event of a stream, whose writer has gathered already, for those of the same write
MOST_NAMES = 200  # in one message; more go in the next
SEND_SECONDS = 2.0  # after that a message is given up
_SAFE = re.compile(r"[A-Za-z0-9_\-]{1,80}")

# A group and names; an event of a stream; or somebody who waits for what came before.
Item = tuple[str, tuple[str, ...]] | StreamEvent | threading.Event

counts: Counter[str] = Counter()  # messages of this process: "sent", "lost", and "overflow" to pages that do not read


def publish_on_commit(*names: str, agent: str | None = None) -> None:
    """Tell the pages, once the transaction is stored, that ``names`` (``inbox-3``, ``thread-9``) changed.

    ``agent``: only pages whose reader may see this agent hear of it; None reaches everybody who may see any.
    """
    # A lambda: Django names the callback when it reports its failure, and a partial has no name.
    transaction.on_commit(lambda: publish(*names, agent=agent), robust=True)


def publish(*names: str, agent: str | None = None) -> None:
    """Tell the pages now: for what is stored already, or never will be. Returns at once and raises nothing."""
    if names:
        _sender().put((group_of(agent), names))


def show(event: StreamEvent) -> None:
    """Push an event of a thread's stream to those who watch it. A lost one leaves a gap in the numbers: pages ask."""
    _sender().put(event)


def group_of(agent: str | None) -> str:
    """Return the group of an agent's hints. Names that a layer would refuse (long, with odd signs) are hashed."""
    if agent is None:
        return DESK
    return f"agent.{agent}" if _SAFE.fullmatch(agent) else f"agent-{hashlib.sha256(agent.encode()).hexdigest()[:40]}"


def overflow() -> None:
    """Count a message that a page has missed because it does not read; it will see so by the numbers, and ask."""
    counts["overflow"] += 1
    if (missed := counts["overflow"]) & (missed - 1) == 0:  # the 1st, 2nd, 4th ...: a page that sleeps is no flood
        log.warning("A page does not read its socket; %d messages to such pages were dropped so far.", missed)


def flush(timeout: float = 5) -> bool:
    """Wait until every hint published so far has left or failed. False when ``timeout`` seconds were not enough."""
    return _sender().flush(timeout)


class _Sender:
    """One daemon thread with one event loop: a layer that hangs delays the hints behind it and nobody else."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="hints", daemon=True).start()

    def put(self, item: Item) -> None:
        self.waiting.put(item)

    def flush(self, timeout: float) -> bool:
        done = threading.Event()
        self.waiting.put(done)
        return done.wait(timeout)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        while True:
            gathered = _gather(self.waiting)
            for group, message in gathered.messages():
                loop.run_until_complete(_send(group, message))
            for waiter in gathered.waiters:
                waiter.set()


def _gather(waiting: queue.SimpleQueue[Item]) -> _Gathered:
    """Wait for something, and for what goes with it. A hint has time; an event that comes meanwhile takes it along."""
    gathered, until = _Gathered(), math.inf
    while (left := until - time.monotonic()) > 0:
        try:
            item = waiting.get(timeout=None if left == math.inf else left)
        except queue.Empty:
            break
        gathered.take(item)
        until = min(until, time.monotonic() + (BATCH_SECONDS if isinstance(item, StreamEvent) else GATHER_SECONDS))
    with contextlib.suppress(queue.Empty):
        while True:
            gathered.take(waiting.get_nowait())
    return gathered


class _Gathered:
    """What waited at one moment. Events keep their order; each name of a hint stays once."""

    def __init__(self) -> None:
        self.events: dict[str, list[StreamEvent]] = {}
        self.names: dict[str, dict[str, None]] = {}
        self.waiters: list[threading.Event] = []

    def take(self, item: Item) -> None:
        match item:
            case threading.Event():
                self.waiters.append(item)
            case StreamEvent():
                self.events.setdefault(item.thread_id, []).append(item)
            case (group, names):
                self.names.setdefault(group, {}).update(dict.fromkeys(names))

    def messages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for thread_id, events in self.events.items():
            group = stream.group_of(thread_id)
            for frame in stream.frames(thread_id, events):
                yield group, {"group": group, "frame": list(frame)}
        for group, names in self.names.items():
            every = list(names)
            for start in range(0, len(every), MOST_NAMES):
                yield group, {"group": group, "changed": every[start : start + MOST_NAMES]}


async def _send(group: str, message: dict[str, Any]) -> None:
    try:
        layer = get_channel_layer()
        if layer is not None:
            await asyncio.wait_for(layer.group_send(group, message), SEND_SECONDS)
        counts["sent"] += 1
    except Exception:
        counts["lost"] += 1
        log.warning("A hint to %s was lost; pages poll. Lost so far: %d.", group, counts["lost"], exc_info=True)


class _Process:
    """What belongs to one process; a forked worker begins anew, without the thread of its parent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sender: _Sender | None = None


_process = _Process()


def _forget() -> None:
    global _process
    _process = _Process()


os.register_at_fork(after_in_child=_forget)


def _sender() -> _Sender:
    with _process.lock:
        if _process.sender is None:
            _process.sender = _Sender()
        return _process.sender
