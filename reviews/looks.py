"""Who has which question open. A mark tells others, and reserves nothing: the compare-and-set of a decision decides.

Opening a question's page leaves a mark for SECONDS, and takes away those that the same person left elsewhere; a page in
sight renews its own. Only who may decide leaves one: that a reader looks is no reason for a reviewer to pass on.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from reviews import live
from reviews.models import Interrupt, Look
from reviews.people import name_of

SECONDS = 120


def arrive(user: Any, interrupts: Collection[Interrupt]) -> None:
    """Mark that ``user`` opened these questions, of one pause, and no longer looks at others."""
    left = Look.objects.filter(user=user).exclude(interrupt__in=interrupts).select_related("interrupt")
    with transaction.atomic():
        for look in left.defer("interrupt__value"):
            look.delete()
            _tell(look.interrupt)
        stay(user, interrupts)


def stay(user: Any, interrupts: Collection[Interrupt]) -> None:
    """Mark that ``user`` still looks at those of ``interrupts`` that wait for a decision of theirs."""
    waiting = Interrupt.objects.decidable_by(user).open().filter(pk__in=[row.pk for row in interrupts])
    with transaction.atomic():
        seen = set(Look.objects.visible_to(user).filter(user=user).values_list("interrupt_id", flat=True))
        rows = list(waiting.only("pk", "agent"))
        marks = [Look(interrupt=row, user=user, until=Now() + timedelta(seconds=SECONDS)) for row in rows]
        Look.objects.bulk_create(
            marks, update_conflicts=True, unique_fields=["interrupt", "user"], update_fields=["until"]
        )
        for row in rows:
            if row.pk not in seen:
                _tell(row)


def _tell(row: Interrupt) -> None:
    live.publish_on_commit(f"look-{row.pk}", agent=row.agent_id)


def of_others(user: Any, interrupts: Collection[Interrupt]) -> dict[int, list[Look]]:
    """Return who else looks at what: key of the interrupt -> marks, the one that ends first in front."""
    if not interrupts:
        return {}
    marks = Look.objects.visible_to(user).filter(interrupt__in=[row.pk for row in interrupts]).exclude(user=user)
    found: dict[int, list[Look]] = {}
    for look in marks.select_related("user").order_by("until", "pk"):
        found.setdefault(look.interrupt_id, []).append(look)
    return found


def by_others(user: Any) -> Exists:
    """Match interrupts that somebody else looks at now."""
    return Exists(Look.objects.filter(interrupt=OuterRef("pk"), until__gt=Now()).exclude(user=user))


def names(looks: Collection[Look]) -> list[str]:
    """Return who looks, each once."""
    return list(dict.fromkeys(name_of(look.user) for look in looks))


def words(looks: Collection[Look]) -> str:
    """Say who looks: "ben is looking at this", "ben and 2 others are looking at this", "nobody else looks"."""
    match names(looks):
        case []:
            return "nobody else looks"
        case [one]:
            return f"{one} is looking at this"
        case [first, *others]:
            return f"{first} and {len(others)} other{'' if len(others) == 1 else 's'} are looking at this"
    raise AssertionError
