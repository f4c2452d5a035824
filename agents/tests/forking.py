"""Work in a forked child, which may die in the middle; a fork, because importing LangChain afresh takes seconds.

A child has only the thread that forked it, and what another thread held at that moment is held for ever. Seen about
once in two thousand forks: the heartbeat was in SQLite, and the child waited for the lock around SQLite's memory.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from typing import Any

from django.db import connections as django_connections

from agents import connections
from agents.heartbeat import heartbeat

DONE = 0
FAILED = 70
KILLED = 9

_LIMIT = 60  # seconds


def in_child(work: Callable[[], Any], *, close: bool = True) -> int:
    """Call ``work`` in a child and return the child's exit code: DONE, FAILED, or that with which it ended itself.

    A child that hangs prints where, and ends. ``close``: share no connection with it.
    """
    if (thread := heartbeat._thread) is not None:  # the one thread that uses the database between runs
        heartbeat._wake.set()
        thread.join()
        heartbeat._wake.clear()
    if close:
        _close_connections()
    child = os.fork()
    if child == 0:  # nothing may leave this block: the child would go on with the rest of the tests
        _work(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _close_connections() -> None:
    connections.close_all()
    connection: Any
    for connection in django_connections.all():
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()


def _work(work: Callable[[], Any]) -> None:
    code = FAILED
    try:
        faulthandler.register(signal.SIGALRM, file=2, chain=True)  # its other way has a thread, which is not here
        signal.alarm(_LIMIT)
        work()
        code = DONE
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
