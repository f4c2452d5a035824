"""What a person may do, in words."""

from __future__ import annotations

from typing import Any

from reviews.models import Role, granted_to

ADMINISTRATOR = "administrator"
_ORDER = (Role.REVIEWER, Role.OPERATOR, Role.AUDITOR)


def name_of(user: Any) -> str:
    """Name a person: initials where both names are known, else the user name."""
    if user is None:
        return "nobody"
    first, last = user.first_name.strip(), user.last_name.strip()
    return f"{first[0]}. {last[0]}." if first and last else str(user.get_username())


def roles_of(user: Any, agent: str | None = None) -> list[str]:
    """Return the roles of ``user``, the most acting first; with ``agent``, only those that reach this agent."""
    if not user.is_authenticated or not user.is_active:
        return []
    if user.is_superuser:
        return [ADMINISTRATOR]
    granted = granted_to(user)
    return [role.value for role in _ORDER if role in granted and (agent is None or agent in granted[role])]
