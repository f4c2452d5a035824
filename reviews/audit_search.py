"""Which entries of the audit log a person may read, and which of them a search finds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.utils import timezone

from reviews import diffs
from reviews.chain import Kind, link
from reviews.diffs import Change
from reviews.models import AuditEntry, Decision, Grant, Role, names_for


def readable_by(user: Any) -> QuerySet[AuditEntry]:
    """Return the entries of the agents whose auditor ``user`` is; an auditor of all reads those of no agent too."""
    rows = AuditEntry.objects.all()
    if user.is_superuser:
        return rows
    own = Q(agent__in=names_for(user, Role.AUDITOR))
    everywhere = Grant.objects.filter(group__user=user.pk, role=Role.AUDITOR, agent__isnull=True)
    return rows.filter(own | Q(agent__isnull=True) if everywhere.exists() else own)


@dataclass(frozen=True)
class Search:
    """What the address of the log asks for; the names of the fields are the only keys it knows."""

    q: str = ""
    who: str = ""
    verdict: str = ""
    kind: str = ""
    agent: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Search:
        return cls(**{one.name: query.get(one.name, "").strip()[:200].replace("\x00", "") for one in fields(cls)})

    def address(self, **changes: str) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self)} | changes
        return "?" + urlencode({name: value for name, value in values.items() if value})

    @property
    def is_narrow(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))


def found(user: Any, search: Search) -> QuerySet[AuditEntry]:
    """Return the entries that ``user`` may read and ``search`` lets through. An unreadable day hides nothing."""
    rows = readable_by(user).select_related("user", "agent", "thread", "interrupt")
    exact = {"actor": search.who, "verdict": search.verdict, "kind": search.kind, "agent": search.agent}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if start := _midnight(search.since):
        rows = rows.filter(at__gte=start)
    if end := _midnight(search.until):
        rows = rows.filter(at__lt=end + timedelta(days=1))
    if search.q:
        words = Q(thread=search.q) | Q(interrupt__title__icontains=search.q) | Q(interrupt__tools__icontains=search.q)
        if search.q.isascii() and search.q.isdigit():
            words |= Q(pk=int(search.q[:18]))
        rows = rows.filter(words | Q(thread__title__icontains=search.q))
    return rows


def _midnight(day: str) -> datetime | None:
    try:
        return timezone.make_aware(datetime.combine(date.fromisoformat(day), time()))
    except ValueError:
        return None


@dataclass(frozen=True)
class Place:
    """An entry between its neighbours, and what holds there. ``before`` and ``after`` are None at the ends."""

    entry: AuditEntry
    body: dict[str, Any]
    before: AuditEntry | None
    after: AuditEntry | None

    @property
    def hash_holds(self) -> bool:
        return link(self.entry.previous, self.entry.body) == self.entry.hash

    @property
    def before_holds(self) -> bool:
        return self.before.hash == self.entry.previous if self.before else self.entry.seq == 1

    @property
    def after_holds(self) -> bool:
        return self.after is None or self.after.previous == self.entry.hash

    @property
    def calls(self) -> list[dict[str, Any]]:
        return list(self.body.get("calls", []))


def place_of(entry: AuditEntry) -> Place:
    """Look at an entry where it stands in the chain. A body that is broken has no words."""
    neighbours = {one.seq: one for one in AuditEntry.objects.filter(seq__in=[entry.seq - 1, entry.seq + 1])}
    return Place(entry, body_of(entry), neighbours.get(entry.seq - 1), neighbours.get(entry.seq + 1))


def changes_in(entries: Iterable[AuditEntry]) -> dict[int, list[Change]]:
    """Map the number of each entry that recorded an edit to what the person changed."""
    recorded = {one.interrupt_id: one.seq for one in entries if one.kind == Kind.DECIDED and one.interrupt_id}
    rows = Decision.objects.filter(action__interrupt__in=recorded, verdict="edit").select_related("action")
    found: dict[int, list[Change]] = {}
    for row in rows.order_by("action__position"):
        changes = diffs.changes(row.action.args, row.args)
        found.setdefault(recorded[row.action.interrupt_id], []).extend(changes)
    return found


def body_of(entry: AuditEntry) -> dict[str, Any]:
    try:
        body = json.loads(entry.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
