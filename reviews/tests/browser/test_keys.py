"""Everything by keyboard: letters move and never decide, Ctrl+Enter sends the box one is in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from reviews.tests.browser.people import Person


@pytest.fixture
def refund(ann: Person) -> str:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too bright.")
    ann.take_up(thread)
    return thread


@pytest.fixture
def letters_off(ann: Person) -> Iterator[Page]:
    """Ann's page, with bare letters switched off in her settings."""
    for wanted in (False, True):
        page = ann.open("/settings/")
        page.get_by_label("Bare letters move").set_checked(wanted)
        ann.press("Keep these settings")
        expect(page.get_by_text("Settings kept")).to_be_visible()
        if not wanted:
            yield page


def test_letters_move_through_the_inbox(ann: Person) -> None:
    page = ann.open("/")
    rows = page.locator(".inbox .what a")
    page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()
    title = rows.nth(0).inner_text()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.keyboard.press("j")
    expect(page.get_by_text("2 of ")).to_be_visible()
    page.keyboard.press("k")
    expect(page.get_by_text("1 of ")).to_be_visible()
    page.keyboard.press("u")
    expect(page.locator(".inbox")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("j/k?")
    expect(page.get_by_role("searchbox")).to_have_value("j/k?")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys and help")).to_be_visible()


def test_letters_can_be_switched_off(ann: Person, letters_off: Page) -> None:
    page = ann.open("/")
    for letter in "jk/?u":
        page.keyboard.press(letter)
    expect(page).to_have_url(f"{ann.desk.url}/")
    assert page.evaluate("document.activeElement.matches('a, input')") is False


def test_no_letter_and_no_enter_in_a_field_decides(ann: Person, refund: str) -> None:
    page = ann.page
    for letter in "aeryx":
        page.keyboard.press(letter)
    page.get_by_label("amount", exact=True).press("Enter")
    page.get_by_label("amount", exact=True).press("Control+Enter")
    assert page.evaluate("document.activeElement.closest('[data-verb]') !== null") is True
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()
    expect(page.get_by_text("waits")).not_to_have_count(0)
    ann.watch(refund, "interrupted")


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter"])
def test_control_enter_sends_the_box_one_types_in(ann: Person, refund: str, keys: str) -> None:
    page = ann.page
    box = ann.box("Reject with feedback").get_by_role("textbox")
    box.fill("Ask for a photo first")
    box.press("Enter")
    box.press_sequentially("jk/u")
    box.press(keys)
    ann.see_recorded("rejected")
    ann.watch(refund)
    expect(page.locator("#talk")).to_contain_text("Ask for a photo first")
    expect(page.locator("#talk")).to_contain_text("jk/u")
    assert ann.desk.effects(refund) == []


def test_a_whole_decision_without_a_mouse(ann: Person, refund: str) -> None:
    """From the title, where the focus is, to the button: only Tab, typing and Enter."""
    page = ann.page
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    _tab_to(page, "Too bright.")
    page.keyboard.press("Control+a")
    page.keyboard.type("by keyboard")
    expect(page.get_by_role("button", name="Run with my change")).to_be_visible()
    _tab_to(page, "Run with my change")
    page.keyboard.press("Enter")
    ann.see_recorded("changed and approved")
    ann.watch(refund)
    ((_, args),) = ann.desk.effects(refund)
    assert args["note"] == "by keyboard"


def _tab_to(page: Page, words: str) -> None:
    """Press Tab until the focus is on what reads or holds ``words``; the ring must be seen on each stop."""
    for _ in range(60):
        page.keyboard.press("Tab")
        text, ring = page.evaluate(
            "() => { const here = document.activeElement, style = getComputedStyle(here);"
            " return [here.matches('input, textarea') ? here.value : here.innerText, style.outlineStyle]; }"
        )
        assert ring != "none", f"no focus ring on {text!r}"
        if words in text:
            return
    raise AssertionError(f"{words!r} cannot be reached by Tab")
