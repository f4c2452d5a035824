"""One thread a process that renews the leases of all its runs, so that a tool which blocks cannot starve them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from django.conf import settings
from django.db import close_old_connections, connection

from agents import runs, workers
from agents.runs import Lease

DEPLOY = "deploy"  # the reason of a drain because this process ends

log = logging.getLogger(__name__)

Held = tuple[Lease, Callable[[runs.Beat], None]]


class Heartbeat:
    """Beats every HEARTBEAT_SECONDS while at least one lease is held; has its own thread and database connection.

    In between it looks every STOP_SECONDS whether people want one of the runs to stop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._draining = False

    @contextmanager
    def keep(self, lease: Lease, told: Callable[[runs.Beat], None]) -> Iterator[None]:
        """Renew ``lease`` while the body runs; ``told`` hears of a lost lease or a wish to stop, in any thread."""
        with self._lock:
            self._held[lease.run_id] = (lease, told)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)
                self._thread.start()
            draining = self._draining
        if draining:  # the process was told to go while this run was being claimed
            told(runs.Beat(lost=False, stop=DEPLOY))
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(lease.run_id, None)

    def drain(self) -> None:
        """Ask each run of this process, also those yet to begin, to stop at its next step: the process goes away."""
        with self._lock:
            self._draining = True
            held = list(self._held.values())
        for _, told in held:
            told(runs.Beat(lost=False, stop=DEPLOY))

    def _beat_on(self) -> None:
        beaten_at = time.monotonic()
        while not self._wake.wait(min(settings.STOP_SECONDS, settings.HEARTBEAT_SECONDS)):
            with self._lock:
                held = list(self._held.values())
                if not held:
                    self._thread = None
                    break
            if time.monotonic() - beaten_at < settings.HEARTBEAT_SECONDS:
                self._look_for_stops(held)
            else:
                beaten_at = time.monotonic()
                for lease, told in held:
                    self._beat_one(lease, told)
                self._say_here({lease.worker for lease, _ in held})
            close_old_connections()
        connection.close()

    def _say_here(self, names: Iterable[str]) -> None:
        """A poller that executes a long run has no time to say that its process is there."""
        try:
            for name in names:
                workers.seen(name)
        except Exception as error:
            log.info("the process was not noted (%s)", type(error).__name__)
            connection.close()

    def _look_for_stops(self, held: Sequence[Held]) -> None:
        """Hear of people's wish to stop sooner than by a beat: one query for all runs of this process."""
        try:
            wishes = runs.stops(lease.run_id for lease, _ in held)
        except Exception as error:  # the next beat will tell, and what is wrong with it too
            log.info("stops were not looked for (%s)", type(error).__name__)
            connection.close()
            return
        for lease, told in held:
            if lease.run_id in wishes:
                told(runs.Beat(lost=False, stop=wishes[lease.run_id]))

    def _beat_one(self, lease: Lease, told: Callable[[runs.Beat], None]) -> None:
        try:
            answer = runs.beat(lease)
        except Exception:  # the database is away: the lease may lapse, the token then keeps us out
            log.warning("heartbeat failed", extra={"run": lease.run_id}, exc_info=True)
            connection.close()
            return
        if answer.lost or answer.stop:
            told(answer)


heartbeat = Heartbeat()
