"""Characters that a reader does not see, or that change what a reader sees: found, named, and never removed.

Ordinary text raises no alarm: Arabic and Hebrew letters, the joiners of scripts that need them, joined emoji, the flags
of England, Scotland and Wales, ideograph variants. Everything else of the kinds below is reported (source: CHECKS B).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Literal

Kind = Literal["bidi", "zero_width", "blank", "tag", "control", "variation", "surrogate"]

_JOINER = "\u200c\u200d"
_CLASSES: dict[Kind, str] = {
    "control": "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "zero_width": f"{_JOINER}\xad\u034f\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff",
    "blank": "\u115f\u1160\u2800\u3164\uffa0",
    "tag": "\U000e0000-\U000e00ff",
    "variation": "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "surrogate": "\ud800-\udfff",
}

# Arabic to N'Ko and supplements; the Indic blocks up to Sinhala; Myanmar, Khmer, Mongolian, Balinese to Batak.
_JOINING = (
    "\u0620-\u07ff\u0840-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3\u1807\u180a\u1820-\u18aa\u1b00-\u1bff"
    "\ua8e0-\ua8ff\ufb50-\ufdff\ufe70-\ufefc"
)
# Close to Unicode's Extended_Pictographic, which unicodedata does not know.
_EMOJI = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23fa\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_MONGOLIAN = "\u1807\u180a\u1820-\u18aa"
_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


def _flag_tags() -> Iterator[str]:
    """Patterns for each tag letter of the three flags that Unicode spells with tags, in its place."""
    for name in ("gbeng", "gbsct", "gbwls"):
        flag = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
        for place in range(1, len(flag)):
            yield f"{flag[place]}(?<={flag[: place + 1]})(?={flag[place + 1 :]})"


# Each alternative is one character with its neighbours looked at: what stands where its script or emoji needs it.
_ORDINARY = "|".join(
    (
        "\r(?=\n)",
        f"(?<=[{_JOINING}])[{_JOINER}](?![{_JOINER}])",
        f"(?<![{_JOINER}])[{_JOINER}](?=[{_JOINING}])",
        f"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])",
        f"(?<=[{_EMOJI}]\ufe0f)\u200d(?=[{_EMOJI}])",
        f"(?<=[{_EMOJI}])[\ufe0e\ufe0f]",
        "(?<=[0-9#*])\ufe0f(?=\u20e3)",
        f"(?<=[{_MONGOLIAN}])[\u180b-\u180d\u180f]",
        f"(?<=[{_IDEOGRAPH}])[\ufe00-\ufe02\U000e0100-\U000e01ef]",
        *_flag_tags(),
    )
)
# It begins with one character class, so that a text without any is passed at the speed of a scan (5 MB in 0.1 s).
_HIDDEN = re.compile(f"[{''.join(_CLASSES.values())}](?<!{_ORDINARY})")

# Those that _ORDINARY lets pass in some places: of all others, equal neighbours are as hidden as the first.
_CONTEXTUAL = re.compile(f"[\r{_JOINER}{_CLASSES['variation']}{_CLASSES['tag']}]")
_VISIBLE = re.compile(f"[^\\s{''.join(_CLASSES.values())}]")

_CONTROL_NAMES = {
    0: "NULL",
    7: "BELL",
    8: "BACKSPACE",
    11: "VERTICAL TAB",
    12: "FORM FEED",
    13: "CARRIAGE RETURN",
    27: "ESCAPE",
    127: "DELETE",
    133: "NEXT LINE",
}


@dataclass(frozen=True, slots=True)
class Hidden:
    """One such character. ``index`` counts code points of the text, as Python does."""

    index: int
    codepoint: int
    name: str
    kind: Kind

    @property
    def label(self) -> str:
        """The code point as people write it: ``U+202E``."""
        return f"U+{self.codepoint:04X}"


def find_hidden(text: str, *, limit: int | None = None) -> list[Hidden]:
    """Return the hidden characters of ``text`` in order, at most ``limit`` of them."""
    return list(islice(iter_hidden(text), limit))


def iter_hidden(text: str) -> Iterator[Hidden]:
    for match in _HIDDEN.finditer(text):
        yield _hidden(text, match.start())


def hidden_runs(text: str) -> Iterator[tuple[Hidden, int]]:
    """Yield each hidden character once with the count of equal ones in a row; megabytes of one are one run."""
    end = 0
    while match := _HIDDEN.search(text, end):
        first = match.start()
        end = _run_end(text, first)
        yield _hidden(text, first), end - first


def _run_end(text: str, first: int) -> int:
    char = text[first]
    if not _CONTEXTUAL.match(char):
        run = _run_of(char).match(text, first)
        return run.end() if run else first + 1
    end = first + 1
    while end < len(text) and text[end] == char and _HIDDEN.match(text, end):
        end += 1
    return end


@cache
def _run_of(char: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(char)}+")


def _hidden(text: str, index: int) -> Hidden:
    return Hidden(index, ord(text[index]), _name(text[index]), _kind(text[index]))


def has_visible(text: str) -> bool:
    """Say whether a reader sees anything at all in ``text``."""
    return _VISIBLE.search(text) is not None


@cache
def _kind(char: str) -> Kind:
    return next(kind for kind, characters in _CLASSES.items() if re.match(f"[{characters}]", char))


@cache
def _name(char: str) -> str:
    if "\ud800" <= char <= "\udfff":
        return "LONE SURROGATE"
    fallback = "CONTROL" if unicodedata.category(char) == "Cc" else "UNASSIGNED"
    return unicodedata.name(char, _CONTROL_NAMES.get(ord(char), fallback))
