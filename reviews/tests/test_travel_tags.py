"""The words of time travel that templates put together: marks, lines of a difference, ways into a namespace."""

from __future__ import annotations

import pytest
from django.utils import timezone
from django.utils.safestring import SafeString

from agents.history import Point, Step
from reviews.diffs import Change
from reviews.templatetags import travel
from reviews.timeline import Line, Mark
from reviews.tracks import Knot, tracks


@pytest.mark.parametrize(
    ("mark", "html"),
    [
        (Mark("wait", "asks"), '<span class="chip" data-tone="wait"><span class="dot"></span>asks</span>'),
        (Mark("", "withdrawn"), '<span class="chip">withdrawn</span>'),
        (Mark("", "<b>"), '<span class="chip">&lt;b&gt;</span>'),
    ],
)
def test_a_mark_is_a_chip(mark: Mark, html: str) -> None:
    assert travel.chip(mark) == html


def test_a_mark_of_a_hand_has_its_picture() -> None:
    html = travel.chip(Mark("ink", "ann approved", "check"))
    assert html.startswith('<span class="chip" data-tone="ink"><svg')
    assert html.endswith("</svg>ann approved</span>")


def test_a_line_of_a_difference_names_the_part_that_is_not_the_text() -> None:
    assert travel.said_by(Change("text", "a", "b", "changed"), "<agent>") == "&lt;agent&gt;"
    named = travel.said_by(Change("rea\u202eson", "a", "b", "changed"), "agent")
    assert isinstance(named, SafeString)
    assert named.startswith("agent rea")
    assert "\u202e" not in named


def test_the_outermost_graph_needs_no_query() -> None:
    assert travel.as_query("") == ""
    assert travel.as_query("tools:1|agent") == "?ns=tools%3A1%7Cagent"


def test_a_row_is_drawn_with_its_lines_its_dot_and_a_ring_when_it_is_chosen() -> None:
    (track,) = tracks([Knot("b", "a", "ink")])
    step = Step(Point("t", "b"), "a", "", 1, "loop", (), (), timezone.now(), None, None, 0)
    plain, chosen = (travel.drawing(Line(step, "Step", "", track), one) for one in ("", "b"))
    assert plain.count("<path") == 2  # the line to the parent, and the dot
    assert f'class="dot-o" d="M{track.x} ' in plain
    assert chosen.count("<path") == 4
    assert chosen.count('class="here"') == chosen.count('class="gap"') == 1
    assert travel.passing(track).count("<path") == len(track.passing)
