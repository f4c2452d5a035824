"""The inbox: what waits, in which order, for whom, and why there is nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models.sql.compiler import SQLCompiler
from django.test import Client
from django.utils import timezone

from agents.models import Agent
from reviews import inbox
from reviews.inbox import Filters
from reviews.models import Grant, Interrupt
from reviews.tests.cast import APPROVE, Cast, ask, ask_calls, decide, file_outcome, new_thread
from reviews.tests.pages import look

pytestmark = pytest.mark.django_db
INBOX = "/"


@pytest.fixture
def ann(cast: Cast, client: Client) -> Client:
    client.force_login(cast.ann)
    return client


def ask_for(title: str, *calls: tuple[str, dict[str, Any]], age: timedelta = timedelta()) -> Interrupt:
    """File one question in a thread of its own, as if it had waited for ``age``."""
    (row,) = file_outcome(new_thread(title), ask_calls(*(calls or (("pay", {"amount": 5}),))))
    Interrupt.objects.filter(pk=row.pk).update(created_at=timezone.now() - age)
    row.refresh_from_db()
    return row


def rows_of(client: Client, query: str = "") -> list[int]:
    page = look(client, INBOX + query)
    return [int(one.removeprefix("inbox-")) for one in page.ids if one.startswith("inbox-")]


def test_the_oldest_comes_first(cast: Cast, ann: Client) -> None:
    young = ask_for("young")
    old = ask_for("old", age=timedelta(hours=2))
    assert rows_of(ann) == [old.pk, young.pk]
    text = look(ann, INBOX).text
    assert "2 open questions" in text
    assert "The oldest has waited 2 h 00 min." in text


def test_a_late_one_says_so_in_words(cast: Cast, ann: Client) -> None:
    ask_for("old", age=timedelta(hours=2))
    page = look(ann, INBOX)
    assert 'data-age="late"' in page.html
    assert "waits long" in page.text


def test_the_questions_of_one_pause_are_one_row_with_a_count(cast: Cast, ann: Client) -> None:
    first, second = file_outcome(
        cast.thread,
        ask_calls(("pay", {"amount": 5}), interrupt_id="a" * 32),
        ask_calls(("mail", {"to": "b"}), interrupt_id="b" * 32, message="ai-2"),
    )
    assert rows_of(ann) == [first.pk]
    assert "2 questions" in look(ann, INBOX).text
    assert look(ann, "/count/").text.startswith("1 open question")
    decide(cast.ann, first, APPROVE)
    assert rows_of(ann) == [second.pk]


def test_a_filter_by_tool_finds_the_second_question_of_a_pause(cast: Cast, ann: Client) -> None:
    _, second = file_outcome(
        cast.thread,
        ask_calls(("pay", {"amount": 5}), interrupt_id="a" * 32),
        ask_calls(("mail", {"to": "b"}), interrupt_id="b" * 32, message="ai-2"),
    )
    assert rows_of(ann, "?tool=mail") == [second.pk]


def test_filters_are_in_the_address_and_counted(cast: Cast, ann: Client) -> None:
    pay = ask_for("one", ("pay", {"amount": 5}))
    mail = ask_for("two", ("mail", {"to": "b"}), age=timedelta(days=2))
    assert rows_of(ann, "?tool=pay") == [pay.pk]
    assert rows_of(ann, "?tool=pa") == []
    assert rows_of(ann, "?age=day") == [mail.pk]
    assert rows_of(ann, f"?thread={mail.thread_id}") == [mail.pk]
    assert rows_of(ann, "?agent=support") == [mail.pk, pay.pk]
    assert rows_of(ann, "?agent=nobody") == []
    page = look(ann, INBOX)
    assert "Support 2" in page.text
    assert "mail 1" in page.text
    assert "?tool=mail" in page.html


def test_an_unknown_filter_key_is_no_filter(cast: Cast, ann: Client) -> None:
    row = ask_for("one")
    assert rows_of(ann, "?decided_by__password=x&status=nonsense&age=never") == [row.pk]


def test_search_finds_titles_tools_and_threads(cast: Cast, ann: Client) -> None:
    row = ask_for("Broken lamp", ("issue_refund", {"order_id": 10482}))
    ask_for("Other")
    for words in ("10482", "issue_refund", "lamp", "refund lamp"):
        assert rows_of(ann, f"?q={words}") == [row.pk], words
    assert rows_of(ann, "?q=%00%25") == []


@pytest.mark.long
def test_pages_go_on_by_key(cast: Cast, ann: Client) -> None:
    for number in range(53):
        ask_for(f"thread {number}", age=timedelta(minutes=number))
    first = look(ann, INBOX)
    shown = rows_of(ann)
    assert len(shown) == 50
    link = next(part.split('"')[0] for part in first.html.split('rel="next" href="')[1:]).replace("&amp;", "&")
    rest = rows_of(ann, link)
    assert len(rest) == 3
    assert not set(rest) & set(shown)


def test_a_broken_cursor_leads_to_the_first_page(cast: Cast, ann: Client) -> None:
    row = ask_for("one")
    for cursor in ("x", "2026-01-01~", "~5", "2026-01-01T00:00:00~x", "2026-01-01T00:00:00+00:00~x", "'--"):
        assert rows_of(ann, f"?after={cursor.replace('+', '%2B')}") == [row.pk], cursor


def test_new_ones_are_announced_and_not_inserted(cast: Cast, ann: Client) -> None:
    ask_for("one")
    page = look(ann, INBOX)
    address = next(part.split('"')[0] for part in page.html.split('hx-get="')[1:] if "seen=" in part.split('"')[0])
    ask_for("two")
    ask_for("three")
    later = look(ann, address.replace("&amp;", "&"))
    assert "2 new since you opened this page" in later.text
    assert 'data-said="2 new questions"' in later.html


def test_a_row_that_somebody_decided_stays_greyed(cast: Cast, ann: Client, payment: Interrupt) -> None:
    decide(cast.ben, payment, APPROVE)
    page = look(ann, f"/interrupts/{payment.pk}/row/")
    assert "data-done" in page.html
    assert "approved" in page.text
    assert "ben" in page.text
    assert rows_of(ann) == []


def test_decided_ones_are_there_with_who_and_what(cast: Cast, ann: Client, payment: Interrupt) -> None:
    decide(cast.ben, payment, APPROVE)
    page = look(ann, INBOX + "?status=decided")
    assert rows_of(ann, "?status=decided") == [payment.pk]
    assert "approved" in page.text
    assert "You decided 0 today" in page.text
    assert rows_of(ann, "?status=all") == [payment.pk]


def test_hidden_characters_are_marked_in_the_row(cast: Cast, ann: Client) -> None:
    ask_for("one", ("pay", {"to": "a\u202eb"}))
    page = look(ann, INBOX)
    assert "hidden characters" in page.text
    assert "\u202e" not in page.html


def test_a_held_one_says_so(cast: Cast, ann: Client) -> None:
    file_outcome(cast.thread, ask({"action_requests": [], "review_configs": []}))
    assert "held" in look(ann, INBOX).text


# ----------------------------------------------------------------------------------------------------- nothing is there


def test_nothing_to_do_is_said(cast: Cast, ann: Client) -> None:
    text = look(ann, INBOX).text
    assert "Why is nothing here?" in text
    assert "Nobody waits for you." in text
    assert "You may decide for 1 of them." in text


def test_a_filter_that_hides_everything_is_named(cast: Cast, ann: Client) -> None:
    ask_for("one")
    text = look(ann, INBOX + "?tool=mail&age=day").text
    assert "2 filters together hide everything." in text
    assert "1 question waits without them." in text
    hidden = look(ann, INBOX + "?q=zzz&agent=support")
    assert "Support 0 , remove this filter" in hidden.text


def test_no_right_is_said(cast: Cast, client: Client) -> None:
    Grant.objects.all().delete()
    ask_for("one")
    client.force_login(cast.ann)
    text = look(client, INBOX).text
    assert "You may see no agent yet." in text
    assert "Support" not in text


def test_who_only_reads_is_told(cast: Cast, client: Client) -> None:
    client.force_login(cast.aude)
    assert "You may decide for none of them" in look(client, INBOX).text


def test_no_agent_is_said(cast: Cast, client: Client) -> None:
    Agent.objects.update(is_active=False)
    client.force_login(cast.root)
    assert "No agent is connected." in look(client, INBOX).text


def test_an_agent_that_cannot_run_is_named(cast: Cast, ann: Client) -> None:
    Agent.objects.filter(name="support").update(problem="its module cannot be imported")
    assert "Support cannot run: its module cannot be imported" in look(ann, INBOX).text


def test_titles_are_no_markup(cast: Cast, ann: Client) -> None:
    ask_for("<b>x</b>", ("<img src=x>", {"to": "<script>alert(1)</script>"}))
    page = look(ann, INBOX)
    assert "<script>alert" not in page.html
    assert "<img" not in page.html
    assert not page.inline


def test_the_inbox_costs_the_same_for_many_rows(cast: Cast, ann: Client, django_assert_max_num_queries: Any) -> None:
    look(ann, INBOX)
    for number in range(12):
        ask_for(f"thread {number}")
    with patch.object(SQLCompiler, "as_sql", side_effect=AssertionError), django_assert_max_num_queries(15):
        assert "12 open questions" in look(ann, INBOX).text


def test_the_inbox_without_a_filter_is_that_of_one_that_hides_nothing(cast: Cast, ann: Client) -> None:
    """What is written once for the most asked pages finds what the filters' own queries find."""
    for number in range(4):
        ask_for(f"thread {number}", ("send_email" if number else "pay", {}), age=timedelta(hours=0 if number else 2))
    plain, narrow = Filters(), Filters(agent="support")
    assert inbox.page(cast.ann, plain, "").rows == inbox.page(cast.ann, narrow, "").rows
    assert inbox.open_count(cast.ann, plain) == inbox.open_count(cast.ann, narrow) == 4
    for facets in (inbox.tool_facets, inbox.age_facets):
        theirs = [[(one.value, one.count) for one in facets(cast.ann, filters)] for filters in (plain, narrow)]
        assert theirs[0] == theirs[1]
    assert [(one.value, one.count) for one in inbox.age_facets(cast.ann, plain)] == [("hour", 1), ("day", 0)]
    assert [(one.value, one.count) for one in inbox.agent_facets(cast.ann, plain)] == [("support", 4)]
    assert inbox.agent_facets(cast.ann, Filters(age="day", agent="support"))[0].count == 0
