"""What a reviewer sees of untrusted text: all of it, nothing hidden in it, and nothing of it as markup."""

from __future__ import annotations

import json
import math
import re
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html import unescape
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.template import Context, Template
from django.utils import timezone
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reviews.hidden import find_hidden, hidden_runs
from reviews.reveal import MAX_MARKDOWN, reveal, reveal_value, warnings_for, words

RLO = (
    '<span class="cp" title="right-to-left override">'
    '<span class="visually-hidden">hidden character </span>U+202E</span>'
)
HOSTILE = [
    "\"><svg onload=document.title='p1'>",
    "<img src=x onerror=\"document.title='p2'\">",
    "</script><script>document.title='p3'</script>",
    "</textarea><script>document.title='p4'</script>",
    "{{ 7|add:7 }} {% debug %}",
    "<div hx-get=/admin hx-trigger=load></div>",
    "[open](javascript:document.title='p5') ![i](http://127.0.0.1:9/x.png) `\\`<img src=x onerror=title='p6'>`",
    '[a](https://e.test/"onmouseover=x) <https://e.test/<b>> [r]\n\n[r]: javascript:x "<b>"',
    "```<b>\n<i>\n```\n\n    <u>\n\n# <h1>\n\n<!-- x -->\n<script>\n",
    "&lt;b&gt; &#60;b&#62; &#x202E; &NewLine;",
]
ALLOWED = {"span", "small", "p", "strong", "em", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br"}
text = st.text() | st.text("<>&\"'`[]()!\\#*_ \n\t\x00\u202e\u200b:/.ax-") | st.sampled_from(HOSTILE)


class Tags(HTMLParser):
    """Collects every tag and attribute that a browser would find."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.shown: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def assert_harmless(html: str) -> None:
    assert html.__class__.__name__ == "SafeString"
    for tag, attributes in Tags(html).found:
        assert tag in ALLOWED, tag
        assert set(attributes) <= {"class", "title", "start"}, attributes
    assert find_hidden(html) == []
    assert not re.search(r"<(?!/?[a-z]+(?: [a-z]+=\"[^\"<>]*\")*(?: /)?>)", html), "an unescaped < of the input"


@settings(max_examples=120, deadline=None)
@given(text, st.none() | st.integers(0, 50))
@example("<", None)
def test_text_never_becomes_markup(value: str, limit: int | None) -> None:
    assert_harmless(reveal(value, limit=limit))


@settings(max_examples=120, deadline=None)
@given(text)
@example("\n".join(HOSTILE))
def test_an_agents_words_never_become_markup_of_theirs(value: str) -> None:
    html = words(value)
    assert_harmless(html)
    assert not {"a", "img", "script", "svg", "h1"}.intersection(tag for tag, _ in Tags(html).found)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(values, st.none() | st.integers(0, 60))
def test_values_never_become_markup(value: Any, limit: int | None) -> None:
    assert_harmless(reveal_value(value, limit=limit))


# ------------------------------------------------------------------------------------------------------------ hidden


@settings(max_examples=100, deadline=None)
@given(st.text("ab<&\n \u202e\u200b\x00é"))
def test_nothing_is_lost(value: str) -> None:
    """With the chips read back as what they stand for, the text is there again."""
    if " " * 8 in value or "\n" * 8 in value:
        return
    html = re.sub(
        r'<span class="cp"[^>]*><span[^>]*>hidden character </span>U\+([0-9A-F]+)(?: ×(\d+))?</span>',
        lambda chip: chr(int(chip[1], 16)) * int(chip[2] or 1),
        reveal(value),
    )
    assert unescape(html) == value


@settings(max_examples=120, deadline=None)
@given(st.text("a\n\r \u202e\u200b\u200d\ufe0f\x00\u0645👩\U000e0067"))
def test_runs_hold_each_hidden_character_once(value: str) -> None:
    runs = [(first.index + step, first.codepoint) for first, count in hidden_runs(value) for step in range(count)]
    assert runs == [(found.index, found.codepoint) for found in find_hidden(value)]


def test_the_chip_is_the_one_of_the_drawings() -> None:
    assert reveal("seen\u202e 00.921") == f"seen{RLO} 00.921"


@pytest.mark.parametrize(
    ("value", "label", "name"),
    [
        ("a\x00b", "U+0000", "null"),
        ("a\x1b[2K", "U+001B", "escape"),
        ("a\x85", "U+0085", "next line"),
        ("a\ud800", "U+D800", "lone surrogate"),
        ("a\u200bb", "U+200B", "zero width space"),
        ("a\U000e0041", "U+E0041", "tag latin capital letter a"),
        ("safe\rhidden", "U+000D", "carriage return"),
        ("\u202e" * 3, "U+202E ×3", "right-to-left override"),
    ],
)
def test_each_hidden_character_has_its_name(value: str, label: str, name: str) -> None:
    html = reveal(value)
    assert f'title="{name}"' in html and f">hidden character </span>{label}</span>" in html


def test_ordinary_text_raises_no_alarm() -> None:
    for value in (
        "مرحبا שלום 你好 é 👩‍💻 🇩🇪",
        "a\r\nb\tc",
        "Привет.Как дела, отчёт.txt",
        "a@b.example https://x.test/y",
    ):
        assert reveal(value) == value
        assert warnings_for({"x": value}) == []


def test_long_blanks_are_counted_and_indentation_is_left_alone() -> None:
    assert '<span class="cp" title="blanks in a row">300 blanks</span>rm' in reveal("ok" + " " * 300 + "rm")
    assert "8 blanks" in reveal("a" + "\xa0" * 8 + "b")
    assert "30 line ends" in reveal("ok" + "\r\n" * 30 + "rm")
    assert "blanks" in reveal("x\n" + " " * 40 + "y")
    code = "def f():\n        return 1\n"
    assert reveal(code) == code


@pytest.mark.parametrize(
    ("value", "other", "mixed"),
    [
        ("see https://аpple.com/x", "xn--pple-43d.com", "Cyrillic and Latin"),
        ("аpple.com", "xn--pple-43d.com", "Cyrillic and Latin"),
        ("mail a@gооgle.com", "xn--ggle-55da.com", "Latin and Cyrillic"),
        ("https://пример.рф/", "xn--e1afmkfd.xn--p1ai", ""),
        ("xn--e1afmkfd.xn--p1ai", "пример.рф", ""),
        ("XN--PPLE-43D.com", "аPPLE.com", "Cyrillic and Latin"),
    ],
)
def test_host_names_show_their_other_spelling(value: str, other: str, mixed: str) -> None:
    html = reveal(value)
    assert html.startswith(value[:4])
    assert f"host name </span>{other}</span>" in html
    assert (f"mixes {mixed} letters" in html) == bool(mixed)
    assert len(warnings_for({"url": value})) == bool(mixed)


def test_hosts_of_one_east_asian_language_mix_nothing() -> None:
    assert "mixes" not in reveal("https://日本のabc.example/")
    assert reveal("xn--.com xn--" + "a" * 70 + ".com")


# -------------------------------------------------------------------------------------------------------------- size


def test_a_cut_says_how_much_there_is_in_bytes() -> None:
    html = reveal("é" * 2_000_000, limit=65_536)
    assert html.endswith('<span class="cut">… cut here, 4.0 MB in all</span>')
    assert html.count("é") == 32_768
    assert "cut" not in reveal("é" * 100, limit=200)
    assert "118 bytes in all" in reveal("x" * 118, limit=117)
    assert reveal("\ud800" * 3, limit=4).count("U+D800") == 1


@pytest.mark.long
@pytest.mark.parametrize("piece", ["é", "\0", "\u202e\u200b", " " * 9 + "x", "\r\n", "xn--a.b ", "é-", "а.a ", "👩‍"])
def test_five_megabytes_are_bounded_and_quick(piece: str) -> None:
    value = piece * (5_000_000 // len(piece.encode("utf-8", "surrogatepass")))
    start = time.process_time()
    html = reveal_value({"text": value}, limit=65_536)
    warnings_for({"text": value})
    words(value)
    assert len(html) < 500_000
    assert time.process_time() - start < 8, "linear work takes well under a second, but for the worst"


def test_all_of_it_is_complete() -> None:
    value = "A" * 3_000_000 + "\nrm -rf /srv\n" + "B" * 1000
    assert reveal(value) == value


@pytest.mark.long
def test_big_structures_are_walked_only_as_far_as_they_are_shown() -> None:
    html = reveal_value({"rows": [{"n": number} for number in range(200_000)]}, limit=10_000)
    assert len(html) < 20_000 and "in all" in html
    deep: Any = 1
    for _ in range(5000):
        deep = {"k": deep}
    assert "more follows" in reveal_value(deep, limit=10_000)
    assert reveal_value(deep).count("k") == 5000


# ------------------------------------------------------------------------------------------------------------ values


def test_each_type_is_told() -> None:
    html = reveal_value(
        {
            "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            "day": date(2026, 1, 2),
            "sum": Decimal("1.10"),
            "id": UUID(int=1),
            "blob": b"\x00\xff",
            "tags": {"b", "a"},
            "order": {"sku": "X1", "qty": 2},
            "long": timedelta(hours=1),
            "odd": [math.nan, math.inf, -math.inf, 1.0, 1, "1", True, None],
            7: "int key",
            (1, 2): "tuple key",
            "7": "text key",
        },
        types={"/order": "Order"},
    )
    shown = "".join(Tags(html).shown)
    for part in (
        '"when": date and time 2026-01-02T03:04:05+00:00',
        '"day": date 2026-01-02',
        '"sum": decimal 1.10',
        '"id": uuid 00000000-0000-0000-0000-000000000001',
        '"blob": 2 bytes 00ff',
        '"tags": set {\n    "a",\n    "b"\n  }',
        '"order": Order {"sku": "X1", "qty": 2}',
        '"long": duration 1:00:00',
        '[\n    NaN,\n    Infinity,\n    -Infinity,\n    1.0,\n    1,\n    "1",\n    true,\n    null\n  ]',
        'whole number as a key 7: "int key"',
        'list as a key (1, 2): "tuple key"',
        '"7": "text key"',
    ):
        assert part in shown
    assert 'title="a number that JSON cannot hold">NaN<' in html


def test_a_text_alone_is_shown_as_it_is_and_inside_a_value_as_json() -> None:
    assert reveal_value('a\n"b"') == "a\n&quot;b&quot;"
    nested = "".join(Tags(reveal_value({"x": 'a\n"b"\\' + "y" * 60})).shown)
    assert json.loads(nested) == {"x": 'a\n"b"\\' + "y" * 60}
    assert RLO in reveal_value({"x": ["\u202e"]})
    assert RLO in reveal_value({"\u202e": 1})


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text('ab"\\\n<'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("ab<"), inner),
        max_leaves=8,
    )
)
def test_plain_data_reads_back_from_the_page(value: Any) -> None:
    shown = "".join(Tags(reveal_value({"v": value})).shown)
    assert json.loads(shown) == {"v": value}


# ------------------------------------------------------------------------------------------------------------- words


def test_markdown_is_formatted_and_links_are_text_with_their_target() -> None:
    html = words("# Hi\n\nsee **this** [page](https://e.test/a?b=1&c) and <https://e.test>\n\n1. one")
    assert "<p><strong>Hi</strong></p>" in html
    assert "<strong>this</strong> page <code>(https://e.test/a?b=1&amp;c)</code>" in html
    assert "and https://e.test</p>" in html
    assert "<ol>\n<li>one</li>" in html


def test_a_link_that_shows_its_target_does_not_say_it_twice() -> None:
    assert words("<ines.krug@example.test>") == "<p>ines.krug@example.test</p>\n"
    assert "<code>(mailto:other@example.test)</code>" in words("[ines.krug@example.test](mailto:other@example.test)")


def test_images_and_scripts_in_words_are_text() -> None:
    html = words(HOSTILE[6])
    assert "[open](javascript:document.title=&#x27;p5&#x27;)" in html
    assert "!i <code>(http://127.0.0.1:9/x.png)</code>" in html


def test_hidden_characters_in_words_are_shown_however_they_came() -> None:
    assert words("a\u202e &#x202E;").count(RLO) == 2
    assert "U+0000" in words("a\0b") and "U+000D" in words("a\rb") and "U+200B" in words("`a\u200b`")


def test_long_words_are_not_parsed() -> None:
    html = words("**a** " * MAX_MARKDOWN)
    assert html.startswith('<p class="plain">**a**') and "in all" in html
    assert len(html) < 100_000


# ---------------------------------------------------------------------------------------------------------- warnings


def test_warnings_name_the_place_the_count_and_the_meaning() -> None:
    found = warnings_for(
        {"note": "a\u202eb\u202e\u200b", "items": [{"k\x00": "x"}, {"n": "y\U000e0041"}], "ok": "مرحبا"}
    )
    assert [(one.name, one.path, one.count) for one in found] == [
        ("note", "note", 3),
        ("items", "items[0].k\x00", 1),
        ("items", "items[1].n", 1),
    ]
    assert found[0].chips[0] == RLO and len(found[0].chips) == 2
    assert "reading direction" in found[0].meaning


# ---------------------------------------------------------------------------------------------------------- template


def rendered(source: str, **context: Any) -> str:
    return Template("{% load desk %}" + source).render(Context(context))


def test_filters_in_a_template() -> None:
    assert rendered("{{ v|reveal }}", v="<b>\u202e") == f"&lt;b&gt;{RLO}"
    assert "in all" in rendered("{{ v|reveal:3 }}", v="abcdef")
    assert rendered("{{ v|reveal_value }}", v=[1, "<"]) == "[1, &quot;&lt;&quot;]"
    assert rendered("{{ v|words }}", v="*a*") == "<p><em>a</em></p>\n"
    assert rendered("{% icon 'check' %}") == '<svg class="i" aria-hidden="true"><use href="#i-check"/></svg>'


def test_ages_and_initials() -> None:
    assert rendered("{{ v|age }}", v=timedelta(seconds=41)) == "41 s"
    assert rendered("{{ v|age }}", v=timedelta(minutes=9, seconds=59)) == "9 min"
    assert rendered("{{ v|age }}", v=timedelta(hours=2, minutes=14)) == "2 h 14 min"
    assert rendered("{{ v|age }}", v=timezone.now() - timedelta(minutes=9, seconds=30)) == "9 min"
    assert rendered("{{ v|initials }}", v=User(username="x", first_name="Ada", last_name="Reyes")) == "A. R."
    assert rendered("{{ v|initials }}", v=User(username="maria.koch")) == "M. K."
    assert rendered("{{ v|initials }}", v=User(username="123")) == "?"
