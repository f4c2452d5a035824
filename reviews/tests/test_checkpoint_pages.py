"""Time travel to look at: the timeline, one checkpoint, the difference between two, labels, branches side by side."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents import history, runs
from agents.models import Checkpoint, Thread
from agents.tests import graphs
from reviews import beside, timeline
from reviews.models import Interrupt, Label
from reviews.tests.cast import new_thread, store_checkpoint
from reviews.tests.door import Answer, Desk, Visitor

PAY = graphs.turns([("pay", {"amount": 5})])


def place(thread: Thread, checkpoint: str = "") -> str:
    if checkpoint:
        return reverse("reviews:checkpoint", args=[thread.pk, checkpoint])
    return reverse("reviews:checkpoints", args=[thread.pk])


def ids(thread: Thread, namespace: str = "") -> list[str]:
    """All checkpoint ids, newest first."""
    rows = Checkpoint.objects.filter(thread=thread, ns=namespace).order_by("-checkpoint_id")
    return list(rows.values_list("checkpoint_id", flat=True))


def asked_at(row: Interrupt) -> str:
    row.refresh_from_db()
    return row.checkpoint_id


def paid(desk: Desk) -> Interrupt:
    """A thread that asked once, was allowed to pay, and ended."""
    row = desk.ask(text=PAY)
    desk.ann.press(desk.ann.open(row), "approve")
    desk.work()
    return row


def shown(answer: Answer, thread: Thread) -> list[str]:
    """The checkpoints that a page links to in its timeline, in its order."""
    part = answer.html.partition('id="timeline"')[2].partition("</section>")[0]
    found = [piece.partition('"')[0] for piece in part.split(f'href="{place(thread)}')[1:]]
    return list(dict.fromkeys(one.partition("/")[0] for one in found if one[:1] not in ("", "?")))


# ------------------------------------------------------------------------------------------------------------- timeline


def test_the_timeline_shows_each_step_newest_first_and_who_decided(desk: Desk) -> None:
    row = paid(desk)
    answer = desk.ann.open(place(row.thread))
    assert (answer.status, answer.page.inline) == (200, [])
    assert shown(answer, row.thread) == ids(row.thread)
    assert "Asks: Pay 5" in answer
    assert "ann approved" in answer
    assert "Ran pay" in answer
    assert "Message by olga" in answer
    assert 'data-tone="wait"' not in answer.html


def test_the_orm_writes_no_query_of_the_timeline(desk: Desk, django_assert_max_num_queries: Any) -> None:
    row = paid(desk)
    desk.ann.open(place(row.thread))
    with patch.object(SQLCompiler, "as_sql", side_effect=AssertionError), django_assert_max_num_queries(24):
        assert "ann approved" in desk.ann.open(place(row.thread))


def test_what_waits_is_amber_and_says_so(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    answer = desk.aude.open(place(row.thread))
    assert '<span class="chip" data-tone="wait"><span class="dot"></span>open question</span>' in answer.html
    assert 'class="dot-o wait"' in answer.html


@pytest.mark.long
def test_pages_joined_give_each_step_once_and_load_no_values(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    row = paid(desk)
    monkeypatch.setattr(timeline, "PAGE", 3)
    found: list[str] = []
    address = place(row.thread)
    while address:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            answer = desk.ann.open(address)
        assert not any("agents_checkpointpiece" in one["sql"] for one in queries)
        assert not any("blob" in one["sql"] for one in queries)
        found += shown(answer, row.thread)
        older = answer.html.partition('rel="next" href="')[2].partition('"')[0]
        address = older
    assert found == ids(row.thread)


@pytest.mark.long
def test_the_number_of_queries_does_not_grow_with_the_thread(desk: Desk) -> None:
    row = desk.ask(text=graphs.turns(*[[("read", {"id": number})] for number in range(1)], [("pay", {"amount": 5})]))
    with CaptureQueriesContext(connection) as few:
        desk.ann.open(place(row.thread))
    longer = desk.say(graphs.turns(*[[("read", {"id": number})] for number in range(9)], [("pay", {"amount": 5})]))
    with CaptureQueriesContext(connection) as many:
        desk.ann.open(place(longer))
    assert len(many) <= len(few)


@pytest.mark.long
def test_steps_of_a_subgraph_fold_out_under_the_step_they_ran_in(desk: Desk) -> None:
    row = desk.ask(lambda: graphs.nested(graphs.into(desk.ran)))
    answer = desk.ann.open(place(row.thread))
    namespace = Checkpoint.objects.filter(thread=row.thread).exclude(ns="").values_list("ns", flat=True)[0]
    assert "Inside" in answer
    assert "<details" in answer.html.partition('id="timeline"')[2]
    inner = desk.ann.open(place(row.thread), ns=namespace)
    assert inner.status == 200
    one = desk.ann.open(place(row.thread, ids(row.thread, namespace)[0]), ns=namespace)
    assert one.status == 200
    assert desk.ann.open(place(row.thread), ns="nowhere").status == 404


@pytest.mark.long
def test_new_steps_are_announced_and_move_no_row(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    before = desk.ann.open(place(row.thread))
    seen = before.html.partition("?seen=")[2].partition('"')[0]
    desk.ben.press(desk.ben.open(row), "approve")
    desk.work()
    news = desk.ann.open(place(row.thread), seen=seen)
    count = ids(row.thread).index(seen)
    assert count > 0
    assert f"{count} new steps" in news
    assert f"?seen={seen}" in news.html  # asks on from where its reader is


def test_a_thread_without_checkpoints_says_so(desk: Desk) -> None:
    answer = desk.ann.open(place(new_thread("New")))
    assert answer.status == 200
    assert "No step is stored yet" in answer


# ------------------------------------------------------------------------------------------------------ one checkpoint


def test_a_checkpoint_shows_what_it_changed_and_the_page_it_is_on(desk: Desk) -> None:
    row = paid(desk)
    answer = desk.ann.open(place(row.thread, asked_at(row)))
    assert answer.status == 200
    assert answer.html.count('aria-current="true"><') + answer.html.count('aria-current="true">') >= 2
    assert f'href="{place(row.thread, asked_at(row))}" aria-current="true"' in answer.html
    assert "answered" in answer
    assert "nothing is decided here" in answer
    assert answer.offers == set()


@pytest.mark.parametrize(
    ("at", "before", "first"),
    [
        (0, None, 0),
        (2, None, 0),  # the last of the first page
        (3, None, 3),  # beyond it: from it on
        (8, None, 8),
        (4, 2, 3),  # on the page that was looked at
        (5, 2, 3),
        (6, 2, 6),  # not on that one, nor on the first
        (1, 2, 0),
        (2, 2, 0),
        (4, "1f000000-0000-6000-8000-000000000000", 4),  # a page that is gone
    ],
)
def test_a_checkpoint_stands_on_the_page_it_was_found_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, at: int, before: int | str | None, first: int
) -> None:
    monkeypatch.setattr(timeline, "PAGE", 3)
    thread = new_thread()
    written = [store_checkpoint(thread) for _ in range(9)][::-1]
    cursor = written[before] if isinstance(before, int) else before or ""
    sheet = timeline.around(thread, written[at], before=cursor)
    assert [line.step.point.checkpoint_id for line in sheet.lines] == written[first : first + 3]


def test_a_checkpoint_that_is_pushed_off_its_page_is_still_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running agent writes one more between the look and the page."""
    monkeypatch.setattr(timeline, "PAGE", 3)
    thread = new_thread()
    oldest, *_ = [store_checkpoint(thread) for _ in range(3)]
    looked = timeline._is_on_page

    def slow(point: history.Point, before: str) -> bool:
        found = looked(point, before)
        store_checkpoint(thread)
        return found

    monkeypatch.setattr(timeline, "_is_on_page", slow)
    sheet = timeline.around(thread, oldest)
    assert [line.step.point.checkpoint_id for line in sheet.lines] == [oldest]


def test_the_parent_is_what_it_is_compared_with(desk: Desk) -> None:
    row = paid(desk)
    after = ids(row.thread)[ids(row.thread).index(asked_at(row)) - 2]  # the middleware's own step comes first
    answer = desk.ann.open(place(row.thread, after))
    assert "result pay: " in answer
    assert "paid 5" in answer


@pytest.mark.long
def test_the_whole_state_is_as_it_stood_and_offers_no_decision(desk: Desk) -> None:
    row = paid(desk)
    answer = desk.ann.open(place(row.thread, asked_at(row)), show="state")
    assert "no result yet" in answer
    assert "paid 5" not in answer.page.text.partition("The conversation as it stood")[2]
    assert "Decide" not in answer.page.text.partition("The conversation as it stood")[2]


def test_an_open_question_leads_to_its_page(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    answer = desk.ann.open(place(row.thread, asked_at(row)))
    assert f'href="{reverse("reviews:interrupt", args=[row.pk])}"' in answer.html
    assert answer.offers == set()


@pytest.mark.long
def test_all_that_is_stored_can_be_downloaded(desk: Desk) -> None:
    row = paid(desk)
    answer = desk.ann.open(reverse("reviews:raw", args=[row.thread_id, asked_at(row)]))
    assert answer.response["Content-Disposition"].startswith("attachment")
    stored = json.loads(answer.response.content)
    assert set(stored) == {"checkpoint", "metadata", "writes"}


@pytest.mark.long
def test_a_checkpoint_can_be_compared_with_any_other(desk: Desk) -> None:
    row = paid(desk)
    first = ids(row.thread)[-2]
    answer = desk.ann.open(f"{place(row.thread, ids(row.thread)[0])}?with={row.thread_id}:{first}")
    assert answer.status == 200
    assert "agent call pay: " in answer
    back = desk.ann.open(f"{place(row.thread, first)}?with=head")
    assert 'class="minus"' in back.html


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["nonsense", "1ef00000-0000-6000-8000-000000000000", "%00", "..", "' or 1=1"])
def test_what_is_no_checkpoint_of_this_thread_is_not_found(desk: Desk, wrong: str) -> None:
    row = paid(desk)
    place_of_none = place(row.thread, "X").replace("X", wrong)
    assert desk.ann.open(place_of_none).status == 404
    assert desk.ann.open(f"{place_of_none}raw/").status == 404
    right = place(row.thread, asked_at(row))
    assert desk.ann.open(f"{right}?with={row.thread_id}:{wrong}").status == 404
    assert desk.ann.open(reverse("reviews:beside", args=[row.thread_id]), a=f"{row.thread_id}:{wrong}").status == 404


@pytest.mark.long
def test_a_checkpoint_of_another_thread_is_not_found(desk: Desk) -> None:
    row = paid(desk)
    other = new_thread("Theirs", agent="billing")
    theirs = store_checkpoint(other)
    assert desk.ann.open(place(row.thread, theirs)).status == 404
    assert desk.ann.open(place(other, theirs)).status == 404
    right = place(row.thread, asked_at(row))
    assert desk.ann.open(f"{right}?with={other.pk}:{theirs}").status == 404
    assert desk.ann.open(reverse("reviews:beside", args=[row.thread_id]), b=other.pk).status == 404
    assert Visitor(desk.cast.otto).open(place(row.thread)).status == 404


# --------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.long
def test_a_label_is_seen_on_the_step_the_timeline_and_the_thread(desk: Desk) -> None:
    row = paid(desk)
    where = place(row.thread, asked_at(row))
    form = next(form for form in desk.ann.open(where).page.forms if "note" in form.fields)
    answer = desk.ann.post(form.action, {**form.fields, "name": "Before the refund", "note": "look <b>here</b>"})
    assert answer.status == 302
    for page in (where, place(row.thread), reverse("reviews:thread", args=[row.thread_id])):
        assert "Before the refund" in desk.aude.open(page)
    assert "<b>here" not in desk.aude.open(where).html
    again = desk.ann.post(form.action, {"name": "Before the refund"})
    assert again.status == 302
    assert Label.objects.count() == 1
    assert "is called Before the refund already" in desk.ann.open(where)


@pytest.mark.long
def test_only_its_author_or_an_operator_takes_a_label_away(desk: Desk) -> None:
    row = paid(desk)
    where = reverse("reviews:label", args=[row.thread_id, asked_at(row)])
    desk.ann.post(where, {"name": "One"})
    desk.ann.post(where, {"name": "Two"})
    one, two = Label.objects.order_by("pk")
    assert desk.ben.post(where, {"remove": str(one.pk)}).status == 403
    assert desk.aude.post(where, {"name": "Mine"}).status == 403
    assert desk.ann.post(where, {"remove": str(one.pk)}).status == 302
    assert desk.olga.post(where, {"remove": str(two.pk)}).status == 302
    assert not Label.objects.exists()


# --------------------------------------------------------------------------------------------------------- side by side


@pytest.mark.long
def test_a_fork_stands_beside_its_original_from_where_they_part(desk: Desk) -> None:
    row = paid(desk)
    original = row.thread
    fork = Thread.objects.get(pk=history.fork(original.pk, asked_at(row), author="olga", name="Less", go_on=False))
    answer = desk.ann.open(reverse("reviews:beside", args=[fork.pk]))
    assert answer.status == 200
    assert "Less" in answer
    assert "ann approved" in answer
    assert "message in common" in answer or "messages in common" in answer
    assert place(original, asked_at(row)) in answer.html
    assert "This thread is a fork" in desk.ann.open(place(fork))
    assert "Fork: “Less”" in desk.ann.open(place(original))


@pytest.mark.long
def test_what_the_original_did_after_the_fork_is_not_told_of_the_fork(desk: Desk) -> None:
    row = paid(desk)
    fork = Thread.objects.get(pk=history.fork(row.thread_id, asked_at(row), author="olga", name="Less"))
    desk.work()
    newest = [history.timeline(thread, limit=1).steps[0].point for thread in (row.thread_id, fork.pk)]
    sides = beside.beside(newest[0], newest[1]).sides
    assert [[question.thread_id for question, _ in side.questions] for side in sides] == [[row.thread_id], [fork.pk]]
    assert [side.calls for side in sides] == [(("pay", 1, 0),), ()]


@pytest.mark.long
def test_without_a_second_line_nothing_stands_beside(desk: Desk) -> None:
    row = paid(desk)
    assert "Nothing branches here yet" in desk.ann.open(reverse("reviews:beside", args=[row.thread_id]))


@pytest.mark.long
def test_branches_are_drawn_with_links_and_told_as_a_list(desk: Desk) -> None:
    row = paid(desk)
    history.rewind(row.thread_id, asked_at(row), author="olga")
    desk.work()
    answer = desk.ann.open(place(row.thread))
    assert "Branch 1" in answer
    assert "First line" in answer
    drawing = answer.html.partition('id="branches"')[2].partition("</svg>")[0]
    assert drawing.count("<a href=") == 2
    assert "branch 1" in answer.page.text
    assert runs.queue(row.thread_id).count() == 0
