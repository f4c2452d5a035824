"""Who runs graphs: each process says that it is there, through its poller and, while it is at work, its heartbeat."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from agents.models import Worker
from agents.statements import select

FORGET_SECONDS = 24 * 3600  # rows of processes that died without a word
_IS_ALIVE = "select 1 from agents_worker where last_seen >= $since limit 1"
_SINCE = {
    "postgresql": "statement_timestamp() - interval '1 second' * %s",
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-' || %s || ' seconds')",
}


def alive_seconds() -> float:
    """Return after how long without a word a process counts as gone."""
    return float(max(settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS * 2, settings.POLL_SECONDS * 3))


def seen(name: str) -> None:
    """Note that a process is there."""
    if not Worker.objects.filter(pk=name).update(last_seen=Now()):
        facts = {"host": socket.gethostname()[:100], "pid": os.getpid()}
        Worker.objects.update_or_create(name=name, defaults=facts, create_defaults=facts)


def gone(name: str) -> None:
    """Note that a process leaves in good order."""
    Worker.objects.filter(pk=name).delete()


def sweep() -> int:
    """Forget processes that were not heard of for a day. Returns how many."""
    count, _ = Worker.objects.filter(last_seen__lt=Now() - timedelta(seconds=FORGET_SECONDS)).delete()
    return count


def silent(*, most: int = 20) -> list[Worker]:
    """Return the processes that were not heard of lately and did not say that they leave, the last heard of first."""
    rows = Worker.objects.filter(last_seen__lt=Now() - timedelta(seconds=alive_seconds()))
    return list(rows.order_by("-last_seen", "name")[:most])


def alive() -> QuerySet[Worker]:
    """Return the processes that were heard of lately, the longest serving first."""
    return Worker.objects.filter(last_seen__gte=Now() - timedelta(seconds=alive_seconds())).order_by(
        "started_at", "name"
    )


def is_any_alive() -> bool:
    """Say whether ``alive`` finds any. Each page asks."""
    return bool(select(_IS_ALIVE.replace("$since", _SINCE[connection.vendor]), [alive_seconds()]))
