"""A walk over the whole audit log: does the chain hold, and does it tell of every decision once and rightly?

In bounded memory: pieces of PIECE entries at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, Max, OuterRef

from agents.outcome import canonical_bytes
from reviews.chain import START, Kind, columns, commit, link
from reviews.jcs import to_jcs
from reviews.models import AuditEntry, AuditSecret, Decision

PIECE = 500
MAX_FAULTS = 20


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. ``kind``: gap, link, hash, body, secret; and decision, entry, digest besides."""

    seq: int | None
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} at entry {self.seq}: {self.detail}" if self.seq else f"{self.kind}: {self.detail}"


@dataclass
class Report:
    """What a walk over the whole log found. ``faults`` in the order of the chain, at most MAX_FAULTS."""

    count: int = 0
    head: str = START
    seq: int | None = None  # of the head
    faults: list[Fault] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.faults) >= MAX_FAULTS


def verify() -> list[Fault]:
    """Return what is wrong with the log, the first bad entry first; nothing when it holds."""
    return examine().faults


def examine() -> Report:
    """Walk the chain in pieces of PIECE entries, then hold decisions and entries against each other, one to one."""
    report = Report()
    while not report.is_full and (piece := _piece_after(report.seq)):
        sealed = _sealed(piece)
        for entry in piece:
            report.faults += _entry_faults(entry, report, sealed.get(entry.seq, []))
            report.seq, report.head, report.count = entry.seq, entry.hash, report.count + 1
        report.faults += _decided_faults([entry for entry in piece if entry.kind == Kind.DECIDED], sealed)
    for fault in (_decided_twice, _without_entry):
        report.faults += fault()
    report.faults = report.faults[:MAX_FAULTS]
    return report


def _piece_after(seq: int | None) -> list[AuditEntry]:
    entries = AuditEntry.objects.order_by("seq")
    # The first piece also takes numbers below 1, which nobody but a forger writes.
    return list((entries if seq is None else entries.filter(seq__gt=seq))[:PIECE])


def _sealed(piece: Sequence[AuditEntry]) -> dict[int, list[AuditSecret]]:
    found: dict[int, list[AuditSecret]] = {}
    for secret in AuditSecret.objects.filter(entry__in=piece):
        found.setdefault(secret.entry_id, []).append(secret)
    return found


def _entry_faults(entry: AuditEntry, before: Report, sealed: Sequence[AuditSecret]) -> list[Fault]:
    faults: list[Fault] = []
    if entry.seq != (before.seq or 0) + 1:
        faults.append(Fault(entry.seq, "gap", f"It follows entry {before.seq or 0}."))
    if entry.previous != before.head:
        faults.append(Fault(entry.seq, "link", "It does not name the hash of the entry before it."))
    if entry.hash != _hash_or_none(entry):
        faults.append(Fault(entry.seq, "hash", "Its hash is not that of its body."))
    body = _read_body(entry)
    if body is None:
        return [*faults, Fault(entry.seq, "body", "Its body and its columns do not say the same, or cannot be read.")]
    return faults + _secret_faults(entry, body["commitments"], sealed)


def _hash_or_none(entry: AuditEntry) -> str | None:
    try:
        return link(entry.previous, entry.body)
    except UnicodeEncodeError:
        return None


def _read_body(entry: AuditEntry) -> dict[str, Any] | None:
    try:
        body: dict[str, Any] = json.loads(entry.body)
        told = columns(body) | {"at": datetime.fromisoformat(body["at"])}
        is_canonical = to_jcs(body) == entry.body and Kind(body["kind"]) and isinstance(body["commitments"], dict)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return body if is_canonical and all(getattr(entry, name) == value for name, value in told.items()) else None


def _secret_faults(entry: AuditEntry, commitments: dict[str, str], sealed: Sequence[AuditSecret]) -> list[Fault]:
    kept = {secret.name: secret for secret in sealed}
    if set(kept) != set(commitments):
        names = ", ".join(sorted(set(kept) ^ set(commitments)))
        return [Fault(entry.seq, "secret", f"Kept values and commitments differ: {names}.")]
    wrong = [name for name, secret in kept.items() if not _opens(secret, commitments[name])]
    return [Fault(entry.seq, "secret", f"{name} is not what was committed to.") for name in wrong]


def _opens(secret: AuditSecret, commitment: str) -> bool:
    if secret.salt is None:
        return secret.erased_at is not None
    return commit(secret.value, bytes(secret.salt))[0] == commitment


# -------------------------------------------------------------------------------------------- decisions against entries


def _decided_faults(entries: Sequence[AuditEntry], sealed: Mapping[int, list[AuditSecret]]) -> list[Fault]:
    by_interrupt: dict[int, dict[int, Decision]] = {}
    rows = [entry.interrupt_id for entry in entries]
    for decision in Decision.objects.filter(action__interrupt__in=rows).select_related("action"):
        by_interrupt.setdefault(decision.action.interrupt_id, {})[decision.action.position] = decision
    return [
        fault
        for entry in entries
        for fault in _told_faults(entry, by_interrupt.get(entry.interrupt_id or 0, {}), sealed.get(entry.seq, []))
    ]


def _told_faults(entry: AuditEntry, stored: Mapping[int, Decision], sealed: Sequence[AuditSecret]) -> list[Fault]:
    body = _read_body(entry)
    if body is None:  # named already
        return []
    told = {call["position"]: call for call in body["calls"]}
    faults = [
        Fault(entry.seq, "decision", f"It does not tell of the decision on action {at}.")
        for at in sorted(set(stored) - set(told))
    ]
    faults += [
        Fault(entry.seq, "entry", f"Action {at} of interrupt {entry.interrupt_id} has no such decision.")
        for at in sorted(set(told) - set(stored))
    ]
    for at in sorted(set(told) & set(stored)):
        if not (_same_verdict(told[at], stored[at], entry) and _same_words(body, stored[at], sealed)):
            faults.append(Fault(entry.seq, "digest", f"The decision on action {at} is not the one that was logged."))
    return faults


def _same_verdict(call: Mapping[str, Any], decision: Decision, entry: AuditEntry) -> bool:
    decided = decision.digest if may_run(decision.verdict) else ""
    told = (call["verdict"], call["shown"], call["decided"], entry.user_id)
    return told == (decision.verdict, decision.action.digest, decided, decision.user_id)


def _same_words(body: Mapping[str, Any], decision: Decision, sealed: Sequence[AuditSecret]) -> bool:
    """Say whether what was decided is what the entry commits to, as far as it is not erased."""
    kept = {secret.name: secret.value for secret in sealed if secret.salt is not None}
    for name, stored in words_of(decision).items():
        if name in kept and canonical_bytes(kept[name]) != canonical_bytes(stored):
            return False
        if stored is not None and name not in body["commitments"]:
            return False
    return True


def words_of(decision: Decision) -> dict[str, Any]:
    """Return what an entry commits to: what may run, message, answer; None where there is none."""
    at, action = decision.action.position, decision.action
    runs_with = {"approve": action.args, "edit": decision.args}.get(decision.verdict)
    return {f"arguments.{at}": runs_with, f"message.{at}": decision.message, f"value.{at}": decision.value}


def may_run(verdict: str) -> bool:
    """Say whether a verdict lets a call run; only then has its decision a digest of arguments."""
    return verdict in ("approve", "edit")


def _decided_twice() -> list[Fault]:
    decided = AuditEntry.objects.filter(kind=Kind.DECIDED)
    logged = decided.values("interrupt").annotate(times=Count("seq"), last=Max("seq"))
    return [
        Fault(row["last"], "entry", f"Interrupt {row['interrupt']} was decided {row['times']} times in the log.")
        for row in logged.filter(times__gt=1).order_by("last")[:MAX_FAULTS]
    ]


def _without_entry() -> list[Fault]:
    logged = AuditEntry.objects.filter(kind=Kind.DECIDED, interrupt=OuterRef("action__interrupt"))
    missing = Decision.objects.filter(~Exists(logged)).order_by("pk").values_list("pk", flat=True)[:MAX_FAULTS]
    return [Fault(None, "decision", f"The decision on action row {pk} has no entry.") for pk in missing]
