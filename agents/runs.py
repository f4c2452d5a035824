"""The verbs on Run and Thread. Each changes state by comparing, in the database's own time; none of them calls a graph.

The database is the queue. A thread has one runner: whoever raised its fencing token last. Everything that a runner
writes is compared with that token.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Case, Exists, F, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Now

from agents import stored, streams
from agents.compiled import Compiled, CompiledUpdate, insert
from agents.models import Run, Thread, ToolExecution, ToolPermit
from agents.outcome import CallKey, CallPermit, Outcome, Permit, canonical_bytes, from_canonical
from agents.statements import NOW, execute

# Answers and replays go before messages: a question that is answered must not wait behind small talk.
_QUEUE_ORDER = Case(
    When(status=Run.Status.RUNNING, then=Value(0)),
    When(kind__in=[Run.Kind.RESUME, Run.Kind.REPLAY], then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)


class UnknownThread(LookupError):
    """There is no thread of this id."""


@dataclass(frozen=True)
class Lease:
    """The right to advance one run, until `lease_until` or for as long as the heartbeat renews it."""

    thread_id: str
    agent: str
    run_id: str
    kind: str
    payload: Any
    permits: tuple[CallPermit, ...]
    token: int
    attempt: int
    worker: str
    author: str
    context: Any = None
    stop: str = ""


@dataclass(frozen=True)
class Beat:
    """What a heartbeat learned of one lease."""

    lost: bool
    stop: str


# -------------------------------------------------------------------------------------------------------------- enqueue


def create_thread(agent_name: str, *, title: str = "", author: str = "") -> str:
    """Create an idle thread with a registered agent. Returns its id."""
    return Thread.objects.create(agent_id=agent_name, title=title[:200], author=author).id


def enqueue(
    thread_id: str,
    *,
    kind: str,
    payload: Any,
    permits: Sequence[Permit] = (),
    author: str,
    submit_token: str = "",
    context: Any = None,
    position: int | None = None,
    follows: str | None = None,
) -> str:
    """Line up a run and what was permitted with it. Returns the run's id; a repeated submit token, the first run's.

    ``position``: its place among those of its kind; last when none is given. ``follows``: the run it belongs to.
    Joins the caller's transaction: a decision and its resume run are stored together or not at all.
    """
    run = Run(thread_id=thread_id, kind=kind, payload=payload, author=author, submit_token=submit_token)
    run.context, run.follows_id = context, follows
    with transaction.atomic(savepoint=False):
        # Locks the thread, so that positions are given in one order and no two callers share one.
        if not _TOUCH(thread_id):
            raise UnknownThread(f"There is no thread {thread_id}.")
        if submit_token and (first := _same_submit(thread_id, author, submit_token)):
            return first
        run.position = (_LAST_POSITION.first(thread_id) or 0) + 1 if position is None else position
        insert([run])
        insert(_permit_rows(run, permits))
    return str(run.pk)


_TOUCH = CompiledUpdate(lambda thread: (Thread.objects.filter(pk=thread), {"updated_at": Now()}))
_LAST_POSITION = Compiled(
    lambda thread: Run.objects.filter(thread=thread).order_by("-position").values_list("position", flat=True)[:1]
)


def _same_submit(thread_id: str, author: str, submit_token: str) -> str | None:
    first = Run.objects.filter(thread_id=thread_id, author=author, submit_token=submit_token).first()
    return str(first.pk) if first else None


def _permit_rows(run: Run, permits: Iterable[Permit]) -> list[ToolPermit]:
    return [
        ToolPermit(
            run=run,
            thread_id=run.thread_id,
            interrupt_id=permit.interrupt_id,
            position=call.position,
            message_id=call.key.message_id if call.key else "",
            tool_call_id=call.key.tool_call_id if call.key else "",
            verdict=call.verdict,
            name=call.name,
            args=None if call.args is None else from_canonical(call.args),
            digest=call.digest,
        )
        for permit in permits
        for call in permit.calls
    ]


def cancel(run_id: str, *, author: str) -> bool:
    """Take a pending message back, and those that were to follow it. Answers cannot be taken back.

    False when it has started, or never waited.
    """
    waiting = Run.objects.filter(status=Run.Status.PENDING, kind=Run.Kind.INPUT)
    over = {"status": Run.Status.CANCELLED, "finished_at": Now()}
    with transaction.atomic():
        gone = waiting.filter(pk=run_id).update(**over, error=f"Cancelled by {author} before it started.")
        if gone:
            waiting.filter(follows=uuid.UUID(run_id)).update(
                **over, error=f"Cancelled by {author} with the message it follows."
            )
    return bool(gone)


def request_stop(run_id: str, how: str) -> bool:
    """Ask the worker of a run to stop: ``drain`` at the next step, ``cancel`` now. Read by the heartbeat."""
    running = Run.objects.filter(pk=run_id, status=Run.Status.RUNNING)
    if how == "drain":
        running = running.exclude(stop="cancel")  # who said "now" is not taken back by who said "soon"
    return bool(running.update(stop=how))


def stops(run_ids: Iterable[str]) -> dict[str, str]:
    """Return those of these runs that people asked to stop, and how; one query, asked twice a second."""
    asked = Run.objects.filter(pk__in=list(run_ids)).exclude(stop="")
    return {str(pk): stop for pk, stop in asked.values_list("pk", "stop")}


def has_landed(run_id: str) -> bool:
    """Tell whether a run has stored anything of its own."""
    thread_id = Run.objects.values_list("thread_id", flat=True).get(pk=run_id)
    return stored.landed(thread_id, run_id)


def tools_under_way(run_id: str) -> list[str]:
    """Return the names of the tools that a run has begun and not ended."""
    begun = ToolExecution.objects.filter(run_id=run_id, status=ToolExecution.Status.STARTED, calls__gt=0)
    return sorted(set(begun.values_list("name", flat=True)))


def why_no_rollback(run_id: str) -> str:
    """Return why a run cannot be taken back; "" when it can, because a repetition of what it ran is harmless."""
    ran = ToolExecution.objects.filter(run_id=run_id, calls__gt=0, idempotent=False)
    names = sorted(set(ran.values_list("name", flat=True)))
    if names:
        return f"it ran {', '.join(names)}, which cannot be taken back."
    run = Run.objects.select_related("thread__agent").get(pk=run_id)
    if run.kind != Run.Kind.INPUT:
        return "it acts on what people decided, and that stays."
    if run.thread.agent.guarantee != "once":
        return "nobody knows what its nodes did, and that cannot be taken back."
    return ""


def queue(thread_id: str) -> QuerySet[Run]:
    """Return the pending runs of a thread in the order in which they will be claimed."""
    return _ordered(Run.objects.filter(thread_id=thread_id, status=Run.Status.PENDING))


# ---------------------------------------------------------------------------------------------------------------- claim


def _free() -> Q:
    return Q(holder="") | Q(lease_until__lt=Now())


def _runnable(thread: Any, waits: Any) -> Q:
    """Runs that a claim may take: messages are held while the head waits for people, or is stuck."""
    return Q(thread=thread) & (
        Q(status=Run.Status.RUNNING)
        | Q(status=Run.Status.PENDING) & (Q(kind__in=[Run.Kind.RESUME, Run.Kind.REPLAY]) | Q(waits))
    )


def _ordered(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.order_by(_QUEUE_ORDER, "position", "pk")


def claimable(limit: int = 100) -> list[str]:
    """Return ids of threads that have something to do and nobody who does it, longest unchanged first."""
    due = Run.objects.filter(_runnable(OuterRef("pk"), Q(thread__waits=False, thread__stuck=False)))
    return list(
        Thread.objects.filter(_free(), Exists(due)).order_by("updated_at", "pk").values_list("pk", flat=True)[:limit]
    )


_DUE = """
r.thread_id = $thread and (r.status = 'running'
    or r.status = 'pending' and (r.kind in ('resume', 'replay') or not $waits and not $stuck))
"""
_TAKE = """
update agents_thread as t set holder = %s, token = token + 1, lease_until = $end, status = 'busy', updated_at = $now
where id = %s and (holder = '' or lease_until < $now) and exists (select 1 from agents_run r where $due)
returning agent_id, token
"""
# In the order of _QUEUE_ORDER.
_START = """
update agents_run set status = 'running', token = %s, attempts = attempts + 1, started_at = $now where id = (
    select r.id from agents_run r join agents_thread t on t.id = %s where $due
    order by case when r.status = 'running' then 0 when r.kind in ('resume', 'replay') then 1 else 2 end, position, r.id
    limit 1
) and status in ('pending', 'running')
returning id, kind, payload, context, author, attempts, stop
"""
_CLOCK = {
    "postgresql": {"$now": NOW["postgresql"], "$end": "statement_timestamp() + interval '1 second' * $lease"},
    "sqlite": {
        "$now": NOW["sqlite"],
        "$end": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+$lease seconds')",
    },
}


def _sql(text: str) -> str:
    parts = {"$due": _DUE, "$thread": "t.id", "$waits": "t.waits", "$stuck": "t.stuck", **_CLOCK[connection.vendor]}
    for name, part in {**parts, "$lease": f"{settings.LEASE_SECONDS:.3f}"}.items():
        text = text.replace(name, part)
    return text


def claim(thread_id: str, worker: str) -> Lease | None:
    """Take the thread and its next run, or None when somebody holds it or nothing is due.

    By hand: a click waits for it, and twice in each task.
    """
    with transaction.atomic():
        for agent, token in execute(_sql(_TAKE), [worker, thread_id]):
            for row in execute(_sql(_START), [token, thread_id]):
                return _lease(thread_id, agent, token, worker, row)
            transaction.set_rollback(True)  # its message was cancelled between the two statements
    return None


def _lease(thread_id: str, agent: str, token: int, worker: str, row: tuple[Any, ...]) -> Lease:
    run_id, kind, payload, context, author, attempt, stop = row
    run_key = uuid.UUID(str(run_id))  # SQLite has no type for it
    return Lease(
        thread_id=thread_id,
        agent=agent,
        run_id=str(run_key),
        kind=kind,
        payload=None if payload is None else from_canonical(payload),
        permits=permits_of(run_key) if kind == Run.Kind.RESUME else (),
        token=token,
        attempt=attempt,
        worker=worker,
        author=author,
        context=None if context is None else from_canonical(context),
        stop=stop,
    )


def permits_of(run_id: Any) -> tuple[CallPermit, ...]:
    """Return what was decided with a resume run, by position."""
    return tuple(
        CallPermit(
            verdict=row.verdict,  # type: ignore[arg-type]  # the column holds one of the four
            key=CallKey(row.message_id, row.tool_call_id) if row.tool_call_id else None,
            name=row.name,
            args=None if row.args is None else canonical_bytes(row.args),
            digest=row.digest,
            position=row.position,
        )
        for row in _PERMITS(run_id)
    )


_PERMITS = Compiled(lambda run: ToolPermit.objects.filter(run=run).order_by("position"))


def _lease_end() -> Any:
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def new_worker_name() -> str:
    """Return a name that no other process has: host, process, and some chance."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


# -------------------------------------------------------------------------------------------------------- beat, release


def beat(lease: Lease) -> Beat:
    """Renew a lease. ``lost`` when another worker took the thread, or the lease was given back."""
    renewed = Thread.objects.filter(pk=lease.thread_id, token=lease.token, holder=lease.worker).update(
        lease_until=_lease_end()
    )
    if not renewed:
        return Beat(lost=True, stop="")
    stop = Run.objects.filter(pk=lease.run_id).values_list("stop", flat=True).first()
    return Beat(lost=False, stop=stop or "")


def release(lease: Lease, *, requeue: bool) -> bool:
    """Give the thread back without an outcome. ``requeue``: the run waits again (a drained run keeps its attempts)."""
    with transaction.atomic():
        freed = Thread.objects.filter(pk=lease.thread_id, token=lease.token, holder=lease.worker).update(
            holder="", lease_until=None, updated_at=Now()
        )
        if freed and requeue:
            Run.objects.filter(pk=lease.run_id, status=Run.Status.RUNNING, token=lease.token).update(
                status=Run.Status.PENDING, attempts=F("attempts") - 1
            )
    return bool(freed)


def finish(outcome: Outcome) -> bool:
    """Close the run and free the thread, if the token is still the newest. False: somebody else has the thread now.

    Called inside the transaction of ``intake.record_outcome``, or from a shell.
    """
    waits = bool(outcome.asks) if outcome.known else None
    stands = _thread_status(outcome), waits, outcome.stuck, outcome.head or None, outcome.error
    with transaction.atomic(savepoint=False):
        if not _FREE(outcome.thread_id, outcome.token, *stands):
            return False
        if not _CLOSE(outcome.run_id, outcome.token, outcome.status, outcome.error):
            raise IntegrityError(f"Run {outcome.run_id} is not running under token {outcome.token}.")
        streams.close(outcome)
    return True


# The holder is compared, so that a thread is closed once. What is None stays as it is.
_FREE = CompiledUpdate(
    lambda pk, token, status, waits, stuck, head, error: (
        Thread.objects.filter(pk=pk, token=token).exclude(holder=""),
        {
            "holder": "",
            "lease_until": None,
            "status": status,
            "waits": Coalesce(waits, F("waits")),
            "stuck": stuck,
            "head": Coalesce(head, F("head")),
            "error": error,
            "updated_at": Now(),
        },
    )
)
_CLOSE = CompiledUpdate(
    lambda pk, token, status, error: (
        Run.objects.filter(pk=pk, token=token, status=Run.Status.RUNNING),
        {"status": status, "error": error, "finished_at": Now()},
    )
)


def _thread_status(outcome: Outcome) -> str:
    if outcome.asks:
        return Thread.Status.INTERRUPTED
    if outcome.status == "error":
        return Thread.Status.ERROR
    return Thread.Status.IDLE
