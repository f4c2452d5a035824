"""What every page of the desk shows: its icons, its bar, ages in words, people by their names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.statements import select
from reviews import inbox, looks, status, values
from reviews.diffs import word_diff
from reviews.inbox import Filters
from reviews.models import Role
from reviews.people import name_of, roles_of
from reviews.reveal import reveal, reveal_value
from reviews.strict_json import same

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86400

VERDICTS = {
    "approve": ("check", "approved"),
    "edit": ("pencil", "approved, edited"),
    "reject": ("cross", "rejected"),
    "respond": ("reply", "responded"),
}


@dataclass(frozen=True)
class Bar:
    """What the bar of a signed-in person shows; `theme` is "", "light" or "dark"."""

    open_count: int
    role: str
    theme: str
    letters: bool
    reads_audit: bool
    sees_queue: bool
    banner: str
    is_administrator: bool


@register.simple_tag(takes_context=True)
def bar(context: dict[str, Any]) -> Bar | None:
    """Return the bar of whoever asks, or None for somebody who has not signed in."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return None
    preferred = select("select theme, letters from reviews_preference where user_id = %s", [user.pk])
    theme, letters = preferred[0] if preferred else ("", True)
    roles = roles_of(user)
    return Bar(
        open_count=inbox.open_count(user) if (counted := context.get("open_total")) is None else counted,
        role=roles[0] if roles else "no role yet",
        theme=theme,
        letters=bool(letters),
        reads_audit=user.is_superuser or Role.AUDITOR in roles,
        sees_queue=status.may_look(user),
        banner=status.banner(),
        is_administrator=user.is_superuser,
    )


@register.simple_tag(takes_context=True)
def within(context: dict[str, Any], **more: object) -> str:
    """Return the query string of a link to a question: ``more``, and the filters of the list that it is opened from."""
    return Filters.read(context["request"].GET).along(**more)


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.inclusion_tag("_verdict.html")
def verdict(name: str, *, differs: bool = False) -> dict[str, Any]:
    """Show a verdict as icon and word. It is ink, whichever it is: a person's hand."""
    picture, word = VERDICTS.get(name, ("question", name))
    return {"icon": picture, "word": word, "differs": differs}


@register.filter
def verdict_word(name: str) -> str:
    return VERDICTS.get(name, ("", name))[1]


@register.filter
def verdict_icon(name: str) -> str:
    return VERDICTS.get(name, ("question", ""))[0]


@register.filter
def age(since: datetime | None) -> str:
    """Say in words how long ago ``since`` was: "41 s", "9 min", "2 h 14 min", "3 days 4 h"."""
    if since is None:
        return ""
    return duration((timezone.now() - since).total_seconds())


@register.filter
def between(start: datetime | None, end: datetime | None) -> str:
    return duration((end - start).total_seconds()) if start and end else ""


def duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    days, hours = whole // DAY, whole % DAY // HOUR
    return f"{days} day{'' if days == 1 else 's'} {hours} h"


@register.filter
def iso_age(since: datetime | None) -> str:
    """Write the age of ``since`` as an ISO 8601 duration in minutes, for ``<time datetime>``."""
    minutes = int((timezone.now() - since).total_seconds() // MINUTE) if since else 0
    return f"PT{max(0, minutes)}M"


@register.filter
def ticking(since: datetime | None) -> SafeString:
    """Show how long ago ``since`` was, with the exact time beside; ``clock.js`` lets it grow on an open page."""
    if since is None:
        return SafeString("")
    return format_html(
        '<time datetime="{}" data-since="{}">{}</time>', since.isoformat(), int(since.timestamp()), age(since)
    )


@register.filter
def unix(when: datetime) -> int:
    return int(when.timestamp())


@register.filter
def is_late(since: datetime | None) -> bool:
    """Say whether something has waited for an hour or more; until questions have a due time, that is late."""
    return since is not None and timezone.now() - since >= timedelta(hours=1)


register.filter("person", name_of)
register.filter("lookers", looks.names)
register.filter("looking_words", looks.words)


@register.filter
def bytes_size(count: int) -> str:
    """Write a count of bytes as people do: "118 bytes", "64 kB", "5.2 MB"."""
    if count < 1_000:
        return f"{count} byte{'' if count == 1 else 's'}"
    if count < 1_000_000:
        return f"{count / 1_000:.0f} kB" if count >= 10_000 else f"{count / 1_000:.1f} kB"
    return f"{count / 1_000_000:.1f} MB"


@register.filter
def short_digest(digest: str) -> str:
    """Shorten a hash to both of its ends: "9f2c 41d8 … 77ab"."""
    return f"{digest[:4]} {digest[4:8]} … {digest[-4:]}" if len(digest) > 12 else digest


@register.filter
def clock(when: datetime | None) -> str:
    """Write a time to the second, with its date when it was not today."""
    if when is None:
        return ""
    local = timezone.localtime(when)
    today = timezone.localdate()
    return local.strftime("%H:%M:%S") if local.date() == today else local.strftime("%-d %b %Y, %H:%M:%S")


@register.filter
def moment(when: datetime | None) -> SafeString:
    """Show a time as ``clock`` does, exact for machines."""
    if when is None:
        return SafeString("")
    return format_html('<time datetime="{}">{}</time>', timezone.localtime(when).isoformat(), clock(when))


@register.filter
def tool_names(tools: str) -> str:
    """Name the first tool of a stored list and count the rest: "run_sql +4"."""
    names = tools.split()
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else " ".join(names)


@register.filter
def first_line(text: object) -> str:
    return str(text).partition("\n")[0]


@register.filter
def rest_lines(text: object) -> str:
    return str(text).partition("\n")[2]


# ---------------------------------------------------------------------------------------- what others wrote, and values


@register.filter
def shown(text: object) -> SafeString:
    """Show text of somebody else: escaped, with what is hidden in it made visible."""
    return reveal(str(text), limit=values.BLOCK)


@register.filter
def preview(value: Any) -> SafeString:
    """Show the beginning of a value, with the size of all of it where it is cut."""
    return _seen(value, limit=values.PREVIEW)


@register.filter
def whole(value: Any) -> SafeString:
    return _seen(value, limit=None)


def _seen(value: Any, *, limit: int | None) -> SafeString:
    if isinstance(value, str):
        return reveal(values.written(value), limit=limit)
    return reveal_value(value, limit=limit)


@register.filter
def is_cut(value: Any) -> bool:
    return values.size_of(value) > values.PREVIEW


@register.filter
def value_size(value: Any) -> int:
    return values.size_of(value)


@register.filter
def shown_line(value: Any, most: int = values.LINE) -> SafeString:
    """Show a value on one line, cut where it is long."""
    return reveal(values.one_line(value, most=most))


@register.filter
def shown_block(value: Any) -> SafeString:
    return reveal_value(value, limit=values.BLOCK)


_TAGS = {"same": "{}", "minus": "<del>{}</del>", "plus": "<ins>{}</ins>"}


@register.simple_tag
def change(old: Any, new: Any) -> SafeString:
    """Show what was asked and what a person made of it; of long texts the words that differ, with some around them."""
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > values.LINE:
        return format_html_join("", "{}", ((_piece(op, text),) for op, text in word_diff(old, new)))
    was = reveal(values.one_line(old, most=values.CHANGE))
    return format_html("<del>{}</del> <ins>{}</ins>", was, reveal(values.one_line(new, most=values.CHANGE)))


def _piece(op: str, text: str) -> SafeString:
    shortened = values.shortened(text, around=values.AROUND) if op == "same" else text
    return format_html(_TAGS[op], reveal(shortened, limit=values.PREVIEW))


@register.filter
def in_order_of(args: Any, other: Any) -> Any:
    """Return arguments in the order of others: canonical bytes are sorted, people know the agent's own order."""
    if not isinstance(args, dict) or not isinstance(other, dict):
        return args
    return {name: args[name] for name in [*other, *args] if name in args}


@register.filter
def is_map(value: Any) -> bool:
    return isinstance(value, dict)


@register.filter
def item(holder: Any, name: Any) -> Any:
    """Return what ``holder`` has under ``name``; "" where it has nothing."""
    return holder.get(name, "") if isinstance(holder, dict) else ""


@register.simple_tag
def same_item(value: Any, holder: Any, name: Any) -> bool:
    """Say whether ``holder`` has the very ``value`` under ``name``."""
    return isinstance(holder, dict) and name in holder and same(value, holder[name])


@register.filter
def verb_word(name: str) -> str:
    """Name what a reviewer marked, in the imperative."""
    words = {"approve": "Approve", "edit": "Approve, edited", "reject": "Reject", "respond": "Respond"}
    return words.get(name, "Undecided")


@register.filter
def iso_clock(moment: str) -> str:
    """Write an ISO 8601 time as ``clock`` does."""
    return clock(datetime.fromisoformat(moment))
