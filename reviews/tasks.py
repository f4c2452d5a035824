"""From the database's queue to the runner and back. Celery messages only shorten the wait; the poller finds everything.

``advance`` may be sent twice, late or never: it claims what is due, and a claim is compare-and-set.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction

from agents import registry, runner, runs, streams, workers
from agents.heartbeat import heartbeat
from agents.outcome import StreamEvent
from agents.runs import Lease
from reviews import live
from reviews.intake import record_outcome

log = logging.getLogger(__name__)

WAKE_SECONDS = 0.3  # a reviewer waits no longer for the broker
TIDY_SECONDS = 600.0  # between two deletions of old rows, in each process

_worker = runs.new_worker_name()
_worker_pid = 0
unwoken = 0  # wake-ups that the broker did not take, in this process; pages show a banner


@shared_task(name="reviews.advance", ignore_result=True)
def advance(thread_id: str) -> int:
    """Do everything that is due on one thread. Returns the number of runs advanced."""
    done = 0
    while (lease := runs.claim(thread_id, worker_name())) is not None:
        if not _advance(lease):
            break
        done += 1
    return done


def _advance(lease: Lease) -> bool:
    """Advance one claimed run. False when this process must not go on with the thread."""
    live.publish(f"thread-{lease.thread_id}", agent=lease.agent)
    try:
        outcome = runner.advance(lease, emit=partial(_emit, lease))
    except runner.LeaseLost:
        log.warning("another worker has taken the thread over", extra={"run": lease.run_id})
        return False
    except runner.Drained:
        runs.release(lease, requeue=True)
        return False
    record_outcome(outcome)
    for event in streams.closing(lease.run_id):
        live.show(event)
    return True


def _emit(lease: Lease, event: StreamEvent) -> None:
    """Push an event to those who watch; what each step leaves behind is a hint to pages that show no stream."""
    live.show(event)
    if event.kind == "checkpoint":
        live.publish(f"thread-{event.thread_id}", agent=lease.agent)


def worker_name() -> str:
    """Return this process's name as a worker; a forked child gets one of its own."""

    global _worker, _worker_pid
    if _worker_pid != os.getpid():
        _worker, _worker_pid = runs.new_worker_name(), os.getpid()
    return _worker


# ----------------------------------------------------------------------------------------------------------------- wake


def wake_on_commit(thread_id: str) -> None:
    """Wake a worker once the transaction is stored. The decision is kept whether or not anybody hears of it."""
    # A lambda: Django names the callback when it reports its failure, and a partial has no name.
    transaction.on_commit(lambda: wake(thread_id), robust=True)


def wake(thread_id: str) -> bool:
    """Tell a worker now, within WAKE_SECONDS.

    False when the broker does not take it: counted, never an error, since the poller will find it.
    """
    global unwoken
    try:
        _waking.send(thread_id)
    except Exception:
        unwoken += 1
        log.warning("no worker could be woken; the next poll takes it", extra={"on_thread": thread_id})
        return False
    unwoken = 0
    return True


class _Waking:
    """Sends from a thread of its own: a broker that hangs takes the bytes and does not answer for seconds."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "waking")
        self._last: Future[None] | None = None

    def send(self, thread_id: str) -> None:
        """Raises what the broker says; TimeoutError when it is silent, at once while an earlier message hangs."""
        if self._last is not None and not self._last.done() and unwoken:
            raise TimeoutError
        self._last = self._thread.submit(_send, thread_id)
        self._last.result(WAKE_SECONDS)


def _send(thread_id: str) -> None:
    advance.apply_async((thread_id,), retry=False, ignore_result=True)


def _wake_anew() -> None:
    """A forked worker begins without the thread of its parent."""
    global _waking
    _waking = _Waking()


_waking = _Waking()
os.register_at_fork(after_in_child=_wake_anew)


# --------------------------------------------------------------------------------------------------------------- poller


def poll_once() -> int:
    """Claim and execute everything that is due, in this thread. Returns the number of runs advanced."""
    return sum(advance(thread_id) for thread_id in runs.claimable())


class Poller(threading.Thread):
    """The sweep of one process that runs graphs: every POLL_SECONDS it executes what it finds. It never enqueues."""

    def __init__(self, poll: Callable[[], int] = poll_once) -> None:
        super().__init__(name="poller", daemon=True)
        self._poll = poll
        self._ending = threading.Event()
        self._failures = 0  # in a row
        self._tidy_at = time.monotonic() + TIDY_SECONDS

    def run(self) -> None:
        registry.build_all()
        self._note(workers.seen)
        while not self._ending.wait(self._pause()):
            self._sweep()
            close_old_connections()
        self._note(workers.gone)
        connection.close()

    def _note(self, what: Callable[[str], None]) -> None:
        """Tell the status page that this process is there, or leaves. Nothing depends on it."""
        try:
            what(worker_name())
        except Exception as error:
            log.info("the process was not noted (%s)", type(error).__name__)
            connection.close()

    def _pause(self) -> float:
        """Return the seconds to the next sweep; while the database is away, up to a minute."""
        pause: float = settings.POLL_SECONDS
        return float(min(pause * 2 ** min(self._failures, 5), max(pause, 60)))

    def _sweep(self) -> None:
        try:
            self._poll()
        except DatabaseError as error:
            self._failures += 1
            log.warning("the database is away (%s); the poller tries again in %g s", error, self._pause())
            connection.close()
        except Exception:
            log.exception("the poller failed; it tries again")
        else:
            self._failures = 0
            self._note(workers.seen)
            self._tidy()

    def _tidy(self) -> None:
        """Now and then, delete streams that nobody needs, and forget processes that died."""
        if time.monotonic() < self._tidy_at:
            return
        self._tidy_at = time.monotonic() + TIDY_SECONDS
        try:
            streams.prune()
            workers.sweep()
        except Exception:
            log.exception("old rows were not deleted; the poller tries again later")

    def stop(self, *, timeout: float = 10) -> None:
        """Drain what this process runs, and wait for the poller to end."""
        self._ending.set()
        heartbeat.drain()
        self.join(timeout)


def start_poller() -> Poller:
    """Start this process's poller and return it."""
    poller = Poller()
    poller.start()
    return poller
