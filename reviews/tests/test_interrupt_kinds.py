"""Questions of several actions, and the other kinds of questions, through the door."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.outcome import Sibling
from reviews.models import Decision, Draft, Interrupt
from reviews.tests.cast import (
    Cast,
    ask,
    ask_calls,
    file_outcome,
)
from reviews.tests.pages import look, page_of, press

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(cast: Cast, client: Client) -> Client:
    client.force_login(cast.ann)
    return client


def path_of(row: Interrupt, query: str = "") -> str:
    return reverse("reviews:interrupt", args=[row.pk]) + query


def filed(cast: Cast, *asks: Any) -> Interrupt:
    return file_outcome(cast.thread, *asks)[0]


def decision_of(row: Interrupt, position: int = 0) -> Decision:
    return Decision.objects.get(action__interrupt=row, action__position=position)


# ------------------------------------------------------------------------------------------------------ several actions


def batch(cast: Cast) -> Interrupt:
    return filed(cast, ask_calls(("pay", {"amount": 5}), ("mail", {"to": "a@example.test"}), ("pay", {"amount": 9})))


@pytest.mark.long
def test_a_batch_is_marked_one_by_one_and_sent_once(cast: Cast, ann: Client) -> None:
    row = batch(cast)
    page = look(ann, path_of(row))
    assert "0 of 3 decided" in page.text
    first = press(ann, page, "approve")
    assert first.url == path_of(row, "?action=2")
    second = press(ann, look(ann, first.url), "reject", why="Not by mail")
    third = press(ann, page_of(press(ann, look(ann, second.url), "approve", amount="8")), "edit")
    assert not Decision.objects.exists(), "marking decides nothing"
    ready = look(ann, third.url)
    assert "3 of 3 decided" in ready.text
    assert press(ann, ready, "submit").status_code == 303
    made = Decision.objects.filter(action__interrupt=row).order_by("action__position")
    assert [(one.verdict, one.message, one.args) for one in made] == [
        ("approve", None, None),
        ("reject", "Not by mail", None),
        ("edit", None, {"amount": 8}),
    ]
    assert not Draft.objects.exists()


def test_an_incomplete_batch_is_locked_and_says_what_is_missing(cast: Cast, ann: Client) -> None:
    row = batch(cast)
    press(ann, look(ann, path_of(row)), "approve")
    page = look(ann, path_of(row))
    assert "1 of 3 decided" in page.text
    assert ("decision", "submit") not in page.buttons()
    assert path_of(row, "?action=2") in page.html
    form = next(one for one in page.forms if "marks" in one.fields)
    response = ann.post(path_of(row), {**form.fields, "decision": "submit"})
    assert response.status_code == 422
    assert not Decision.objects.exists()


def test_a_mark_goes_when_its_text_changes(cast: Cast, ann: Client) -> None:
    row = batch(cast)
    press(ann, look(ann, path_of(row)), "reject", why="No")
    page = look(ann, path_of(row, "?action=1"))
    fields = page.form_with("decision", "reject").fields | {f"d{row.pk}-0-why": "No, because"}
    ann.post(reverse("reviews:draft", args=[row.pk]), fields)
    assert "0 of 3 decided" in look(ann, path_of(row)).text


@pytest.mark.long
def test_what_a_second_tab_changed_is_not_submitted_unseen(cast: Cast, ann: Client) -> None:
    row = batch(cast)
    for number in (1, 2, 3):
        press(ann, look(ann, path_of(row, f"?action={number}")), "approve")
    ready = look(ann, path_of(row))
    press(ann, look(ann, path_of(row, "?action=2")), "reject", why="Second thoughts")
    response = press(ann, ready, "submit")
    assert response.status_code == 422
    assert "changed in another tab" in page_of(response).text
    assert not Decision.objects.exists()


@pytest.mark.long
def test_a_batch_sent_twice_counts_once(cast: Cast, ann: Client) -> None:
    row = batch(cast)
    for number in (1, 2, 3):
        press(ann, look(ann, path_of(row, f"?action={number}")), "approve")
    ready = look(ann, path_of(row))
    assert [press(ann, ready, "submit").status_code for _ in range(2)] == [303, 303]
    assert Decision.objects.count() == 3


def test_questions_of_one_pause_stand_under_each_other(cast: Cast, ann: Client) -> None:
    rows = file_outcome(
        cast.thread,
        ask_calls(("pay", {"amount": 5}), interrupt_id="a" * 32),
        ask_calls(("mail", {"to": "b"}), interrupt_id="b" * 32, message="ai-2"),
    )
    page = look(ann, path_of(rows[0]))
    assert f"interrupt-{rows[0].pk}" in page.ids
    assert f"interrupt-{rows[1].pk}" in page.ids
    response = press(ann, page, "approve")
    assert response.url == path_of(rows[1]), "the other one of the pause comes next"
    assert len(page.ids) == len(set(page.ids))


def test_calls_of_the_turn_that_nobody_is_asked_about_are_shown(cast: Cast, ann: Client) -> None:
    row = filed(
        cast, ask_calls(("pay", {"amount": 5}), siblings=[Sibling("look_up", {"id": 1}, "ran", result="found")])
    )
    page = look(ann, path_of(row))
    assert "Also in this turn" in page.text
    assert "ran already" in page.text
    assert "found" in page.text


# ------------------------------------------------------------------------------------------------------- other dialects


def test_a_question_takes_text_or_json(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask("How many?"))
    page = look(ann, path_of(row))
    press(ann, page, "respond", result="7", mode="json")
    assert decision_of(row).value == {"value": 7}


def test_a_question_answered_as_text_stays_text(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask("How many?"))
    press(ann, look(ann, path_of(row)), "respond", result="7")
    assert (decision_of(row).message, decision_of(row).value) == ("7", None)


def test_broken_json_is_refused_and_kept(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask("How many?"))
    response = press(ann, look(ann, path_of(row)), "respond", result="[1,", mode="json")
    assert response.status_code == 422
    assert "[1," in page_of(response).html
    assert not Decision.objects.exists()


def test_offered_choices_are_buttons_and_free_text_stays_possible(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask({"question": "Which?", "options": ["A", "B"]}))
    page = look(ann, path_of(row))
    assert "The agent offers" in page.text
    press(ann, page, "respond", **{f"d{row.pk}-0-choice": "B"})
    assert decision_of(row).message == "B"


def test_a_schema_makes_a_form(cast: Cast, ann: Client) -> None:
    schema = {"type": "object", "properties": {"nights": {"type": "integer", "minimum": 1}}, "required": ["nights"]}
    row = filed(cast, ask({"question": "How long?"}, response_schema=schema))
    wrong = press(ann, look(ann, path_of(row)), "respond", nights="0")
    assert wrong.status_code == 422
    assert press(ann, page_of(wrong), "respond", nights="3").status_code == 303
    assert decision_of(row).value == {"value": {"nights": 3}}


def test_a_breakpoint_goes_on_or_stops(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask({"next": ["tools"], "calls": []}, kind="breakpoint", interrupt_id="breakpoint:1"))
    page = look(ann, path_of(row))
    assert "Run the next step" in page.text
    assert press(ann, page, "reject").status_code == 303
    assert decision_of(row).verdict == "reject"


def test_running_again_needs_a_tick(cast: Cast, ann: Client) -> None:
    value = {"name": "pay", "args": {"amount": 5}}
    row = filed(cast, ask(value, kind="execution", interrupt_id="execution:1"))
    page = look(ann, path_of(row))
    refused = press(ann, page, "approve")
    assert refused.status_code == 422
    assert not Decision.objects.exists()
    assert press(ann, page_of(refused), "approve", **{f"d{row.pk}-0-sure": "1"}).status_code == 303


def test_a_value_that_breaks_its_rules_is_shown_raw_with_no_verbs(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask({"action_requests": [{"name": "pay", "args": {}}], "review_configs": []}))
    page = look(ann, path_of(row))
    assert row.held_code
    assert "breaks its own rules" in page.text
    assert "action_requests" in page.text
    assert not [value for name, value in page.buttons() if name == "decision"]
    response = ann.post(path_of(row), {"version": 1, "digest": row.digest, "submit_token": "x", "decision": "approve"})
    assert response.status_code in (409, 422)
    assert not Decision.objects.exists()
