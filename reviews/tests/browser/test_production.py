"""The same pages on a production desk: daphne, a Celery worker, PostgreSQL, Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from reviews.tests.browser import desks
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.people import SOON, Person, newcomer, sign_in

pytestmark = [pytest.mark.production, pytest.mark.crash]


@pytest.fixture(scope="module")
def big_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desks.production(tmp_path_factory.mktemp("big") / "data") as running:
        running.run("reviews.tests.browser.staff")
        yield running


@pytest.fixture
def people(chromium: Browser, big_desk: Desk) -> Iterator[tuple[Person, Person]]:
    ann, ben = newcomer(chromium, big_desk), newcomer(chromium, big_desk)
    sign_in(ann.page, big_desk.url, "ann")
    sign_in(ben.page, big_desk.url, "ben")
    yield ann, ben
    ann.context.close()
    ben.context.close()
    assert ann.complaints == ben.complaints == []


@pytest.mark.parametrize("verdict", ["approve", "edit", "reject", "respond"])
def test_each_verdict_reaches_the_tool_and_other_pages(people: tuple[Person, Person], verdict: str) -> None:
    ann, ben = people
    thread = ann.start("support", "Refund order 10482. The customer wrote: Shade broken.")
    watched = ben.open(f"/?thread={thread}")
    expect(watched.locator("#line")).to_have_text("Live")
    ann.take_up(thread)
    match verdict:
        case "approve":
            ann.press("Run as asked")
        case "edit":
            ann.change("amount", "99.5")
            ann.press("Run with my change")
        case "reject":
            ann.box("Reject with feedback").get_by_role("textbox").fill("Repair comes first.")
            ann.press(re.compile("^Reject and tell"))
        case "respond":
            ann.box("Respond in its place").get_by_role("textbox").fill("Paid by hand.")
            ann.press("Give this as the result")
    ann.see_recorded()
    expect(watched.locator(".inbox li")).to_have_attribute("data-done", "", timeout=SOON)
    ann.watch(thread)
    paid = [args["amount"] for _, args in ann.desk.effects(thread)]
    assert paid == {"approve": [129.0], "edit": [99.5]}.get(verdict, [])


def test_the_loser_of_two_is_told(people: tuple[Person, Person]) -> None:
    ann, ben = people
    thread = ann.start("support", "Refund order 10482. The customer wrote: Shade broken.")
    ann.take_up(thread)
    ben.take_up(thread)
    ben.box("Reject with feedback").get_by_role("textbox").fill("Mine.")
    ann.press("Run as asked")
    ann.see_recorded("approved")
    ben.press(re.compile("^Reject and tell"))
    expect(ben.page.get_by_role("alert")).to_contain_text("not recorded")
    expect(ben.page.get_by_label("Text you typed in “Reject with feedback”")).to_have_value("Mine.")
    ann.watch(thread)
    assert len(ann.desk.effects(thread)) == 1
