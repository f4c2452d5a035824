"""Who filters the inbox works through what the filter shows: the filter goes along from question to question."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents.tests import graphs
from reviews.models import Interrupt
from reviews.tests.door import Desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


def asked(desk: Desk, *amounts: int) -> list[Interrupt]:
    return [desk.ask(text=graphs.turns([("pay", {"amount": amount})])) for amount in amounts]


def question(row: Interrupt, query: str = "") -> str:
    return reverse("reviews:interrupt", args=[row.pk]) + query


def test_the_next_question_is_the_next_of_the_filter(desk: Desk) -> None:
    first, second, third = asked(desk, 5, 6, 5)
    inbox = desk.ann.open("/", q="Pay 5")
    assert (f'href="{question(first, "?q=Pay+5")}"' in inbox.html, question(second) in inbox.html) == (True, False)
    page = desk.ann.open(first, q="Pay 5")
    assert "1 of 2 in this filter" in page
    assert f'href="{question(third, "?q=Pay+5")}"' in page.html
    done = desk.ann.press(page, "approve")
    assert (done.status, done.response["Location"]) == (303, question(third, "?q=Pay+5"))
    last = desk.ann.press(desk.ann.open(third, q="Pay 5"), "reject", why="No.")
    assert last.response["Location"] == "/?q=Pay+5"
    assert "Nothing waits" not in desk.ann.open("/", q="Pay 5")


def test_without_a_filter_the_address_stays_plain(desk: Desk) -> None:
    first, second = asked(desk, 5, 6)
    page = desk.ann.open(first)
    assert "in this filter" not in page
    assert desk.ann.press(page, "approve").response["Location"] == question(second)


def test_a_list_of_decided_ones_filters_nothing_that_waits(desk: Desk) -> None:
    first, second = asked(desk, 5, 6)
    assert question(first, "?") not in desk.ann.open("/", status="all", q="Pay 5").html
    page = desk.ann.open(first, status="all")
    assert desk.ann.press(page, "approve").response["Location"] == question(second)


def test_the_filter_stays_through_a_refusal_and_a_lost_race(desk: Desk) -> None:
    first, _, third = asked(desk, 5, 6, 5)
    page = desk.ann.open(first, q="Pay 5")
    refused = desk.ann.press(page, "approve", amount="7")
    assert (refused.status, question(third, "?q=Pay+5") in refused.html) == (422, True)
    desk.ben.press(desk.ben.open(first), "reject", why="No.")
    late = desk.ann.press(page, "approve")
    assert (late.status, question(third, "?q=Pay+5") in late.html) == (409, True)
