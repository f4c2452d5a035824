"""An edit is shown as a change wherever the call is shown later: in the conversation and in the log."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents.tests import graphs
from reviews.tests.door import Desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.mark.parametrize("page", ["thread", "audit"])
def test_an_edit_is_shown_as_a_change(desk: Desk, page: str) -> None:
    row = desk.ask(text=graphs.turns([("pay", {"amount": 5})]))
    where = reverse("reviews:thread", args=[row.thread_id]) if page == "thread" else reverse("reviews:audit")
    reader = desk.ann if page == "thread" else desk.aude
    assert "<ins>" not in reader.open(where).html
    desk.ann.press(desk.ann.press(desk.ann.open(row), "approve", amount="4"), "edit")
    desk.work()
    html = reader.open(where).html
    assert html.count("<del>5</del> <ins>4</ins>") == 1
    assert desk.paid() == [4]


def test_an_approved_call_shows_no_change(desk: Desk) -> None:
    row = desk.ask(text=graphs.turns([("pay", {"amount": 5})]))
    desk.ann.press(desk.ann.open(row), "approve")
    desk.work()
    for reader, where in ((desk.ann, reverse("reviews:thread", args=[row.thread_id])), (desk.aude, "/audit/")):
        assert "<ins>" not in reader.open(where).html
