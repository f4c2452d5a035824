"""Host names in a text that may not be what they seem: letters of several scripts, or the xn-- spelling of others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# Possessive, and begun only where a word begins: linear also over megabytes of letters without a point. What stands
# before is looked at afterwards: as a part of the pattern it made reading 5 MB four times as slow.
_HOST = re.compile(r"(?<![\w-])[\w-]++(?:\.[\w-]++)++")
_MAX_HOST, _MAX_LABEL = 253, 63
# Written together in one language, so they are one script here.
_TOGETHER = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "HANGUL": "CJK", "BOPOMOFO": "CJK"}


@dataclass(frozen=True)
class Host:
    """One such name. ``end``: where in the text it ends; ``other``: its other spelling; ``scripts``: what it mixes."""

    text: str
    end: int
    other: str
    scripts: tuple[str, ...] = ()


def find_hosts(text: str) -> Iterator[Host]:
    """Yield the doubtful host names of ``text`` in order.

    A word with points in it, all of one script, is taken for a host only behind ``//``, ``@`` or ``www.``.
    """
    if text.isascii() and "xn--" not in text and "XN--" not in text:
        return
    for match in _HOST.finditer(text):
        name = match.group()
        if len(name) > _MAX_HOST or (name.isascii() and "xn--" not in name.lower()):
            continue
        name, is_address = _address(name, text[max(0, match.start() - 2) : match.start()])
        other, scripts = _read(name)
        if other != name and (scripts or is_address or name.isascii()):
            yield Host(name, match.end(), other, scripts)


def _address(name: str, before: str) -> tuple[str, bool]:
    """Return the name without ``www.``, and whether it is written as an address."""
    if before.endswith(("//", "@")):
        return name, True
    rest = name.removeprefix("www.")
    return (rest, True) if rest != name and "." in rest else (name, False)


@lru_cache(maxsize=256)
def _read(name: str) -> tuple[str, tuple[str, ...]]:
    labels = name.split(".")
    if any(len(label) > _MAX_LABEL for label in labels):
        return name, ()
    decoded = [_decoded(label) for label in labels]
    mixed = next((scripts for scripts in map(_scripts, decoded) if len(scripts) > 1), ())
    if name.isascii():
        return ".".join(decoded), mixed
    return ".".join(map(_encoded, labels)), mixed


def _decoded(label: str) -> str:
    if not label.lower().startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label


def _encoded(label: str) -> str:
    plain = unicodedata.normalize("NFKC", label).lower()
    return plain if plain.isascii() else f"xn--{plain.encode('punycode').decode('ascii')}"


def _scripts(label: str) -> tuple[str, ...]:
    """Name the scripts of a label's letters; one with the scripts of East Asia beside Latin is ordinary there."""
    found = dict.fromkeys(_script(sign) for sign in label if sign.isalpha())
    found.pop("", None)
    if set(found) == {"Latin", "Cjk"}:
        return ("Cjk",)
    return tuple(found)


@lru_cache(maxsize=1024)
def _script(sign: str) -> str:
    # The standard library knows no scripts, but names begin with them: CYRILLIC SMALL LETTER A.
    first = unicodedata.name(sign, "").partition(" ")[0]
    return _TOGETHER.get(first, first).capitalize()
