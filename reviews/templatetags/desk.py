"""Filters for what agents and outsiders wrote, and for whose it is: ``{% load desk %}``.

The markup comes from reviews.reveal and is safe as explained there; nothing is marked safe here.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from reviews import reveal as seen
from reviews.templatetags import page

register = template.Library()
register.simple_tag(page.icon, name="icon")

_PARTS = re.compile(r"[^\W\d_]+")


@register.filter
def reveal(text: object, limit: int | None = None) -> SafeString:
    """Show untrusted text; ``{{ text|reveal:65536 }}`` shows its first 64 kB."""
    return seen.reveal(str(text), limit=limit)


@register.filter
def reveal_value(value: Any, limit: int | None = None) -> SafeString:
    """Show any value with its types, inside a ``pre``."""
    return seen.reveal_value(value, limit=limit)


@register.filter
def words(text: object) -> SafeString:
    """Show an agent's own words, which may be markdown."""
    return seen.words(str(text))


@register.filter
def age(since: datetime | timedelta | None) -> str:
    """Write an age, or the time since a moment: "41 s", "9 min", "2 h 14 min"."""
    if since is None:
        return ""
    passed = since if isinstance(since, timedelta) else timezone.now() - since
    return page.duration(passed.total_seconds())


@register.filter
def initials(user: Any) -> str:
    """Write the initials of a person: "A. R."; of a user without a name, those of the user name's parts."""
    names = [user.first_name, user.last_name] if user.first_name or user.last_name else []
    parts = [name.strip() for name in names if name.strip()] or _PARTS.findall(user.get_username())
    return " ".join(f"{part[0].upper()}." for part in parts[:2]) or "?"
