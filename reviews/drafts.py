"""What a person typed and has not sent: one row for each person and action, kept until the question is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.http import QueryDict
from django.urls import Resolver404, resolve
from django.utils import timezone

from agents.compiled import Compiled
from reviews.models import Action, Draft, Interrupt

MOST = 400_000  # characters of one draft; longer values are shown, not put into inputs


def own_names(action: Action) -> tuple[str, str]:
    """Return how the fields of an action begin: those of its arguments, and those of its verbs."""
    return f"i{action.interrupt_id}-{action.position}", f"d{action.interrupt_id}-{action.position}"


def own_fields(action: Action, posted: QueryDict | Mapping[str, list[str]]) -> QueryDict:
    """Return the fields that belong to ``action``, so that nothing else of a request is stored."""
    fields = QueryDict(mutable=True)
    starts = tuple(f"{name}-" for name in own_names(action))
    for name in posted:
        if name.startswith(starts):
            fields.setlist(name, posted.getlist(name) if isinstance(posted, QueryDict) else posted[name])
    return fields


def fields_of(draft: Draft | None) -> QueryDict | None:
    """Return what was typed, as a request would bring it; None where nothing was."""
    return own_fields(draft.action, draft.data or {}) if draft else None


def of(user: Any, actions: Iterable[Action]) -> dict[int, Draft]:
    """Return the drafts of ``user``, by the key of their action."""
    return {draft.action_id: draft for draft in _OF(user.pk, [action.pk for action in actions])}


_OF = Compiled(lambda user, actions: Draft.objects.filter(user=user, action__any_of=actions))


def keep(user: Any, action: Action, fields: QueryDict, *, verdict: str | None = None) -> Draft | None:
    """Store what was typed. ``verdict`` None: only typed; then a mark stays while nothing changed, and goes otherwise.

    Returns None, and stores nothing, when it is more than a draft may be.
    """
    data = {name: fields.getlist(name) for name in fields}
    if sum(len(text) for texts in data.values() for text in texts) > MOST:
        return None
    with transaction.atomic():
        old = Draft.objects.select_for_update().filter(user=user, action=action).first()
        if verdict is None:
            verdict = old.verdict if old and old.data == data else ""
        values = {"data": data, "verdict": verdict, "updated_at": timezone.now()}
        draft, _ = Draft.objects.update_or_create(user=user, action=action, defaults=values)
    return draft


def clear(user: Any, interrupt: Interrupt) -> None:
    Draft.objects.filter(user=user, action__interrupt=interrupt).delete()


def keep_sealed(user: Any, path: str, fields: QueryDict) -> bool:
    """Give back what was typed at ``path`` before a session ended. False where that page keeps no drafts."""
    try:
        place = resolve(path)
    except Resolver404:
        return False
    if place.view_name not in ("reviews:interrupt", "reviews:draft"):
        return False
    interrupt = Interrupt.objects.decidable_by(user).open().filter(pk=place.kwargs["pk"]).first()
    for action in interrupt.actions.all() if interrupt else ():
        typed = own_fields(action, fields)
        if typed:
            keep(user, action, typed)
    return interrupt is not None
