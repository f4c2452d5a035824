"""Who has which question open. A mark tells others, and reserves nothing: the compare-and-set of a decision decides.

Opening a question's page leaves a mark for SECONDS, and takes away those that the same person left elsewhere; a page in
sight renews its own. Only who may decide leaves one: that a reader looks is no reason for a reviewer to pass on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from agents.compiled import Compiled, CompiledDelete
from agents.statements import select
from reviews import live
from reviews.models import Interrupt, Look, Role, names_for
from reviews.people import name_of

SECONDS = 120


_OWN: Compiled[Any] = Compiled(
    lambda user: (
        Look.objects.filter(user=user)
        .annotate(lives=Q(until__gt=Now()))
        .values_list("interrupt", "interrupt__agent", "lives")
    )
)
_LEAVE = CompiledDelete(lambda user, interrupts: Look.objects.filter(user=user, interrupt__any_of=interrupts))
_OTHERS = Compiled(
    lambda user, agents, interrupts: (
        Look.objects.filter(interrupt__agent__any_of=agents, until__gt=Now(), interrupt__any_of=interrupts)
        .exclude(user=user)
        .select_related("user")
        .order_by("until", "pk")
    )
)
# By hand, because the ORM cannot say it: what waits for a decision is looked up by the statement that marks it.
_MARK = """
insert into reviews_look (interrupt_id, user_id, until)
select id, %s, $until from reviews_interrupt where id = any(%s) and status = 'open' and agent_id = any(%s) order by id
on conflict (interrupt_id, user_id) do update set until = excluded.until
returning interrupt_id
"""
_UNTIL = {
    "postgresql": f"statement_timestamp() + interval '{SECONDS} seconds'",
    "sqlite": f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+{SECONDS} seconds')",
}


def arrive(user: Any, interrupts: Collection[Interrupt]) -> None:
    """Mark that ``user`` opened these questions, of one pause, and no longer looks at others."""
    own, here = _OWN(user.pk), {row.pk for row in interrupts}
    if left := {pk: agent for pk, agent, _ in own if pk not in here}:
        _LEAVE(user.pk, list(left))
        for pk, agent in left.items():
            _tell(pk, agent)
    _mark(user, interrupts, seen={pk for pk, _, lives in own if lives})


def stay(user: Any, interrupts: Collection[Interrupt]) -> None:
    """Mark that ``user`` still looks at those of ``interrupts`` that wait for a decision of theirs."""
    _mark(user, interrupts, seen={pk for pk, _, lives in _OWN(user.pk) if lives})


def _mark(user: Any, interrupts: Collection[Interrupt], *, seen: Collection[int]) -> None:
    agents = {row.pk: row.agent_id for row in interrupts}
    marked = select(
        _MARK.replace("$until", _UNTIL[connection.vendor]), [user.pk, list(agents), names_for(user, Role.REVIEWER)]
    )
    for (pk,) in marked:
        if pk not in seen:
            _tell(pk, agents[pk])


def _tell(pk: int, agent: str) -> None:
    live.publish_on_commit(f"look-{pk}", agent=agent)


def of_others(user: Any, interrupts: Collection[Interrupt]) -> dict[int, list[Look]]:
    """Return who else looks at what: key of the interrupt -> marks, the one that ends first in front."""
    found: dict[int, list[Look]] = {}
    for look in _OTHERS(user.pk, names_for(user), [row.pk for row in interrupts]) if interrupts else ():
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
