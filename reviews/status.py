"""The desk's state for the people who keep it going: numbers, and a finder of requests that were lost on the way.

Everything begins with who asks: a person sees the agents that they may see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q

from agents import status, workers
from agents.models import Run, Thread, Worker
from agents.status import Minute, Row, State
from reviews import live, tasks
from reviews.models import Interrupt, Role, names_for
from reviews.paging import by_time

MOST_LOST = 100


@dataclass(frozen=True)
class Overview:
    """What the queue page shows. Lists are cut at ``agents.status.ROWS``; ``counts`` are not."""

    counts: Mapping[str, int]
    threads: Mapping[str, int]
    running: Sequence[Row]
    pending: Sequence[Row]
    failed: Sequence[Row]
    stuck: Sequence[Row]
    workers: Sequence[Worker]
    silent: Sequence[Worker]  # not heard of lately, and not gone in good order
    minutes: Sequence[Minute]
    lost: Sequence[Lost]
    unwoken: int  # wake-ups that the broker did not take, in this process
    now: datetime


@dataclass(frozen=True)
class Lost:
    """A request that went astray. ``verb``: what to do next: go on, look, replay (see ``reviews.threads``), worker."""

    kind: str
    thread: Thread
    since: datetime
    words: str
    verb: str
    interrupt: Interrupt | None = None


def overview(user: Any) -> Overview:
    """Return everything about the agents for which ``user`` is an operator or auditor."""
    agents = _agents(user)
    return Overview(
        counts=status.counts(agents),
        threads=status.threads_by_status(agents),
        running=status.running(agents),
        pending=status.pending(agents),
        failed=status.failed(agents),
        stuck=status.stuck(agents),
        workers=list(workers.alive()),
        silent=workers.silent(),
        minutes=status.last_hour(agents),
        lost=lost(user),
        unwoken=tasks.unwoken,
        now=status.database_now(),
    )


def listed(user: Any, state: State, after: str) -> tuple[list[Row], str]:
    """Return a page of one list after a cursor, and the cursor of the next page, "" after the last."""
    runs = status.runs_in(_agents(user), state)
    page = by_time(runs, field=status.TIMES[state], after=after, newest_first=state == "failed")
    return status.rows_of(page.rows, state), page.after


def may_look(user: Any) -> bool:
    """Tell whether somebody may see the queue page at all."""
    return bool(_agents(user)) or bool(user.is_superuser and user.is_active)


def _agents(user: Any) -> list[str]:
    return names_for(user, Role.OPERATOR, Role.AUDITOR)


def banner() -> str:
    """Return what every page says when runs would not go on by themselves, "" when all is well."""
    if not workers.is_any_alive():
        return "No worker is running. What you decide is kept and goes on when one is started."
    if tasks.unwoken:
        return "Workers are not woken. What you decide is kept, and found at their next look."
    return ""


# ----------------------------------------------------------------------------------------------------------------- lost


def lost(user: Any) -> list[Lost]:
    """Return what was lost on the way, what matters most first: decisions, then questions, then runs."""
    agents = _agents(user)
    found = [*_decisions(agents), *_questions(agents), *_gone(agents), *_stuck(agents), *_ignored(agents)]
    return found[:MOST_LOST]


def _decisions(agents: Sequence[str]) -> Iterator[Lost]:
    """A decision without a run: it was recorded, and nobody is going to act on it."""
    rows = Interrupt.objects.filter(agent__in=agents, status=Interrupt.Status.DECIDED)
    rows = rows.filter(Q(resume__isnull=True) | ~Q(resume__status__in=Run.ACTIVE)).exclude(_being_looked_at())
    for row in rows.select_related("thread", "agent").order_by("decided_at")[:MOST_LOST]:
        words = "It was decided, and no run carries the decision. Going on uses it, or asks again."
        yield Lost("decision without a run", row.thread, row.decided_at or row.created_at, words, "go on", row)


def _questions(agents: Sequence[str]) -> Iterator[Lost]:
    """An interrupted thread without an interrupt: the agent waits, and nobody is asked."""
    asked = Interrupt.objects.filter(thread=OuterRef("pk"), status__in=["open", "decided"])
    rows = _resting(agents).filter(~Exists(asked), status=Thread.Status.INTERRUPTED)
    for thread in rows.order_by("updated_at")[:MOST_LOST]:
        words = "The agent waits for people, and nobody is asked. Looking again files its question."
        yield Lost("thread without a question", thread, thread.updated_at, words, "look")


def _gone(agents: Sequence[str]) -> Iterator[Lost]:
    """A question whose interrupt is gone: people are asked for nothing."""
    rows = Interrupt.objects.filter(agent__in=agents, status=Interrupt.Status.OPEN, thread__holder="")
    rows = rows.filter(thread__waits=False).exclude(_being_looked_at())
    for row in rows.select_related("thread", "agent").order_by("created_at")[:MOST_LOST]:
        words = "The agent has gone on without it. Looking again withdraws it."
        yield Lost("question without an interrupt", row.thread, row.created_at, words, "look", row)


def _stuck(agents: Sequence[str]) -> Iterator[Lost]:
    for thread in _resting(agents).filter(stuck=True).order_by("updated_at")[:MOST_LOST]:
        words = "A saved answer is raised again each time. Replaying the head lets the agent ask afresh."
        yield Lost("stuck thread", thread, thread.updated_at, words, "replay")


def _ignored(agents: Sequence[str]) -> Iterator[Lost]:
    """Runs that nobody takes up. They need a worker, and nothing else."""
    threads = Thread.objects.select_related("agent").in_bulk({row.thread_id for row in status.stuck(agents)})
    for row in status.stuck(agents):
        words = "Its worker is silent." if row.worker else "No worker takes it up."
        thread = threads[row.thread_id]
        yield Lost("run without a worker", thread, row.since, f"{words} It goes on when one is there.", "worker")


def _resting(agents: Sequence[str]) -> Any:
    """Return threads that nobody works on, and that nobody is about to look at."""
    coming = Run.objects.filter(thread=OuterRef("pk"), status__in=Run.ACTIVE).exclude(kind=Run.Kind.INPUT)
    return Thread.objects.filter(~Exists(coming), agent__in=agents, holder="").select_related("agent")


def _being_looked_at() -> Q:
    """Match interrupts of threads that a run is about to read anew."""
    coming = Run.objects.filter(thread=OuterRef("thread"), status__in=Run.ACTIVE).exclude(kind=Run.Kind.INPUT)
    return Q(Exists(coming))


# -------------------------------------------------------------------------------------------------------------- metrics


def hints() -> Mapping[str, int]:
    """Return what became of the pushes of this process: sent, lost, overflow."""
    return {name: live.counts[name] for name in ("sent", "lost", "overflow")}
