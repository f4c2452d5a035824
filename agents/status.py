"""How the agents are doing, in numbers and rows: what runs, waits, failed or is stuck. For the agents that are named.

All ages are by the database's clock: those of workers and web processes may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Literal

from django.conf import settings
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents.models import Run, Thread

ROWS = 50  # of a list
MOST_MEASURED = 20_000  # runs of the last hour
MINUTES = 60

Agents = Collection[str]
State = Literal["running", "pending", "failed"]
TIMES: Mapping[State, str] = {"running": "started_at", "pending": "created_at", "failed": "finished_at"}


@dataclass(frozen=True)
class Row:
    """One run. ``since``: when it was lined up, taken up, or ended; ``last_beat``: of the worker that runs it."""

    run_id: str
    thread_id: str
    title: str
    agent: str
    kind: str
    author: str
    since: datetime
    attempts: int = 0
    worker: str = ""
    last_beat: datetime | None = None
    stop: str = ""
    held: bool = False
    is_late: bool = False  # running: its worker is silent; pending: nobody takes it up
    error: str = ""


@dataclass(frozen=True)
class Minute:
    """What happened in one minute. ``wait``: the median wait of what began in it, in seconds."""

    start: datetime
    begun: int = 0
    ended: int = 0
    failed: int = 0
    wait: float | None = None


def database_now() -> datetime:
    """Return the database's time."""
    if connection.vendor != "postgresql":
        return timezone.now()  # SQLite has no clock but this machine's
    with connection.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        return cursor.fetchone()[0]  # type: ignore[no-any-return]


def patience() -> timedelta:
    """Return how long nothing may happen to what is due: a lease and a poll, and some time to be on the way."""
    return timedelta(seconds=settings.LEASE_SECONDS + settings.POLL_SECONDS * 2)


# ----------------------------------------------------------------------------------------------------------------- rows


def runs_in(agents: Agents, state: State, *, hours: float = 24) -> QuerySet[Run]:
    """Return the runs of a list, in no order; of failed ones those of the last ``hours``. By time: ``TIMES[state]``."""
    rows = _runs(agents)
    match state:
        case "running":
            return rows.filter(status=Run.Status.RUNNING)
        case "pending":
            return rows.filter(status=Run.Status.PENDING)
        case "failed":
            return rows.filter(status=Run.Status.ERROR, finished_at__gte=Now() - timedelta(hours=hours))


def rows_of(runs: Iterable[Run], state: State) -> list[Row]:
    """Return what a list shows of its runs."""
    now = database_now()
    match state:
        case "running":
            return [_running_row(run, now) for run in runs]
        case "pending":
            return [_pending_row(run, now) for run in runs]
        case "failed":
            return [_row(run, run.finished_at or run.created_at, error=run.error) for run in runs]


def running(agents: Agents, *, limit: int = ROWS) -> list[Row]:
    """Return what runs, the longest first."""
    return rows_of(runs_in(agents, "running").order_by("started_at", "pk")[:limit], "running")


def pending(agents: Agents, *, limit: int = ROWS) -> list[Row]:
    """Return what waits, the oldest first; held messages too, which wait for people."""
    return rows_of(runs_in(agents, "pending").order_by("created_at", "pk")[:limit], "pending")


def failed(agents: Agents, *, hours: float = 24, limit: int = ROWS) -> list[Row]:
    """Return what failed lately, the newest first."""
    return rows_of(runs_in(agents, "failed", hours=hours).order_by("-finished_at", "pk")[:limit], "failed")


def stuck(agents: Agents, *, limit: int = ROWS) -> list[Row]:
    """Return what is due, and nobody does it: silent workers first, then what nobody takes up."""
    now = database_now()
    silent = Q(status=Run.Status.RUNNING) & (
        Q(thread__lease_until__lt=now - patience()) | Q(thread__lease_until__isnull=True)
    )
    rows = _runs(agents).filter(silent | _ignored(now)).order_by("-status", "created_at", "pk")[:limit]
    return [_running_row(run, now) if run.status == Run.Status.RUNNING else _pending_row(run, now) for run in rows]


def _ignored(now: datetime) -> Q:
    """Match runs that could have been taken up for longer than anybody's patience."""
    free = Q(thread__holder="") | Q(thread__lease_until__lt=now - patience())
    due = ~Q(kind=Run.Kind.INPUT) | Q(thread__waits=False, thread__stuck=False)
    quiet = Q(created_at__lt=now - patience(), thread__updated_at__lt=now - patience())
    return Q(status=Run.Status.PENDING) & free & due & quiet


def _runs(agents: Agents) -> QuerySet[Run]:
    return Run.objects.filter(thread__agent__in=agents).select_related("thread")


def _row(run: Run, since: datetime, **more: Any) -> Row:
    thread = run.thread
    return Row(
        run_id=str(run.pk),
        thread_id=thread.pk,
        title=thread.title,
        agent=thread.agent_id,
        kind=run.kind,
        author=run.author,
        since=since,
        attempts=run.attempts,
        **more,
    )


def _running_row(run: Run, now: datetime) -> Row:
    until = run.thread.lease_until
    beat = until - timedelta(seconds=settings.LEASE_SECONDS) if until else None
    late = until is None or until < now
    since = run.started_at or run.created_at
    return _row(run, since, worker=run.thread.holder, last_beat=beat, stop=run.stop, is_late=late)


def _pending_row(run: Run, now: datetime) -> Row:
    thread = run.thread
    held = run.kind == Run.Kind.INPUT and (thread.waits or thread.stuck)
    free = not thread.holder or (thread.lease_until is not None and thread.lease_until < now)
    late = free and not held and max(run.created_at, thread.updated_at) < now - patience()
    return _row(run, run.created_at, held=held, is_late=late)


# -------------------------------------------------------------------------------------------------------------- numbers


def counts(agents: Agents) -> Mapping[str, int]:
    """Count runs: pending, held, running now; error, success, cancelled and interrupted of the last hour."""
    mine = Run.objects.filter(thread__agent__in=agents)
    active = dict(mine.filter(status__in=Run.ACTIVE).values_list("status").annotate(number=Count("pk")))
    waits = Q(thread__waits=True) | Q(thread__stuck=True)
    held = mine.filter(waits, status=Run.Status.PENDING, kind=Run.Kind.INPUT).count()
    lately = mine.filter(finished_at__gte=Now() - timedelta(hours=1)).exclude(status__in=Run.ACTIVE)
    ended = dict(lately.values_list("status").annotate(number=Count("pk")))
    found = dict.fromkeys(Run.Status.values, 0) | ended | active
    return {**found, "pending": found["pending"] - held, "held": held}


def threads_by_status(agents: Agents) -> Mapping[str, int]:
    """Count threads by status, and those that are stuck."""
    mine = Thread.objects.filter(agent__in=agents)
    found = dict(mine.values_list("status").annotate(number=Count("pk")))
    stuck_ones = mine.filter(stuck=True).count()
    return {**{status: found.get(status, 0) for status in Thread.Status.values}, "stuck": stuck_ones}


def last_hour(agents: Agents) -> list[Minute]:
    """Return the last sixty minutes, oldest first: what began, ended and failed in each, and how long it had waited."""
    now = database_now().replace(second=0, microsecond=0)
    first = now - timedelta(minutes=MINUTES - 1)
    mine = Run.objects.filter(thread__agent__in=agents)
    lately = Q(started_at__gte=first) | Q(finished_at__gte=first)
    names = ("created_at", "started_at", "finished_at", "status")
    rows = list(mine.filter(lately).values_list(*names).order_by("-created_at")[:MOST_MEASURED])
    return list(_minutes(first, rows))


def _minutes(first: datetime, rows: Collection[Any]) -> Iterator[Minute]:
    begun: dict[int, list[float]] = {}
    ended: dict[int, int] = {}
    failed_ones: dict[int, int] = {}
    for created, started, finished, status in rows:
        if started and started >= first:
            begun.setdefault(_minute(started, first), []).append(max(0.0, (started - created).total_seconds()))
        if finished and finished >= first and status not in Run.ACTIVE:
            at = _minute(finished, first)
            ended[at] = ended.get(at, 0) + 1
            failed_ones[at] = failed_ones.get(at, 0) + (status == Run.Status.ERROR)
    for at in range(MINUTES):
        waits = begun.get(at, [])
        start = first + timedelta(minutes=at)
        yield Minute(start, len(waits), ended.get(at, 0), failed_ones.get(at, 0), median(waits) if waits else None)


def _minute(moment: datetime, first: datetime) -> int:
    return int((moment - first).total_seconds() // 60)


def can_retry(run_id: str) -> bool:
    """Tell whether a failed run is the last thing that happened on its thread."""
    newer = Run.objects.filter(thread=OuterRef("thread"), finished_at__gt=OuterRef("finished_at"))
    return Run.objects.filter(~Exists(newer), pk=run_id, status=Run.Status.ERROR).exists()
