"""HC-12, HC-13 and HC-23: several actions are decided together, in the order of the request, and exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse
from langchain_core.messages import HumanMessage

from agents.models import Run
from agents.tests.graphs import turns
from reviews import audit
from reviews.models import Decision, Draft, Interrupt
from reviews.tests.door import Answer, Desk, Visitor, entries, own, results

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


def card(person: Visitor, row: Interrupt, number: int) -> Answer:
    return person.open(row, action=number)


def mark(person: Visitor, row: Interrupt, number: int, verb: str, **typed: Any) -> Answer:
    """Mark one action of a batch; an edit is typed first, and then its own button is pressed."""
    page = card(person, row, number)
    if verb == "edit":
        page = person.press(page, "approve", **typed)
        assert page.status == 422
        typed = {}
    return person.press(page, verb, **typed)


def submit(person: Visitor, row: Interrupt) -> Answer:
    return person.press(person.open(row), "submit")


def calls(answer: Any) -> list[str]:
    return [one["type"] for one in answer["decisions"]]


# ------------------------------------------------------------------------------- HC-12: only the gated calls of a turn

TURN = turns([("pay", {"amount": 5}), ("read", {"id": 1}), ("pay", {"amount": 7})])


def test_only_gated_calls_are_cards_and_each_call_of_the_turn_runs_once(desk: Desk) -> None:
    row = desk.ask(text=TURN)
    assert [(action.name, action.args["amount"]) for action in row.actions.all()] == [("pay", 5), ("pay", 7)]
    for _ in range(2):  # as it was pushed, and as it is after a reload
        page = desk.ann.open(row)
        assert "0 of 2 decided" in page
        assert "not asked about: runs by itself afterwards" in page
    assert desk.ran == []

    mark(desk.ann, row, 1, "approve")
    mark(desk.ann, row, 2, "approve")
    assert desk.resumes == []
    assert submit(desk.ann, row).status == 303
    desk.work()

    (resume,) = desk.resumes
    assert calls(resume[row.interrupt_id]) == ["approve", "approve"]
    assert sorted((name, *args.values()) for name, args in desk.ran) == [("pay", 5), ("pay", 7), ("read", 1)]


def test_one_decision_or_three_are_refused_before_the_graph_hears_of_them(desk: Desk) -> None:
    row = desk.ask(text=TURN)
    mark(desk.ann, row, 1, "approve")
    page = desk.ann.open(row)
    assert "action 2 has no decision yet" in page
    assert "submit" not in page.offers

    summary = next(form for form in page.page.forms if "marks" in form.fields)
    one = desk.ann.post(page.address, summary.fields | {"decision": "submit"})
    assert one.status == 422
    assert "no decision yet" in one

    third = {"action": "3", own(row, "why"): "a third"}
    three = desk.ann.forge(card(desk.ann, row, 2), "approve", **third)
    assert three.status in (404, 422)
    assert Draft.objects.filter(action__interrupt=row).exclude(verdict="").count() == 1, "it marked another action"
    desk.assert_untouched(row)


# ------------------------------------------------------------------------------------------------ HC-13: a mixed batch

THREE = turns([("pay", {"amount": 5}), ("wipe", {"path": "/tmp/x"}), ("mail", {"to": "a@example.test"})])  # noqa: S108
REASON = 'Keep it.\nSecond line "quoted" مرحبا'


def test_a_mixed_batch_keeps_its_order_its_words_and_all_its_results(desk: Desk) -> None:
    row = desk.ask(text=THREE)
    mark(desk.ann, row, 3, "edit", to="b@example.test")
    mark(desk.ann, row, 1, "approve")
    mark(desk.ann, row, 2, "reject", why=REASON)
    assert submit(desk.ann, row).status == 303
    desk.work()

    (resume,) = desk.resumes
    assert calls(resume[row.interrupt_id]) == ["approve", "reject", "edit"]
    assert sorted(desk.ran) == [("mail", {"to": "b@example.test"}), ("pay", {"amount": 5})]

    told = results(desk.seen[1])
    assert [len(messages) for messages in told.values()] == [1, 1, 1]
    paid, wiped, mailed = (messages[0] for messages in told.values())
    assert [one.status for one in (paid, wiped, mailed)] == ["success", "error", "success"]
    assert REASON in wiped.content
    assert "b@example.test" in mailed.content

    page = desk.aude.open(reverse("reviews:interrupt", args=[row.pk]))
    assert "approved" in page
    assert "rejected" in page
    assert "approved, edited" in page
    assert [entry.verdict for entry in entries("decision recorded", row)] == ["mixed"]
    assert audit.verify() == []


def test_the_model_is_asked_again_on_the_same_thread(desk: Desk) -> None:
    row = desk.ask(text=THREE)
    for number in (1, 2):
        mark(desk.ann, row, number, "reject")
    mark(desk.ann, row, 3, "approve")
    submit(desk.ann, row)
    desk.work()

    (resume,) = desk.resumes
    assert resume[row.interrupt_id]["decisions"][:2] == [{"type": "reject"}] * 2, "an empty box is no message"
    thread = desk.olga.open(row.thread)
    composer = next(form for form in thread.page.forms if "text" in form.fields)
    assert desk.olga.post(thread.address, composer.fields | {"text": "And now?"}).status == 302
    desk.work()
    assert desk.seen[-1][-1].content == "And now?"
    assert all(len(messages) == 1 for messages in results(desk.seen[-1]).values())
    assert sum(isinstance(message, HumanMessage) for message in desk.seen[-1]) == 2
    assert "You said: And now?" in desk.olga.open(row.thread)


# -------------------------------------------------------------------------------- HC-23: one reviewer, the same submit


def test_the_same_post_by_hand_after_success_changes_nothing(desk: Desk) -> None:
    row = desk.ask(text=turns([("pay", {"amount": 100})]))
    page = desk.ann.open(row)
    first = desk.ann.press(page, "approve")
    desk.work()
    again = [desk.ann.press(page, "approve") for _ in range(3)]
    desk.work()

    assert [first.status, *(answer.status for answer in again)] == [303] * 4
    assert "Recorded: approved" in desk.ann.open(reverse("reviews:inbox"))
    assert (len(desk.resumes), desk.paid()) == (1, [100])
    assert len(entries("decision recorded", row)) == 1


def test_another_verdict_from_the_same_form_or_another_tab_is_told_what_was_decided(desk: Desk) -> None:
    row = desk.ask(text=turns([("pay", {"amount": 100})]))
    first, second = desk.ann.open(row), desk.ann.open(row)
    desk.ann.press(first, "approve")

    late = desk.ann.press(second, "reject", why="On second thoughts, no.")
    assert late.status == 409
    assert "You approved this" in late
    assert "On second thoughts, no." in late
    desk.work()
    assert (len(desk.resumes), desk.paid(), Decision.objects.get().verdict) == (1, [100], "approve")


@pytest.fixture
def four_hands() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_clicks_at_the_same_moment_are_one_decision(desk: Desk, four_hands: ThreadPoolExecutor) -> None:
    """A double click, and a proxy that sends the same request again: in threads of their own, as a server has them."""
    row = desk.ask(text=turns([("pay", {"amount": 100})]))
    page = desk.ann.open(row)
    starting = threading.Barrier(4)

    def click(_: int) -> int:
        clicker = Visitor(desk.cast.ann)
        clicker.client.cookies.update(desk.ann.client.cookies)
        starting.wait(timeout=30)
        try:
            return clicker.press(page, "approve").status
        finally:
            connection.close()

    assert list(four_hands.map(click, range(4))) == [303] * 4
    desk.work()
    assert (len(desk.resumes), desk.paid()) == (1, [100])
    assert Run.objects.filter(kind="resume").count() == len(entries("decision recorded", row)) == 1
