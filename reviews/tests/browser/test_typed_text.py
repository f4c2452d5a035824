"""What people typed is never lost: drafts, refusals, sessions that end."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from reviews.tests.browser.conftest import Newcomer
from reviews.tests.browser.people import Person, sign_in
from reviews.tests.browser.staff import PASSWORD


@pytest.fixture
def refund(ann: Person) -> str:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too green.")
    ann.take_up(thread)
    return thread


def test_a_draft_survives_a_reload_and_nobody_else_sees_it(ann: Person, ben: Person, refund: str) -> None:
    page = ann.page
    ann.change("amount", "64.25")
    with page.expect_response(re.compile("/draft/")):
        ann.box("Reject with feedback").get_by_role("textbox").fill("What did the shade cost?")
    page.reload()
    expect(page.get_by_label("amount", exact=True)).to_have_value("64.25")
    expect(ann.box("Reject with feedback").get_by_role("textbox")).to_have_value("What did the shade cost?")
    expect(page.get_by_role("button", name="Run with my change")).to_be_visible()

    ben.take_up(refund)
    expect(ben.page.get_by_label("amount", exact=True)).to_have_value("129.0")
    expect(ben.box("Reject with feedback").get_by_role("textbox")).to_have_value("")

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("amount", exact=True)).to_have_value("129.0")
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()
    expect(ann.box("Reject with feedback").get_by_role("textbox")).to_have_value("What did the shade cost?")


def test_the_wrong_button_records_nothing(ann: Person, refund: str) -> None:
    """The change reaches the server with the button of an untouched call: it is shown again, not guessed at."""
    page = ann.page
    page.evaluate("document.addEventListener('input', (event) => event.stopImmediatePropagation(), true)")
    page.get_by_label("amount", exact=True).fill("12")
    ann.press("Run as asked")
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded")
    expect(page.get_by_label("amount", exact=True)).to_have_value("12")
    ann.press("Run with my change")
    ann.see_recorded("changed and approved")
    ann.watch(refund)
    ((_, args),) = ann.desk.effects(refund)
    assert args["amount"] == 12


def test_a_value_that_does_not_fit_is_refused_at_its_field(ann: Person, refund: str) -> None:
    page = ann.page
    ann.change("amount", "1190")
    expect(ann.box("Approve, edited")).to_contain_text("1190 is more than 500")
    ann.press("Run with my change")
    amount = page.get_by_label("amount", exact=True)
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(amount).to_be_focused()
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was recorded")
    amount.press("End")
    amount.press("Backspace")
    ann.press("Run with my change")
    ann.see_recorded()
    ann.watch(refund)
    ((_, args),) = ann.desk.effects(refund)
    assert args["amount"] == 119


def test_a_session_that_ended_under_an_open_form(arrive: Newcomer, ann: Person, refund: str) -> None:
    late = arrive()
    sign_in(late.page, late.desk.url, "ben")
    page = late.take_up(refund)
    late.change("amount", "31")
    late.context.clear_cookies(name="sessionid")
    late.box("Reject with feedback").get_by_role("textbox").fill("Read this after lunch.")
    expect(page.get_by_text("You are signed out")).to_be_visible()
    late.press("Reject and tell Support why")
    page.get_by_label("User name").fill("ben")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(late.box("Reject with feedback").get_by_role("textbox")).to_have_value("Read this after lunch.")
    expect(page.get_by_label("amount", exact=True)).to_have_value("31")
    late.press("Reject and tell Support why")
    late.see_recorded("rejected")
    late.watch(refund)
    assert late.desk.effects(refund) == []


def test_long_numbers_keep_their_digits_and_types(ann: Person) -> None:
    """HC-07: in a real browser only the note is changed."""
    thread = ann.start("bank", "Move it.")
    ann.take_up(thread)
    ann.change("note", "y")
    ann.press("Run with my change")
    ann.see_recorded("changed and approved")
    ann.watch(thread)
    ((kind, args),) = ann.desk.effects(thread)
    wanted = {
        "account": 9007199254740993,
        "snow": 2512292042121000001,
        "u64": 18446744073709551615,
        "low": -9223372036854775808,
        "price": 0.1,
        "whole": 1.0,
        "note": "y",
    }
    assert (kind, args) == ("transfer", wanted)
    assert {name: type(value) for name, value in args.items()} == {name: type(v) for name, v in wanted.items()}
    assert isinstance(args["whole"], float)


def test_big_numbers_in_the_raw_json(ann: Person) -> None:
    thread = ann.start("bank", "Move it once more.")
    page = ann.take_up(thread)
    page.get_by_role("link", name="Raw JSON").click()
    text = page.get_by_label("Arguments as JSON, as they will run")
    text.fill(text.input_value().replace("18446744073709551615", "18446744073709551614"))
    expect(page.get_by_role("button", name="Run with my change")).to_be_visible()
    ann.press("Run with my change")
    ann.see_recorded()
    ann.watch(thread)
    ((_, args),) = ann.desk.effects(thread)
    assert (args["u64"], args["snow"], args["note"]) == (18446744073709551614, 2512292042121000001, "x")
