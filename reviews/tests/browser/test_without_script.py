"""JavaScript is off: each verdict can be given all the same."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from reviews.tests.browser.conftest import Newcomer
from reviews.tests.browser.people import SOON, Person


@pytest.fixture
def plain(arrive: Newcomer) -> Person:
    return arrive("ben", java_script_enabled=False)


def begin(person: Person, agent: str, text: str) -> str:
    """Start a thread and open its question; without a script a person reloads."""
    page = person.open("/threads/")
    page.get_by_label("Agent", exact=True).select_option(agent)
    page.get_by_label("First message").fill(text)
    person.press("Start the thread")
    thread = page.url.rstrip("/").rpartition("/")[2]
    _reload_until(person, f"/?thread={thread}", ".inbox .what a")
    page.locator(".inbox .what a").first.click()
    return thread


def _reload_until(person: Person, path: str, selector: str) -> None:
    """Load a page again until it shows something: no script does that here, and no hint comes."""

    def look() -> None:
        person.open(path)
        expect(person.page.locator(selector).first).to_be_visible(timeout=100)

    for _ in range(SOON // 100):
        try:
            return look()
        except AssertionError:
            continue
    look()


def finish(person: Person, thread: str) -> None:
    expect(person.page.get_by_role("status").filter(has_text="Recorded")).to_be_visible()
    _reload_until(person, f"/threads/{thread}/", "#about header .chip:text-is('idle')")


def test_approve(plain: Person) -> None:
    thread = begin(plain, "support", "Refund order 10482.")
    plain.press("Run as asked")
    finish(plain, thread)
    ((kind, args),) = plain.desk.effects(thread)
    assert (kind, args["amount"]) == ("refund", 129.0)


def test_edit(plain: Person) -> None:
    thread = begin(plain, "support", "Refund order 10482.")
    plain.page.get_by_label("amount", exact=True).fill("70")
    plain.press("Run as asked")
    expect(plain.page.get_by_role("alert").first).to_contain_text("Nothing was recorded")
    plain.press("Run with my change")
    finish(plain, thread)
    ((_, args),) = plain.desk.effects(thread)
    assert args["amount"] == 70


def test_reject(plain: Person) -> None:
    thread = begin(plain, "support", "Refund order 10482.")
    plain.box("Reject with feedback").get_by_role("textbox").fill("No receipt.")
    plain.press("Reject and tell Support why")
    finish(plain, thread)
    expect(plain.page.locator("#talk")).to_contain_text("No receipt.")
    assert plain.desk.effects(thread) == []


def test_respond(plain: Person) -> None:
    thread = begin(plain, "support", "Refund order 10482.")
    plain.box("Respond in its place").get_by_role("textbox").fill("Done by hand.")
    plain.press("Give this as the result")
    finish(plain, thread)
    expect(plain.page.locator("#talk")).to_contain_text("Done by hand.")
    assert plain.desk.effects(thread) == []


def test_answer(plain: Person) -> None:
    thread = begin(plain, "onboarding", "Open an account for Jo Weiss.")
    plain.box("Answer").get_by_role("textbox").fill("yes")
    plain.press("Give this answer")
    finish(plain, thread)
    assert plain.desk.effects(thread) == [("account", {"applicant": "Open an account for Jo Weiss."})]


def test_a_batch(plain: Person) -> None:
    thread = begin(plain, "operations", "Clean up the stale carts.")
    for _ in range(3):
        plain.press("Mark: reject with this")
    plain.press("Submit 3 decisions")
    finish(plain, thread)
    assert {kind for kind, _ in plain.desk.effects(thread)} == {"sql", "file"}


def test_a_breakpoint(plain: Person) -> None:
    thread = begin(plain, "night-shift", "Restart the search.")
    plain.press("Run the next step")
    finish(plain, thread)
    assert [kind for kind, _ in plain.desk.effects(thread)] == ["restart"]
