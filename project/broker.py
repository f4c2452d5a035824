"""Celery's broker of the embedded desk: kombu's in-memory transport, with a reader that is woken.

Kombu's own looks again and again: seldom enough to be felt on each click, or often enough to keep a laptop busy.
"""

from __future__ import annotations

import threading
import time
from queue import Empty
from typing import Any

from kombu.transport import memory

_base: Any = memory.Channel  # kombu has no types
_transport: Any = memory.Transport
# A message came, or one was taken off and makes room for the next. One worker reads in a process.
_moved = threading.Event()


class Channel(_base):
    def _put(self, queue: str, message: Any, **options: Any) -> None:
        super()._put(queue, message, **options)
        _moved.set()

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        super().basic_ack(delivery_tag, multiple=multiple)
        _moved.set()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        super().basic_reject(delivery_tag, requeue=requeue)
        _moved.set()


class Transport(_transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, or raise TimeoutError after so many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            _moved.clear()
            try:
                self.cycle.get(self._deliver)
                return
            except Empty:
                if not _moved.wait(None if end is None else max(0.0, end - time.monotonic())):
                    raise TimeoutError from None
