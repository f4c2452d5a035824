"""Which characters are hidden, and which ordinary text raises no alarm."""

from __future__ import annotations

import time

import pytest

from reviews.hidden import Hidden, find_hidden, has_visible

ORDINARY = {
    "arabic, hebrew, chinese, an accent of its own": "مرحبا שלום 你好 e\u0301",
    "joined emoji": "\U0001f469\u200d\U0001f4bb",
    "joined emoji with skin tone": "\U0001f469\U0001f3fd\u200d\U0001f680",
    "joined emoji with variation selector": "❤\ufe0f\u200d\U0001f525 \U0001f3f3\ufe0f\u200d\U0001f308",
    "country flag": "\U0001f1e9\U0001f1ea",
    "flag of England": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keycap": "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "text style": "\u2714\ufe0e",
    "persian non-joiner": "می\u200cخواهم API\u200cها",
    "hindi joiners": "क\u094d\u200dष र\u094d\u200c",
    "ideograph variant": "葛\U000e0100",
    "mongolian variant": "\u1820\u180b",
    "line ends and tabs": "a\r\nb\n\tc",
    "soft look-alikes are somebody else's work": "pаypal\xa0x",
    "nothing": "",
}
HIDDEN = {
    "a\u202eb": ("U+202E", "RIGHT-TO-LEFT OVERRIDE", "bidi"),
    "a\u2066b": ("U+2066", "LEFT-TO-RIGHT ISOLATE", "bidi"),
    "a\u200fb": ("U+200F", "RIGHT-TO-LEFT MARK", "bidi"),
    "a\u200bb": ("U+200B", "ZERO WIDTH SPACE", "zero_width"),
    "a\u200db": ("U+200D", "ZERO WIDTH JOINER", "zero_width"),
    "a\u200cb": ("U+200C", "ZERO WIDTH NON-JOINER", "zero_width"),
    "\ufeffa": ("U+FEFF", "ZERO WIDTH NO-BREAK SPACE", "zero_width"),
    "a\xadb": ("U+00AD", "SOFT HYPHEN", "zero_width"),
    "a\u2062b": ("U+2062", "INVISIBLE TIMES", "zero_width"),
    "a\u3164b": ("U+3164", "HANGUL FILLER", "blank"),
    "a\u2800b": ("U+2800", "BRAILLE PATTERN BLANK", "blank"),
    "a\U000e0041b": ("U+E0041", "TAG LATIN CAPITAL LETTER A", "tag"),
    "\U0001f3f4\U000e0067": ("U+E0067", "TAG LATIN SMALL LETTER G", "tag"),
    "a\0b": ("U+0000", "NULL", "control"),
    "a\x1b[2K": ("U+001B", "ESCAPE", "control"),
    "a\rb": ("U+000D", "CARRIAGE RETURN", "control"),
    "a\x9bb": ("U+009B", "CONTROL", "control"),
    "a\u2028b": ("U+2028", "LINE SEPARATOR", "control"),
    "a\ufe0fb": ("U+FE0F", "VARIATION SELECTOR-16", "variation"),
    "1\ufe0f": ("U+FE0F", "VARIATION SELECTOR-16", "variation"),
    "a\U000e0100": ("U+E0100", "VARIATION SELECTOR-17", "variation"),
    "a\ud800b": ("U+D800", "LONE SURROGATE", "surrogate"),
    "\udfff": ("U+DFFF", "LONE SURROGATE", "surrogate"),
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_text_raises_no_alarm(text: str) -> None:
    assert find_hidden(text) == []


@pytest.mark.parametrize(("text", "expected"), HIDDEN.items(), ids=[label for label, *_ in HIDDEN.values()])
def test_hidden_characters_are_named(text: str, expected: tuple[str, str, str]) -> None:
    (found,) = find_hidden(text)
    assert (found.label, found.name, found.kind) == expected
    assert ord(text[found.index]) == found.codepoint


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("ا\u200d\u200dب", [1, 2]),
        ("\U0001f469\u200d\u200d\U0001f4bb", [1, 2]),
        ("❤\ufe0f\ufe0f", [2]),
        ("葛\U000e0100\U000e0101", [2]),
        ("\u200d\U0001f4bb", [0]),
    ],
)
def test_a_second_one_in_a_row_hides_something(text: str, places: list[int]) -> None:
    assert [found.index for found in find_hidden(text)] == places


def test_a_message_spelled_in_tags_is_found_letter_by_letter() -> None:
    secret = "".join(chr(0xE0000 + ord(letter)) for letter in "pay me")
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert [found.index for found in find_hidden(f"ok{secret}")] == list(range(2, 8))
    assert [found.index for found in find_hidden(f"{flag}{secret}")] == list(range(7, 13))


def test_all_are_found_in_order_and_the_limit_stops_early() -> None:
    text = "\u202ea\x1b[2Kb\u200b"
    assert [(found.index, found.kind) for found in find_hidden(text)] == [
        (0, "bidi"),
        (2, "control"),
        (7, "zero_width"),
    ]
    assert find_hidden(text, limit=1) == [Hidden(0, 0x202E, "RIGHT-TO-LEFT OVERRIDE", "bidi")]


@pytest.mark.parametrize(
    ("text", "seen"), [("a", True), (" \n\t", False), ("", False), ("\u200b\u2060\u3164\0", False), (" \u200bх", True)]
)
def test_what_a_reader_sees_at_all(text: str, seen: bool) -> None:
    assert has_visible(text) is seen


@pytest.mark.parametrize(
    "text", ["A" * 5_000_000, "é" * 5_000_000, "می\u200cخواهم " * 500_000], ids=["ascii", "latin", "persian"]
)
def test_five_megabytes_are_scanned_at_once(text: str) -> None:
    start = time.process_time()
    assert find_hidden(text) == []
    assert time.process_time() - start < 1  # measured: 0.05 to 0.09 s; looking at each character in Python takes longer
