"""The Celery application, and what each of its worker processes does beside tasks.

Its messages hold ids and only shorten the wait for the next poll.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from celery import Celery
from celery.signals import (
    task_postrun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_shutting_down,
)
from django.db import close_old_connections, connections
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

TRANSPORT_ALIASES["embedded"] = "project.broker:Transport"

app = Celery("countersign")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

DRAIN = signal.SIGUSR2  # from a worker to its processes: come to a safe point. Celery itself uses none of it.


@worker_process_init.connect(weak=False)
def poll_in_this_process(**_: Any) -> None:
    """Give a process that runs graphs its poller, and let it drain when its worker is told to go away."""
    from reviews.tasks import start_poller

    poller = start_poller()

    def drain(*_: Any) -> None:
        # In a thread: a signal handler must not wait for a lock that the code it interrupted may hold.
        threading.Thread(target=poller.stop, name="drain", daemon=True).start()

    signal.signal(DRAIN, drain)
    worker_process_shutdown.connect(lambda **_: poller.stop(), weak=False)


@worker_init.connect(weak=False)
def fork_without_connections(**_: Any) -> None:
    """Close what this process has open: its children would share it."""
    connection: Any
    for connection in connections.all(initialized_only=True):
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()


@task_postrun.connect(weak=False)
def give_connections_back(task: Any, **_: Any) -> None:
    """Put a task's connection back into the pool (on SQLite: keep it), unless the caller's thread is the task's."""
    if not task.request.is_eager:
        close_old_connections()


@worker_init.connect(weak=False)
def drain_before_shutdown(sender: Any, **_: Any) -> None:
    """Pass a warm shutdown (SIGTERM, a deploy) on to the processes; Celery alone would wait until their runs end."""

    def pass_on(**_: Any) -> None:
        for pid in sender.pool.info.get("processes", ()):
            os.kill(pid, DRAIN)

    worker_shutting_down.connect(pass_on, weak=False)
