"""After a decision the next question takes the place of the last one: nothing is loaded anew, and nothing is missed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from reviews.tests.browser.people import SOON, Person

NEXT = re.compile(r"/interrupts/\d+/\?q=lamp[0-9a-f]+$")
COUNT = "#open-count"


@pytest.fixture
def lamp() -> str:
    """A word that no other test writes, to find this test's questions by."""
    return f"lamp{secrets.token_hex(4)}"


@pytest.fixture
def questions(ann: Person, lamp: str) -> Page:
    """The page of the first of two questions, opened from the list of those that name the lamp."""
    for _ in range(2):
        ann.start("support", f"Refund order 10482. The customer wrote: {lamp} bent.")
    page = ann.open(f"/?q={lamp}")
    page.locator(".inbox .what a").first.click()
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()
    page.evaluate("window.stays = true")
    return page


def stays(page: Page) -> bool:
    return bool(page.evaluate("window.stays ?? false"))


def count(page: Page) -> int:
    return int((page.locator(COUNT).text_content() or "0").split()[0])


def test_the_next_question_comes_without_a_new_page(ann: Person, questions: Page) -> None:
    page, first, before = questions, questions.url, count(questions)
    ann.press("Run as asked")
    ann.see_recorded("approved")
    expect(page).to_have_url(NEXT)
    assert page.url != first
    assert stays(page)
    expect(page.locator("#line")).to_have_text("Live")
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()
    expect(page.locator(COUNT)).to_have_text(re.compile(rf"^\s*{before - 1} "))
    expect(page).to_have_title(re.compile(rf"^\({before - 1}\) "))

    ann.press("Run as asked")  # the form that came is a form like any other
    ann.see_recorded("approved")

    page.go_back()  # a page of before is loaded, and never shown as it was
    expect(page).to_have_url(NEXT)
    expect(page.get_by_text("As proposed.")).to_be_visible()
    assert not stays(page)


def test_a_hint_on_the_way_to_the_next_question_is_heard(ann: Person, ben: Person, questions: Page, lamp: str) -> None:
    page, held, before = questions, list[tuple[Route, APIResponse]](), count(questions)

    def hold(route: Route) -> None:
        if route.request.method == "GET":
            held.append((route, route.fetch()))
        else:
            route.continue_()

    page.route(NEXT, hold)
    page.get_by_role("button", name="Run as asked").click()
    expect(page.locator(COUNT)).to_have_text(re.compile(rf"^\s*{before - 1} "), timeout=SOON)
    ben.start("support", f"Refund order 10482. The customer wrote: {lamp} too loud.")
    expect(page.locator(COUNT)).to_have_text(re.compile(rf"^\s*{before} "), timeout=SOON)
    ((route, answer),) = held  # made before the new question came
    route.fulfill(response=answer)
    ann.see_recorded("approved")
    assert stays(page)
    expect(page.locator(COUNT)).to_have_text(re.compile(rf"^\s*{before} "), timeout=SOON)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda route: route.abort(),
        lambda route: route.fulfill(status=500, body="Down."),
        lambda route: route.fulfill(
            response=(answer := route.fetch()), body=answer.text().replace("js/desk", "js/new")
        ),
    ],
    ids=["no answer", "error", "upgraded"],
)
def test_what_cannot_be_shown_in_place_is_loaded(ann: Person, questions: Page, spoil: Callable[[Route], None]) -> None:
    page, first = questions, questions.url

    def once(route: Route) -> None:
        if route.request.method == "GET" and route.request.resource_type == "fetch":
            return spoil(route)
        return route.continue_()

    page.route(NEXT, once)
    page.get_by_role("button", name="Run as asked").click()
    expect(page.get_by_role("status").filter(has_text="Recorded: approved")).to_be_visible()
    assert page.url != first
    assert not stays(page)
    page.reload()
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()
    expect(page.get_by_text("Recorded: approved")).to_have_count(0)
