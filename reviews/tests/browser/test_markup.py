"""HC-04: markup, scripts and template signs in every text of an agent do nothing, on any page, live or not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Request, expect

from reviews.tests.browser.more_agents import HOSTILE
from reviews.tests.browser.people import Person

FOREIGN = (
    "main script, main img, main iframe, main object, main embed, main [onerror], main [onload],"
    " main a[href^='javascript:' i], main [hx-get^='/admin'], main svg:not(.i, .mark, .tree svg, .chart svg)"
)
FEEDBACK = "<script>document.title='p7'</script>"


@pytest.fixture
def asked(ann: Person) -> Iterator[list[str]]:
    """Addresses that ann's browser asked for, and which are not the desk's."""
    found: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith(ann.desk.url):
            found.append(request.url)

    ann.context.on("request", note)
    yield found


def see_harmless(page: Page) -> None:
    """Nothing of the payload became part of the page, and its title is ours."""
    assert re.fullmatch(r".* · Countersign", page.title()), page.title()
    assert not re.fullmatch(r"p\d", page.title())
    assert page.locator(FOREIGN).count() == 0, page.locator(FOREIGN).first.evaluate("node => node.outerHTML")


def without_number(page: Page) -> str:
    """Return the title but for the number of open questions, which changes whenever anybody is asked or decides."""
    return re.sub(r"^\(\d+\) ", "", page.title())


def test_markup_stays_text_everywhere(ann: Person, asked: list[str]) -> None:
    page = ann.open("/?agent=parrot")
    expect(page.locator("#line")).to_have_text("Live")
    thread = _begin(ann)

    for path in ("/", "/?agent=parrot", "/?status=all", "/threads/", f"/threads/{thread}/", "/agents/", "/audit/"):
        ann.open(path)
        see_harmless(page)

    ann.take_up(thread)
    see_harmless(page)
    for name, value in HOSTILE["action_requests"][0]["args"].items():
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
        expect(page.locator(".asked").filter(has_text=value).first).to_be_visible()
    expect(page.get_by_text("{{ 7|add:7 }} {% debug %}").first).to_be_visible()
    page.get_by_role("link", name="Raw JSON").click()
    see_harmless(page)
    page.go_back()

    ann.box("Reject with feedback").get_by_role("textbox").fill(FEEDBACK)
    ann.press(re.compile("^Reject and tell"))
    ann.see_recorded("rejected")
    see_harmless(page)
    ann.watch(thread)
    see_harmless(page)

    ann.open(f"/?status=decided&thread={thread}")
    see_harmless(page)
    page.locator(".inbox .what a").first.click()
    expect(page.get_by_text(FEEDBACK).first).to_be_visible()
    see_harmless(page)
    ann.open("/audit/?agent=parrot")
    see_harmless(page)
    page.locator("main table a").first.click()
    see_harmless(page)

    assert asked == []
    ((_, args),) = ann.desk.effects(thread, "answer")
    assert args["answer"] == {"decisions": [{"type": "reject", "message": FEEDBACK}]}


def test_markup_that_comes_live_stays_text(ann: Person, ben: Person, asked: list[str]) -> None:
    thread = _begin(ben)
    page = ann.watch(thread, "interrupted")
    expect(page.locator("#line")).to_have_text("Live")
    inbox = ann.context.new_page()
    inbox.goto(f"{ann.desk.url}/?thread={thread}")
    expect(inbox.locator("#line")).to_have_text("Live")
    title = without_number(page)
    ben.take_up(thread)
    ben.press("Run as asked")
    ben.see_recorded("approved")
    ann.see_status("idle")
    expect(inbox.locator(".inbox li")).to_have_attribute("data-done", "")
    for shown in (page, inbox):
        see_harmless(shown)
    assert without_number(page) == title
    assert asked == []
    ((_, args),) = ann.desk.effects(thread, "answer")
    assert args["answer"] == {"decisions": [{"type": "approve"}]}


def _begin(person: Person) -> str:
    return person.start("parrot", json.dumps(HOSTILE))


def test_edited_markup_reaches_the_tool_as_typed(ann: Person) -> None:
    thread = _begin(ann)
    ann.take_up(thread)
    ann.change("ta", "</textarea><b>mine</b>")
    see_harmless(ann.page)
    ann.press("Run with my change")
    ann.see_recorded("changed and approved")
    ann.watch(thread)
    ((_, args),) = ann.desk.effects(thread, "answer")
    asked_args = HOSTILE["action_requests"][0]["args"]
    (decision,) = args["answer"]["decisions"]
    assert decision["edited_action"]["args"] == asked_args | {"ta": "</textarea><b>mine</b>"}
    assert decision["edited_action"]["name"] == HOSTILE["action_requests"][0]["name"]
