"""One thread a process that renews the leases of all its runs, so that a tool which blocks cannot starve them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import close_old_connections, connection

from agents import runs
from agents.runs import Lease

DEPLOY = "deploy"  # the reason of a drain because this process ends

log = logging.getLogger(__name__)


class Heartbeat:
    """Beats every HEARTBEAT_SECONDS while at least one lease is held; has its own thread and database connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Lease, Callable[[runs.Beat], None]]] = {}
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
        while not self._wake.wait(settings.HEARTBEAT_SECONDS):
            with self._lock:
                held = list(self._held.values())
                if not held:
                    self._thread = None
                    break
            for lease, told in held:
                self._beat_one(lease, told)
            close_old_connections()
        connection.close()

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
