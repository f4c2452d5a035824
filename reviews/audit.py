"""The audit log: append-only, a hash chain (``chain.py``), written in the transaction of what it records.

Lock order of everything that writes: thread, interrupt, log. Whoever appends holds the log until the commit and must
not wait for another row after it; so entries are the last thing a transaction writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from agents.compiled import insert
from agents.models import Agent, Thread
from agents.statements import moment, select
from reviews.audit_walk import Fault, Report, examine, may_run, verify, words_of
from reviews.chain import FACTS, FORMAT, START, CallFacts, Fact, Kind, columns, commit, link, written
from reviews.jcs import to_jcs
from reviews.models import Action, AuditEntry, AuditSecret, Decision, Interrupt

__all__ = [
    "CallFacts",
    "Fault",
    "Kind",
    "On",
    "Report",
    "append",
    "commit",
    "database_time",
    "erase",
    "examine",
    "may_run",
    "told",
    "verify",
    "words_of",
]

_LOCK = 0x636F756E74657273  # "counters": PostgreSQL's advisory lock of the log


@dataclass(frozen=True)
class On:
    """What an entry is about. An interrupt brings its thread, agent and checkpoint with it."""

    interrupt: Interrupt | None = None
    thread: Thread | None = None
    agent: Agent | None = None
    checkpoint: str = ""
    calls: Sequence[CallFacts] = ()
    before: str = ""  # previous state
    after: str = ""  # next state
    facts: Mapping[str, Fact] = field(default_factory=dict)


def told(action: Action, decision: Decision | None = None, **more: Any) -> CallFacts:
    """Return an action, and the decision on it, as an entry tells them. ``more``: further fields of CallFacts."""
    plain = CallFacts(
        position=action.position,
        tool=action.name,
        message_id=action.message_id,
        tool_call_id=action.tool_call_id,
        verdict=decision.verdict if decision else "",
        shown=action.digest,
        decided=decision.digest if decision and may_run(decision.verdict) else "",
    )
    return replace(plain, **more)


def append(
    kind: Kind,
    *,
    on: On | None = None,
    user: Any = None,
    role: str = "",
    signed_in: str = "",
    secrets: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Write one entry at the end of the chain and return it. ``user`` None is the desk itself.

    ``secrets``: name (``arguments.0``) -> value with a canonical form; the body holds their commitments only.
    """
    what = _body(kind, on or On())
    sealed = {name: (value, *commit(value)) for name, value in (secrets or {}).items()}
    with transaction.atomic(savepoint=False):
        seq, previous, now = _lock_end()
        body = what | {
            "seq": seq + 1,
            "at": written(now),
            "who": {"id": user.pk, "name": user.get_username()} if user else None,
            "role": role,
            "signed_in": signed_in,
            "commitments": {name: commitment for name, (_, commitment, _) in sealed.items()},
        }
        entry = _insert(body, previous=previous, at=now)
        insert(
            [AuditSecret(entry=entry, name=name, value=value, salt=salt) for name, (value, _, salt) in sealed.items()]
        )
    return entry


def erase(entry: AuditEntry, *, user: Any = None, role: str = "") -> int:
    """Forget what ``entry`` only commits to; the chain still verifies. Returns how many values went.

    Writes an entry of its own, so that the log tells of it.
    """
    with transaction.atomic():
        kept = AuditSecret.objects.filter(entry=entry, erased_at__isnull=True)
        count = kept.update(salt=None, value=None, erased_at=database_time())
        if count:
            subject = On(interrupt=entry.interrupt, thread=entry.thread, facts={"entry": entry.seq, "count": count})
            append(Kind.ERASED, on=subject, user=user, role=role)
    return count


def database_time() -> datetime:
    """Return the database's time: clocks of workers and web processes may differ."""
    if connection.vendor != "postgresql":
        return timezone.now()  # SQLite has no clock but this machine's
    return moment(select("select clock_timestamp()")[0][0])


# -------------------------------------------------------------------------------------------------------------- writing


def _lock_end() -> tuple[int, str, datetime]:
    """Hold the log until the commit; return number and hash of its last entry, and the database's time.

    On PostgreSQL a lock on the last row would not do: who waited for it would still see that row as the last one.
    SQLite's transactions are IMMEDIATE and hold the whole database already.
    """
    if connection.vendor == "postgresql":
        select("select pg_advisory_xact_lock(%s)", [_LOCK])
    last = select("select seq, hash from reviews_auditentry order by seq desc limit 1")
    seq, digest = last[0] if last else (0, START)
    return seq, digest, database_time()


def _body(kind: Kind, on: On) -> dict[str, Any]:
    if unknown := set(on.facts) - FACTS:
        raise ValueError(f"An audit entry has no word for {sorted(unknown)}.")
    interrupt = on.interrupt
    thread = interrupt.thread if interrupt else on.thread
    agent = interrupt.agent if interrupt else on.agent or (thread.agent if thread else None)
    return {
        "format": FORMAT,
        "kind": str(kind),
        "agent": {"name": agent.pk, "version": agent.version} if agent else None,
        "thread": thread.pk if thread else None,
        "checkpoint": on.checkpoint or (interrupt.checkpoint_id if interrupt else ""),
        "interrupt": _named(interrupt) if interrupt else None,
        "calls": [asdict(call) for call in on.calls],
        "before": on.before,
        "after": on.after,
        "facts": dict(on.facts),
    }


def _named(interrupt: Interrupt) -> dict[str, Fact]:
    return {
        "row": interrupt.pk,
        "id": interrupt.interrupt_id,
        "namespace": interrupt.namespace,
        "version": interrupt.version,
        "dialect": interrupt.dialect,
        "digest": interrupt.digest,
    }


def _insert(body: dict[str, Any], *, previous: str, at: datetime) -> AuditEntry:
    text = to_jcs(body)
    entry = AuditEntry(body=text, previous=previous, hash=link(previous, text), at=at, **columns(body))
    insert([entry])
    return entry
