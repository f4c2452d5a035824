"""Filters for pages that go back in time: distances, and the two sides of a difference. ``{% load travel %}``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from reviews import values
from reviews.diffs import Change, Piece
from reviews.reveal import reveal
from reviews.templatetags.page import duration, icon, moment, shown
from reviews.timeline import Line, Mark
from reviews.tracks import HEIGHT, MIDDLE, Stroke, Track

register = template.Library()

_NOTHING = SafeString("")
_DOT = SafeString('<span class="dot"></span>')
_SHOWN = 4_000  # bytes of one side
_LONG = 400  # characters of a text whose unchanged parts are shortened


@register.filter
def distance(passed: timedelta | None) -> str:
    """Write the time between two steps: "+40 ms", "+1.2 s", "+9 min"."""
    if passed is None:
        return ""
    seconds = max(0.0, passed.total_seconds())
    if seconds < 1:
        return f"+{seconds * 1000:.0f} ms"
    return f"+{seconds:.1f} s" if seconds < 10 else f"+{duration(seconds)}"


@register.filter
def short_id(checkpoint_id: str) -> str:
    """Shorten a checkpoint id to both of its ends. Their beginnings are times, and close ones look the same."""
    return f"{checkpoint_id[:4]}…{checkpoint_id[-3:]}" if len(checkpoint_id) > 9 else checkpoint_id


@register.filter
def old_side(change: Change) -> SafeString:
    """Show what was there before, the words that went marked."""
    return _side(change, "minus") if _by_words(change) else _whole(change.old)


@register.filter
def new_side(change: Change) -> SafeString:
    """Show what is there now, the words that came marked."""
    return _side(change, "plus") if _by_words(change) else _whole(change.new)


def _by_words(change: Change) -> bool:
    return change.kind == "changed" and isinstance(change.old, str) and isinstance(change.new, str)


def _whole(value: object) -> SafeString:
    return reveal(values.written(value), limit=_SHOWN)


def _side(change: Change, side: str) -> SafeString:
    long = max(len(change.old), len(change.new)) > _LONG
    pieces: Iterable[Piece] = [piece for piece in change.words if piece[0] in ("same", side)]
    return format_html_join("", "{}", ((_piece(op, text, long=long),) for op, text in pieces))


def _piece(op: str, text: str, *, long: bool) -> SafeString:
    if op == "same":
        return reveal(values.shortened(text, around=values.AROUND) if long else text)
    return format_html("<mark>{}</mark>", reveal(text, limit=_SHOWN))


@register.filter
def namespace_words(namespace: str) -> str:
    """Write a namespace as the way into the graphs, without the ids of tasks."""
    return " › ".join(part.partition(":")[0] for part in namespace.split("|") if not part.isdigit())


@register.filter
def said_by(part: Change, who: str) -> SafeString:
    """Name a line of a difference: who said it, and which part of the message it is when it is not its text."""
    return format_html("{}", who) if part.name == "text" else format_html("{} {}", who, shown(part.name))


@register.filter
def as_query(namespace: str) -> str:
    """Write the query that leads into a namespace: "?ns=…"; nothing for the outermost graph."""
    return f"?{urlencode({'ns': namespace})}" if namespace else ""


@register.simple_tag
def chip(mark: Mark) -> SafeString:
    """Show what became of a step or a question: a dot where it waits, else its picture; then the words."""
    picture = _DOT if mark.tone == "wait" else icon(mark.icon) if mark.icon else ""
    tone = format_html(' data-tone="{}"', mark.tone) if mark.tone else ""
    return format_html('<span class="chip"{}>{}{}</span>', tone, picture, mark.words)


_STEP = """<li{}>
{}<span class="num"><span class="visually-hidden">step </span>{}</span>
<span class="what"><a href="{}{}/{}"{}>{}{}</a> <small>{}</small></span>
<span class="marks">{}</span>
</li>"""


@register.simple_tag(takes_context=True)
def step_row(context: dict[str, Any], line: Line) -> SafeString:
    """Show one step of a timeline. As a template, fifty of them took half of the time of a page."""
    step = line.step
    here = step.point.checkpoint_id == context.get("chosen")
    return format_html(
        _STEP,
        SafeString(" data-here") if here else _NOTHING,
        _drawing(line.track, line.track.strokes, line.dot, line.is_start, here),
        "?" if step.step is None else step.step,
        context["steps_at"],
        quote(step.point.checkpoint_id),
        context["query"],
        SafeString(' aria-current="true"') if here else _NOTHING,
        shown(line.title),
        format_html(' <span class="tool">{}</span>', shown(line.name)) if line.name else _NOTHING,
        format_html_join(" · ", "{}", ((fact,) for fact in _facts(line))),
        format_html_join("", "{}", ((mark,) for mark in _marks(line))),
    )


def _facts(line: Line) -> Iterator[str]:
    """Tell of a step what its title does not."""
    step = line.step
    if step.source != "loop":
        if line.title != "Input":
            yield step.source
    elif line.title and step.nodes[:1] != ("__start__",):
        yield shown(", ".join(step.nodes))
    yield moment(step.at)
    if step.elapsed is not None:
        yield distance(step.elapsed)
    if step.messages is not None:
        yield f"{step.messages} message{'' if step.messages == 1 else 's'}"


def _marks(line: Line) -> Iterator[SafeString]:
    for label in line.labels:
        yield chip(Mark("ink", shown(label.name), "label"))
    for mark in line.marks:
        yield chip(mark)
    if line.step.failed:
        yield chip(Mark("red", "failed", "warn"))
    if line.step.left:
        yield chip(Mark("ink", f"branch {line.step.branch}", "fork"))
    if line.step.is_head:
        yield chip(Mark("", "head"))


@register.simple_tag
def drawing(line: Line, chosen: str = "") -> SafeString:
    """Draw the row of a step: the lines that pass it, and its dot, with a ring around the chosen one's."""
    here = line.step.point.checkpoint_id == chosen
    return _drawing(line.track, line.track.strokes, line.dot, line.is_start, here)


@register.simple_tag
def passing(track: Track) -> SafeString:
    """Draw the lines that pass what folds out below a row."""
    return _drawing(track, track.passing)


@lru_cache(maxsize=512)  # most rows of a timeline are drawn alike
def _drawing(
    track: Track, strokes: tuple[Stroke, ...], dot: str | None = None, is_start: bool = False, here: bool = False
) -> SafeString:
    at = f"M{track.x} {MIDDLE}h.01"
    paths: list[tuple[str, str]] = [(stroke.ink, stroke.path) for stroke in strokes]
    paths += [("here", at), ("gap", at)] if here else []
    paths += [(f"dot-o {dot}".strip(), at)] if dot is not None else []
    paths += [("dot-i", at)] if is_start else []
    return format_html(
        '<svg class="track" width="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>',
        track.width,
        track.width,
        HEIGHT,
        format_html_join("", '<path class="{}" d="{}"/>', paths),
    )


@register.filter
def rows_high(count: int) -> int:
    """Return the height of so many rows in the units of a drawing."""
    return count * HEIGHT


@register.simple_tag(takes_context=True)
def set_query(context: dict[str, Any], **changes: str) -> SafeString:
    """Write the query of this page with some parts of it changed; "" takes a part away."""
    request = context["request"]
    kept = {name: request.GET.get(name, "") for name in ("ns", "before", "show", "with")} | changes
    query = urlencode({name: value for name, value in kept.items() if value})
    return format_html("{}", f"?{query}" if query else "")
