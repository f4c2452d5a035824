"""What a reviewer sees of untrusted text: all of it escaped, and nothing in it hidden.

Everything here that is marked safe was built by ``format_html`` or by ``escape`` from the pieces of the text; no piece
of it reaches the page in another way. Each function is linear in its input, and a ``limit`` bounds its output too.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape, unescape
from itertools import islice
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from agents.outcome import NotCanonical, canonical_bytes
from reviews.hidden import Hidden, hidden_runs
from reviews.hosts import find_hosts
from reviews.outline import Role, outline
from reviews.texts import Path, spelled, texts_in

BLANKS = 8  # that many blanks or line ends in a row are counted instead of shown
INDENT = 32  # blanks at the beginning of a line that are an indentation and nothing to count
CHIP_BYTES = 200  # about what one chip adds to the page

_BLANKS = re.compile(rf"[ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]{{{BLANKS},}}+|(?:\r\n|\r|\n){{{BLANKS},}}+")
_TAG = re.compile("<[^>]*>")  # in markup of our own, whose attributes hold no ">"
_MEANINGS = {
    "bidi": "It turns the reading direction, so the text can look like something else.",
    "zero_width": "It takes no room, so two texts can look the same and differ.",
    "blank": "It looks like a blank and is a letter.",
    "tag": "It is an invisible letter: a reader does not see it, a model does.",
    "control": "It controls a terminal or ends a text early, and is not shown by itself.",
    "variation": "It is invisible and can carry hidden data.",
    "surrogate": "It is half a character: no tool can read it as text.",
}
MAX_MARKDOWN = 20_000  # bytes; markdown has texts that take a parser long
MAX_WORDS = 64_000
MAX_CHIPS = 5  # different ones shown in one warning
MAX_COUNTED = 10_000  # runs of hidden characters, or hosts, counted in one text


# A place in a text and what stands there instead: (start, end, html). Where start is end, html is put in.
Spot = tuple[int, int, SafeString]


def reveal(text: str, *, limit: int | None = None) -> SafeString:
    """Show ``text`` with its hidden characters, long blanks and doubtful host names as chips.

    ``limit``: show at most about so many bytes, then how many there are in all.
    """
    shown, size = _cut(text, limit)
    pieces: list[str] = []
    end, room = 0, limit
    for start, stop, html in _spots(shown):
        pieces += [escape(shown[end:start]), html]
        end = stop
        if room is not None:
            room -= CHIP_BYTES
            if room < 0:  # nothing but chips: they take more room on the page than in the text
                return _safe([*pieces, _cut_note(size)])
    pieces.append(escape(shown[end:]))
    return _safe([*pieces, _cut_note(size)] if len(shown) < len(text) else pieces)


def _safe(pieces: list[str]) -> SafeString:
    # Safe: each piece is the result of escape() or format_html().
    return mark_safe("".join(pieces))  # noqa: S308


def _cut(text: str, limit: int | None) -> tuple[str, int]:
    """Return the beginning of ``text`` that fits into ``limit`` bytes, and the bytes of all of it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if limit is None or size <= limit:
        return text, size
    head = text[:limit].encode("utf-8", "surrogatepass")[:limit]
    for torn in range(4):  # bytes of a character that was cut in two
        with suppress(UnicodeDecodeError):
            return head[: len(head) - torn].decode("utf-8", "surrogatepass"), size
    return "", size


def _cut_note(size: int | None) -> SafeString:
    whole = "more follows" if size is None else f"{size_words(size)} in all"
    return format_html('<span class="cut">… cut here, {}</span>', whole)


def size_words(size: int) -> str:
    """Write a size: "118 bytes", "4.2 kB", "5.2 MB"."""
    if size < 1000:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    number, unit = (size / 1000, "kB") if size < 1_000_000 else (size / 1_000_000, "MB")
    return f"{number:.1f} {unit}"


# ---------------------------------------------------------------------------------------------------------------- chips


def _spots(text: str) -> Iterator[Spot]:
    """Yield what to put into ``text``, in order and without overlaps."""
    end = 0
    for spot in heapq.merge(_hidden_spots(text), _blank_spots(text), _host_spots(text)):
        if spot[0] >= end:
            yield spot
            end = spot[1]


def _hidden_spots(text: str) -> Iterator[Spot]:
    for first, count in hidden_runs(text):
        yield first.index, first.index + count, hidden_chip(first.label, first.name, count)


@lru_cache(maxsize=1024)
def hidden_chip(label: str, name: str, count: int = 1) -> SafeString:
    """Show one hidden character, or ``count`` equal ones in a row."""
    return format_html(
        '<span class="cp" title="{}"><span class="visually-hidden">hidden character </span>{}{}</span>',
        name.lower(),
        label,
        f" ×{count}" if count > 1 else "",
    )


def _blank_spots(text: str) -> Iterator[Spot]:
    for match in _BLANKS.finditer(text):
        run = match.group()
        if run[0] in "\r\n":
            count, noun = run.count("\n") + run.count("\r") - run.count("\r\n"), "line ends"
        elif _is_indentation(text, match):
            continue
        else:
            count, noun = len(run), "blanks"
        yield match.start(), match.end(), _count_chip(count, noun)


@lru_cache(maxsize=1024)
def _count_chip(count: int, noun: str) -> SafeString:
    return format_html('<span class="cp" title="{1} in a row">{0} {1}</span>', count, noun)


def _is_indentation(text: str, match: re.Match[str]) -> bool:
    first = match.start() == 0 or text[match.start() - 1] in "\r\n"
    followed = match.end() < len(text) and text[match.end()] not in "\r\n"
    return first and followed and match.start() > 0 and len(match.group()) <= INDENT


def _host_spots(text: str) -> Iterator[Spot]:
    for host in find_hosts(text):
        yield host.end, host.end, host_chip(host.other, host.scripts)


@lru_cache(maxsize=256)
def host_chip(other: str, scripts: tuple[str, ...]) -> SafeString:
    """Show the other spelling of a host name beside it, and which scripts it mixes."""
    title = f"mixes {' and '.join(scripts)} letters" if scripts else "the same host name, spelled otherwise"
    return format_html(
        ' <span class="cp" title="{}"><span class="visually-hidden">host name </span>{}</span>', title, spelled(other)
    )


# --------------------------------------------------------------------------------------------------------------- values


def reveal_value(value: Any, *, limit: int | None = None, types: Mapping[str, str] | None = None) -> SafeString:
    """Show any value with its structure and types, as lines for a ``pre``. A text alone is shown as it is.

    ``types``: path -> type name, as Ask.types has it. ``limit``: as in reveal, over all texts together.
    """
    if isinstance(value, str):
        return reveal(value, limit=limit)
    pieces: list[str] = []
    room = limit
    for role, text in outline(value, types=types):
        html = _in_role(role, text, limit=room)
        pieces.append(html)
        if room is not None:
            room -= len(html)
            if room <= 0:
                return _safe([*pieces, _cut_note(_size_of(value))])
    return _safe(pieces)


def _in_role(role: Role, text: str, *, limit: int | None) -> str:
    match role:
        case "plain":
            return escape(text)
        case "text":
            return reveal(text, limit=limit)
        case "type":
            return format_html('<small class="type">{}</small> ', spelled(text))
        case "odd":
            return format_html('<span class="cp" title="a number that JSON cannot hold">{}</span>', text)


def _size_of(value: Any) -> int | None:
    try:
        return len(canonical_bytes(value))
    except NotCanonical:  # nested too deep, say: such a question is held, and nobody can decide on it
        return None


# ---------------------------------------------------------------------------------------------------------------- words


def words(text: str, *, limit: int = MAX_WORDS) -> SafeString:
    """Show the agent's own words: markdown without HTML, images or live links; a link's target stands beside it.

    A text over ``MAX_MARKDOWN`` bytes is shown as it is, its first ``limit`` bytes.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_MARKDOWN:
        return format_html('<p class="plain">{}</p>', reveal(text, limit=limit))
    # Safe: the renderer escapes what it writes itself, HTML is off, and every piece of text goes through reveal().
    rendered: str = _markdown().render(text)
    return mark_safe(rendered)  # noqa: S308


def shows_all(text: str) -> bool:
    """Say whether ``words`` shows each sign of ``text`` but blanks. Markup takes some away: ``**`` and ``&amp;``."""
    seen = unescape(_TAG.sub("", words(text)))
    return "".join(seen.split()) == "".join(text.split())


@cache
def _markdown() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).disable(["image", "html_block", "html_inline"])
    # The library's own step would turn NUL into a question mark and a lone carriage return into a line end.
    reader.core.ruler.at("normalize", _normalize)
    for name in (
        "text",
        "code_inline",
        "code_block",
        "fence",
        "link_open",
        "link_close",
        "heading_open",
        "heading_close",
    ):
        reader.add_render_rule(name, _RENDERERS[name])
    return reader


def _normalize(state: StateCore) -> None:
    state.src = state.src.replace("\r\n", "\n")


def _link_close(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Write a link's target behind its text, unless the text is the target."""
    depth = 0
    for place in range(index, -1, -1):
        depth += {"link_close": 1, "link_open": -1}.get(tokens[place].type, 0)
        if depth == 0:
            break
    target = str(tokens[place].attrGet("href") or "")
    said = "".join(token.content for token in tokens[place + 1 : index])
    return "" if target in (said, f"mailto:{said}") else f" <code>({reveal(target)})</code>"


def _renderer(before: str, after: str, *, content: bool = False) -> Callable[..., str]:
    def render(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return f"{before}{reveal(tokens[index].content) if content else ''}{after}"

    return render


_RENDERERS: dict[str, Callable[..., str]] = {
    "text": _renderer("", "", content=True),
    "code_inline": _renderer("<code>", "</code>", content=True),
    "code_block": _renderer("<pre><code>", "</code></pre>\n", content=True),
    "fence": _renderer("<pre><code>", "</code></pre>\n", content=True),
    "link_open": _renderer("", ""),
    "link_close": _link_close,
    # An agent's headline must not stand among the headings of the page.
    "heading_open": _renderer("<p><strong>", ""),
    "heading_close": _renderer("", "</strong></p>\n"),
}


# ------------------------------------------------------------------------------------------------------------- warnings


@dataclass(frozen=True)
class TextWarning:
    """Something to look at in one text. ``name``: the argument; ``path``: the place, as people write it."""

    name: str
    path: str
    count: int
    noun: str  # "hidden character", "doubtful host name"
    chips: tuple[SafeString, ...]  # one for each different character or host, at most MAX_CHIPS
    meaning: str


def warnings_for(args: Any) -> list[TextWarning]:
    """Return a warning for each text of ``args`` with hidden characters or a host name that is not what it seems."""
    found = []
    for path, text in texts_in(args):
        found += [*_hidden_warnings(path, text), *_host_warnings(path, text)]
    return found


def _hidden_warnings(path: Path, text: str) -> Iterator[TextWarning]:
    count = 0
    different: dict[int, Hidden] = {}
    for found, times in islice(hidden_runs(text), MAX_COUNTED):
        count += times
        different.setdefault(found.codepoint, found)
    if different:
        first, *others = different.values()
        chips = tuple(hidden_chip(found.label, found.name) for found in [first, *others[: MAX_CHIPS - 1]])
        yield TextWarning(_name(path), path_words(path), count, "hidden character", chips, _MEANINGS[first.kind])


def _host_warnings(path: Path, text: str) -> Iterator[TextWarning]:
    hosts = {host.text: host for host in islice(find_hosts(text), MAX_COUNTED) if host.scripts}
    if hosts:
        chips = tuple(host_chip(host.other, host.scripts) for host in list(hosts.values())[:MAX_CHIPS])
        meaning = "It mixes letters of several scripts, so it can look like another host."
        yield TextWarning(_name(path), path_words(path), len(hosts), "doubtful host name", chips, meaning)


def _name(path: Path) -> str:
    return str(path[0]) if path else ""


def path_words(path: Path) -> str:
    """Write a path as people do: ``items[2].name``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")
