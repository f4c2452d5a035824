"""Writes the stream of one drive: what was told since the last write goes into one statement, about ten a second.

The graph's thread, or its loop, only puts events down; a thread of the recorder writes them and hands them on, each
with its number, once they are stored.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import IntegrityError

from agents import connections
from agents.outcome import StreamEvent
from agents.store import Fenced
from agents.streams import rows
from agents.streams.events import Told

log = logging.getLogger(__name__)

URGENT_BURST = 6.0  # writes that need not wait for their turn,
URGENT_RATE = 1.5  # and how many of them a second comes back: ten and this stay below twelve
GATHER_SECONDS = 0.02  # that a step's beginning waits for the rest of it: most of an agent's steps take less
PATIENCE = 3  # failed writes at the end of a run; the run is then taken up again by somebody who can write


class Recorder:
    """A context manager around one drive. ``lost`` is called, in the recorder's thread, when the token is not ours."""

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        token: int,
        emit: Callable[[StreamEvent], None],
        lost: Callable[[], None],
    ) -> None:
        self.thread_id, self.run_id, self.token = thread_id, run_id, token
        self._emit = emit
        self._lost = lost
        self._next = 0
        self._changed = threading.Condition()
        self._pending: list[Told] = []
        self._joinable: dict[tuple[Any, ...], Told] = {}
        self._urgent = False
        self._ready_at = math.inf  # when what is pending has waited long enough for what goes with it
        self._closing = False
        self._fenced = False
        self._failure: BaseException | None = None
        self._written_at = 0.0
        self._budget = URGENT_BURST
        self._writer = threading.Thread(target=self._write_on, name="stream", daemon=True)

    def __enter__(self) -> Self:
        self._next = connections.run(rows.last_seq, self.thread_id) + 1
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write what is left, and wait for it. Raises what kept it from being written, unless the body raised."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join()
        if self._failure is not None and error is None:
            raise self._failure

    def tell(self, told: Iterable[Told]) -> None:
        """Put events down. Returns at once, in any thread."""
        with self._changed:
            for one in told:
                self._put(one)
            self._changed.notify()

    def _put(self, told: Told) -> None:
        if (key := told.joins) is None:
            self._joinable.clear()  # what comes later must not be told before this
            self._pending.append(told)
        elif (open_one := self._joinable.get(key)) is not None and len(open_one.data["text"]) < 2_000:
            open_one.data["text"] += told.data["text"]
        else:
            # A copy: its text grows until it is written.
            self._joinable[key] = Told(told.kind, dict(told.data))
            self._pending.append(self._joinable[key])
        self._urgent = self._urgent or told.is_urgent
        self._ready_at = min(self._ready_at, time.monotonic() + (GATHER_SECONDS if told.has_time else 0))

    # ------------------------------------------------------------------------------------------------------- its thread

    def _write_on(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._write(batch)
            except Fenced as late:
                log.warning("a late worker's events were refused", extra={"run": self.run_id, "reason": str(late)})
                self._fenced = True
                self._lost()
            except Exception as error:
                log.exception("a stream cannot be written", extra={"run": self.run_id})
                self._failure = error
            if self._fenced or self._failure is not None:
                return

    def _next_batch(self) -> list[Told] | None:
        """Wait until something is due, and take it; None when there is no more."""
        with self._changed:
            while not self._pending and not self._closing:
                self._changed.wait()
            while not self._closing and (wait := self._seconds_left()) > 0:
                self._changed.wait(wait)
            batch, self._pending = self._pending, []
            self._joinable.clear()
            self._urgent, self._ready_at = False, math.inf
            return batch or None

    def _seconds_left(self) -> float:
        now = time.monotonic()
        passed = now - self._written_at
        goes_first = self._urgent and min(URGENT_BURST, self._budget + passed * URGENT_RATE) >= 1
        return max(self._ready_at - now, 0 if goes_first else settings.STREAM_SECONDS - passed)

    def _spend(self) -> None:
        """Note a write: one that came before its turn is paid from the budget, which fills slowly."""
        now = time.monotonic()
        passed = now - self._written_at
        self._budget = min(URGENT_BURST, self._budget + passed * URGENT_RATE)
        if passed < settings.STREAM_SECONDS:
            self._budget = max(0.0, self._budget - 1)
        self._written_at = now

    def _write(self, batch: list[Told]) -> None:
        self._spend()
        failures = 0
        while not self._try(batch):
            failures += 1
            if self._closing and failures >= PATIENCE:
                raise DatabaseError("The database does not take the end of this run's stream.")
            time.sleep(min(5.0, 0.2 * 2**failures))
        first, self._next = self._next, self._next + len(batch)
        for seq, told in enumerate(batch, first):
            self._hand_on(StreamEvent(self.thread_id, self.run_id, seq, told.kind, told.data))

    def _try(self, batch: list[Told]) -> bool:
        """Store a batch. False when the database was away, and it may be tried again. Raises Fenced."""
        try:
            connections.run(rows.write, self.thread_id, self.run_id, token=self.token, first=self._next, told=batch)
        except IntegrityError:
            # The answer to an earlier try was lost, not its effect: only the holder of the token gives numbers.
            if connections.run(rows.last_seq, self.thread_id) != self._next + len(batch) - 1:
                raise
        except DatabaseError as error:
            log.warning("the stream waits for the database (%s)", error, extra={"run": self.run_id})
            return False
        return True

    def _hand_on(self, event: StreamEvent) -> None:
        """A page that cannot be told asks for itself."""
        try:
            self._emit(event)
        except Exception:
            log.exception("an event was not handed on", extra={"run": self.run_id})
