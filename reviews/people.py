"""What a person may do, in words."""

from __future__ import annotations

from typing import Any

from reviews.models import Grant, Role

ADMINISTRATOR = "administrator"
_ORDER = (Role.REVIEWER, Role.OPERATOR, Role.AUDITOR)


def roles_of(user: Any, agent: str | None = None) -> list[str]:
    """Return the roles of ``user``, the most acting first; with ``agent``, only those that reach this agent."""
    if not user.is_authenticated or not user.is_active:
        return []
    if user.is_superuser:
        return [ADMINISTRATOR]
    grants = Grant.objects.filter(group__user=user)
    if agent is not None:
        grants = grants.filter(agent__isnull=True) | grants.filter(agent=agent)
    held = set(grants.values_list("role", flat=True))
    return [role.value for role in _ORDER if role in held]
