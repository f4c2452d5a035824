"""One question and the decision on it, through the door, as a browser without scripts has it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models.sql.compiler import SQLCompiler
from django.test import Client
from django.urls import reverse

from reviews.models import AuditEntry, Decision, Draft, Interrupt
from reviews.tests.cast import (
    APPROVE,
    PAY_SCHEMA,
    REJECT,
    Cast,
    ask,
    ask_calls,
    decide,
    effect,
    file_outcome,
    hitl,
    new_thread,
)
from reviews.tests.pages import Page, look, page_of, press

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


# ------------------------------------------------------------------------------------------------------- the four verbs


def test_ann_approves_and_comes_to_the_next_question(cast: Cast, ann: Client, payment: Interrupt) -> None:
    other = file_outcome(new_thread("Another"), ask_calls(("pay", {"amount": 7})))[0]
    response = press(ann, look(ann, path_of(payment)), "approve")
    assert response.status_code == 303
    assert response.url == path_of(other)
    assert decision_of(payment).verdict == "approve"
    page = look(ann, response.url)
    assert "Recorded: approved" in page.text
    assert page.focus == "h1"


def test_after_the_last_one_the_inbox_says_that_it_was_recorded(ann: Client, payment: Interrupt) -> None:
    response = press(ann, look(ann, path_of(payment)), "approve")
    assert response.url == reverse("reviews:inbox")
    page = look(ann, response.url)
    assert "Recorded: approved" in page.text
    assert "No open questions here" in page.text


def test_feedback_goes_with_a_rejection_to_the_letter(ann: Client, payment: Interrupt) -> None:
    press(ann, look(ann, path_of(payment)), "reject", why="Too much.\nAsk for 3.")
    assert decision_of(payment).message == "Too much.\nAsk for 3."


def test_a_response_stands_apart_and_says_what_it_does(ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    assert "takes your text as the tool’s successful result" in page.text
    press(ann, page, "respond", result="Paid by hand")
    assert (decision_of(payment).verdict, decision_of(payment).message) == ("respond", "Paid by hand")


def test_a_blank_response_is_refused_at_its_field(ann: Client, payment: Interrupt) -> None:
    response = press(ann, look(ann, path_of(payment)), "respond", result="  ")
    page = page_of(response)
    assert response.status_code == 422
    assert page.focus.endswith("-result")
    assert "the agent would take a blank one as the result" in page.text
    assert not Decision.objects.exists()


def test_a_change_runs_and_the_rest_stays_the_agents_own(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5, "urgent": True, "tags": ["a"]}), schema=PAY_SCHEMA))
    first = press(ann, look(ann, path_of(row)), "approve", amount="3")
    assert first.status_code == 422, "approve with a touched field is no verdict"
    page = page_of(first)
    assert ("decision", "edit") in page.buttons()
    assert ("decision", "approve") not in page.buttons()
    assert "Run with my change" in page.text
    assert not Decision.objects.exists()
    assert press(ann, page, "edit").status_code == 303
    assert decision_of(row).args == {"amount": 3, "urgent": True, "tags": ["a"]}


def test_edit_without_a_change_records_nothing(ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    form = page.form_with("decision", "approve")
    response = ann.post(path_of(payment), {**form.fields, "decision": "edit"})
    assert response.status_code == 422
    assert "Nothing is changed" in page_of(response).text
    assert not Decision.objects.exists()


def test_a_wrong_value_keeps_all_typed_text_and_gets_the_focus(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5}), schema=PAY_SCHEMA))
    response = press(ann, look(ann, path_of(row)), "approve", amount="3,5", why="Half is enough")
    page = page_of(response)
    form = page.form_with("decision", "reject")
    assert response.status_code == 422
    assert form.fields[f"i{row.pk}-0-amount"] == "3,5"
    assert form.fields[f"d{row.pk}-0-why"] == "Half is enough"
    assert f"i{row.pk}-0-amount-error" in page.ids


def test_a_type_that_no_schema_allows_is_asked_about_once_more(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": {"eur": 5}})))
    shown = page_of(press(ann, look(ann, path_of(row)), "approve", amount="5"))
    again = press(ann, shown, "edit")
    assert again.status_code == 422
    assert "changes from object to whole number" in page_of(again).text
    assert not Decision.objects.exists()
    sure = press(ann, page_of(again), "edit", **{f"d{row.pk}-0-sure": "1"})
    assert sure.status_code == 303
    assert decision_of(row).args == {"amount": 5}


def test_big_whole_numbers_survive_to_the_digit(cast: Cast, ann: Client) -> None:
    big = 2**53 + 1
    row = filed(cast, ask_calls(("pay", {"amount": big, "to": "a"})))
    press(ann, page_of(press(ann, look(ann, path_of(row)), "approve", to="b")), "edit")
    assert decision_of(row).args == {"amount": big, "to": "b"}


def test_the_raw_json_tab_edits_the_same_call(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5, "to": "a"})))
    page = look(ann, path_of(row, "?raw=1"))
    text = json.dumps({"amount": 4, "to": "a"})
    changed = page_of(press(ann, page, "approve", **{f"d{row.pk}-0-json": text}))
    assert press(ann, changed, "edit").status_code == 303
    assert decision_of(row).args == {"amount": 4, "to": "a"}


def test_a_key_twice_in_the_raw_json_is_ambiguous(ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment, "?raw=1"))
    key = f"d{payment.pk}-0-json"
    response = press(ann, page, "approve", **{key: '{"amount": 10, "amount": 9999}'})
    assert response.status_code == 422
    assert page_of(response).form_with("decision", "reject").fields[key] == '{"amount": 10, "amount": 9999}'
    assert not Decision.objects.exists()


def test_text_of_the_other_tab_is_not_lost(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5, "to": "a"}), schema=PAY_SCHEMA))
    page_of(press(ann, look(ann, path_of(row)), "approve", amount="3,5"))
    raw = look(ann, path_of(row, "?raw=1"))
    assert "In the field amount" in raw.text
    draft = reverse("reviews:draft", args=[row.pk])
    ann.post(draft, raw.form_with("decision", "reject").fields | {f"d{row.pk}-0-why": "No"})
    fields = look(ann, path_of(row, "?raw=0")).form_with("decision", "reject").fields
    assert (fields[f"i{row.pk}-0-amount"], fields[f"d{row.pk}-0-why"]) == ("3,5", "No")


def test_only_what_is_allowed_has_a_button(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5}), allowed=("approve", "reject")))
    page = look(ann, path_of(row))
    assert {value for name, value in page.buttons() if name == "decision"} == {"approve", "reject"}
    assert "do not let you change it or respond in its place" in page.text


def test_a_forged_verdict_is_refused(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5}), allowed=("approve",)))
    form = look(ann, path_of(row)).form_with("decision", "approve")
    response = ann.post(path_of(row), {**form.fields, "decision": "respond", f"d{row.pk}-0-result": "Paid"})
    assert response.status_code == 422
    assert not Decision.objects.exists()


# ---------------------------------------------------------------------------------------------------- races and repeats


def test_the_same_form_sent_twice_counts_once(ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    first, second = press(ann, page, "approve"), press(ann, page, "approve")
    assert (first.status_code, second.status_code) == (303, 303)
    assert Decision.objects.count() == 1
    assert AuditEntry.objects.filter(kind="decision recorded").count() == 1


def test_the_second_of_two_learns_who_was_faster_and_keeps_the_text(
    cast: Cast, ann: Client, payment: Interrupt
) -> None:
    page = look(ann, path_of(payment))
    decide(cast.ben, payment, REJECT)
    response = press(ann, page, "respond", result="Paid by hand", why="or not")
    shown = page_of(response)
    assert response.status_code == 409
    assert "ben rejected this" in shown.text
    assert "Not like this." in shown.text
    assert "not recorded" in shown.text
    assert "Paid by hand" in shown.html
    assert shown.focus == "h1"
    assert decision_of(payment).user == cast.ben


def test_text_kept_after_a_conflict_is_there_until_it_is_cleared(cast: Cast, ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    decide(cast.ben, payment, REJECT)
    press(ann, page, "respond", result="Paid by hand")
    later = look(ann, path_of(payment))
    assert "Yours, not recorded" in later.text
    assert "Paid by hand" in later.html
    press(ann, later, "1", name="clear")
    assert "Paid by hand" not in look(ann, path_of(payment)).html


def test_nobody_else_sees_a_draft(cast: Cast, ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    ann.post(
        reverse("reviews:draft", args=[payment.pk]),
        {**page.form_with("decision", "reject").fields, f"d{payment.pk}-0-why": "secret"},
    )
    assert "secret" in look(ann, path_of(payment)).html
    ben = Client()
    ben.force_login(cast.ben)
    assert "secret" not in look(ben, path_of(payment)).html


def test_a_form_made_on_other_arguments_is_stale(cast: Cast, ann: Client, payment: Interrupt) -> None:
    page = look(ann, path_of(payment))
    newer = file_outcome(cast.thread, ask_calls(("pay", {"amount": 500})))[0]
    response = press(ann, page, "approve")
    assert response.status_code == 409
    assert path_of(newer) in page_of(response).html
    assert not Decision.objects.exists()


def test_the_back_button_never_shows_a_decided_one_as_open(cast: Cast, ann: Client, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)
    response = ann.get(path_of(payment))
    assert "no-store" in response["Cache-Control"]
    page = page_of(response)
    assert not [value for name, value in page.buttons() if name == "decision"]
    assert "decided" in page.text


def test_a_page_that_stays_open_hears_what_happened(cast: Cast, ann: Client, payment: Interrupt) -> None:
    address = reverse("reviews:changed", args=[payment.pk]) + "?status=open"
    assert look(ann, address).text == ""
    decide(cast.ben, payment, APPROVE)
    assert "ben decided this" in look(ann, address).text


# -------------------------------------------------------------------------------------------- what is seen is what runs


def test_hidden_characters_are_chips_and_a_warning_leads_to_them(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"to": "abc\u202edef", "amount": 5})))
    page = look(ann, path_of(row))
    assert "1 hidden character in to" in page.text
    assert "U+202E" in page.text
    assert "\u202e" not in page.html
    assert f"arg-i{row.pk}-0-to" in page.ids


def test_hidden_characters_can_be_taken_out(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"to": "abc\u202edef", "amount": 5})))
    response = press(ann, look(ann, path_of(row)), "to", name="strip")
    page = look(ann, response.url.partition("#")[0])
    assert "Run with my change" in page.text
    assert press(ann, page, "edit").status_code == 303
    assert decision_of(row).args == {"to": "abcdef", "amount": 5}


def test_undo_brings_the_agents_value_back(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"to": "abc", "amount": 5})))
    changed = page_of(press(ann, look(ann, path_of(row)), "approve", amount="6"))
    response = press(ann, changed, "amount", name="undo")
    page = look(ann, response.url.partition("#")[0])
    assert page.form_with("decision", "approve").fields[f"i{row.pk}-0-amount"] == "5"


@pytest.mark.parametrize(
    "text",
    [
        '<div hx-post="/approve" hx-trigger="load">x</div>',
        "</textarea><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "[a](javascript:alert(1)) ![b](https://example.test/x.png)",
    ],
)
def test_markup_of_an_agent_does_nothing(cast: Cast, ann: Client, text: str) -> None:
    value = hitl(("pay", {"to": text, text: 1}))
    value["action_requests"][0]["description"] = text
    row = filed(cast, ask(value))
    for query in ("", "?raw=1", "?full=to"):
        page = look(ann, path_of(row, query))
        assert not page.inline
        assert "<img" not in page.html
        assert 'hx-post="/approve"' not in page.html
        assert 'href="javascript:' not in page.html
        assert ("decision", "approve") in page.buttons()


@pytest.mark.long
def test_a_huge_argument_is_cut_with_its_size_and_whole_on_demand(cast: Cast, ann: Client) -> None:
    huge = "abcdefghi\n" * 500_000
    row = filed(cast, ask_calls(("write", {"path": "a.txt", "content": huge})))
    response = ann.get(path_of(row))
    assert len(response.content) < 1_000_000
    page = page_of(response)
    assert "Show all 5.0 MB" in page.text
    assert len(look(ann, path_of(row, "?full=content")).html) > 5_000_000
    download = ann.get(reverse("reviews:download", args=[row.pk]) + "?action=1&name=content")
    assert download.content.decode() == huge
    assert download["Content-Disposition"].startswith("attachment")
    assert press(ann, page, "approve").status_code == 303


def test_the_description_stands_in_the_agents_voice_below_the_arguments(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5})))
    html = look(ann, path_of(row)).html
    assert html.index('class="args"') < html.index('<figure class="said">') < html.index('class="verbs"')
    assert "in its own words. Nobody has checked them." in html


# ---------------------------------------------------------------------------------------------------- what became of it


def test_executed_other_than_decided_is_red(cast: Cast, ann: Client, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)
    file_outcome(
        cast.thread, effects=(effect(payment, "executed", args={"name": "pay", "args": {"amount": 6}}, differs=True),)
    )
    page = look(ann, path_of(payment))
    assert "Executed is not what was decided" in page.text
    assert "data-red" in page.html


def test_executed_as_decided_is_plain(cast: Cast, ann: Client, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)
    file_outcome(cast.thread, effects=(effect(payment, "executed", args={"amount": 5}, name="pay", result="paid"),))
    page = look(ann, path_of(payment))
    assert "Executed ran" in page.text
    assert "paid" in page.text
    assert "data-red" not in page.html


def test_a_get_changes_nothing(cast: Cast, ann: Client, payment: Interrupt) -> None:
    for query in ("", "?raw=1", "?action=1", "?decision=approve"):
        look(ann, path_of(payment, query))
    assert ann.get(reverse("reviews:draft", args=[payment.pk])).status_code == 302
    payment.refresh_from_db()
    assert payment.status == "open"
    assert not Draft.objects.exists()


def test_a_kept_draft_answers_with_the_box_as_it_is_now(cast: Cast, ann: Client) -> None:
    row = filed(cast, ask_calls(("pay", {"amount": 5}), schema=PAY_SCHEMA))
    fields = look(ann, path_of(row)).form_with("decision", "approve").fields | {f"i{row.pk}-0-amount": "4"}
    response = ann.post(reverse("reviews:draft", args=[row.pk]), fields, headers={"HX-Request": "true"})
    fragment = page_of(response)
    assert response.status_code == 200
    assert "Run with my change" in fragment.text
    assert "draft kept" in fragment.text
    assert f"state-i{row.pk}-0-amount" in fragment.ids
    assert isinstance(fragment, Page)


def test_a_form_sent_beside_its_page_is_told_where_to_go_and_what_to_say(ann: Client, payment: Interrupt) -> None:
    """The words are not kept for the next page as well: it is the page that says them."""
    form = {"version": payment.version, "digest": payment.digest, "submit_token": "t", "decision": "approve"}
    answer = ann.post(path_of(payment), form, headers={"Sent-Beside": "1"})
    assert (answer.status_code, answer.headers["Go-To"]) == (200, reverse("reviews:inbox"))
    assert "Recorded: approved" in answer.text
    assert "Recorded: approved" not in ann.get(answer.headers["Go-To"]).text


# ---------------------------------------------------------------------------------------------------------------- costs


def test_a_key_that_no_row_can_have_is_none(cast: Cast, ann: Client, payment: Interrupt) -> None:
    for pk in (payment.pk + 100, 2**63 - 1, 2**63, 10**40):
        for name in ("interrupt", "looking", "changed", "download"):
            assert ann.get(reverse(f"reviews:{name}", args=[pk])).status_code == 404


def test_a_question_costs_few_queries_and_the_orm_writes_none(
    cast: Cast, ann: Client, payment: Interrupt, django_assert_max_num_queries: Any
) -> None:
    look(ann, path_of(payment))
    other = file_outcome(new_thread("Another"), ask_calls(("pay", {"amount": 7})))[0]
    with patch.object(SQLCompiler, "as_sql", side_effect=AssertionError), django_assert_max_num_queries(22):
        look(ann, path_of(other))
