"""An answer as it is written, seen by several people: whoever was cut off reads the same in the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from reviews.tests.browser import desks
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.people import SOON, Person, newcomer, sign_in

ASKED = "Refund order 10482. The customer wrote: Shade broken."


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk whose agents write word by word."""
    data = tmp_path_factory.mktemp("slow") / "data"
    with desks.embedded(data, "reviews.tests.browser.desk", AGENT_WORD_DELAY="0.15") as running:
        running.run("reviews.tests.browser.staff")
        yield running


def arrives(chromium: Browser, desk: Desk, name: str) -> Person:
    person = newcomer(chromium, desk)
    sign_in(person.page, desk.url, name)
    return person


def begin(person: Person) -> str:
    page = person.open("/threads/")
    page.get_by_label("Agent", exact=True).select_option("support")
    page.get_by_label("First message").fill(ASKED)
    page.get_by_role("button", name="Start the thread").click()
    page.wait_for_url(re.compile(r"/threads/[^/]+/$"))
    return page.url.rstrip("/").rpartition("/")[2]


def conversation(page: Page) -> str:
    """Return what was said, as it stands; the tail of the stream has nothing more to add."""
    expect(page.locator("#tail")).to_be_empty(timeout=SOON)
    return "\n".join(page.locator("#talk figure").all_inner_texts())


def test_a_browser_cut_off_in_the_middle_ends_with_the_same_text(chromium: Browser, slow: Desk) -> None:
    ann, ben = arrives(chromium, slow, "ann"), arrives(chromium, slow, "ben")
    lines: list[WebSocketRoute] = []

    def connect(line: WebSocketRoute) -> None:
        lines.append(line)
        line.connect_to_server()

    ben.page.route_web_socket(re.compile("/ws/"), connect)
    thread = begin(ann)
    ben.open(f"/threads/{thread}/")
    expect(ben.page.locator("#tail")).to_contain_text("is writing, not finished", timeout=SOON)
    lines[0].close(code=1012)
    expect(ben.page.locator("#line")).to_have_text("Connecting again")
    for person in (ann, ben):
        person.see_status("interrupted")
    assert len(lines) > 1
    assert conversation(ben.page) == conversation(ann.page)
    assert "confirm 129.00 EUR for order 10482." in conversation(ben.page)
    assert (ann.complaints, ben.complaints) == ([], [])
    for person in (ann, ben):
        person.context.close()


def test_what_is_queued_stands_in_the_same_order_for_both(chromium: Browser, slow: Desk) -> None:
    ann, ben = arrives(chromium, slow, "ann"), arrives(chromium, slow, "ben")
    thread = begin(ann)
    ben.open(f"/threads/{thread}/")
    box = ann.page.get_by_label("Message to Support")
    for text in ("One of three.", "Two of three.", "Three of three."):
        box.fill(text)
        ann.page.keyboard.press("Control+Enter")
        expect(ann.page.locator(".queued li").filter(has_text=text)).to_be_visible()
        expect(box).to_be_focused()
        expect(box).to_have_value("")
    ann.page.get_by_role("button", name="Move message 3 up").click()
    for person in (ann, ben):
        wanted = [re.compile("One of three"), re.compile("Three of three"), re.compile("Two of three")]
        expect(person.page.locator(".queued li")).to_have_text(wanted, timeout=SOON)
    assert (ann.complaints, ben.complaints) == ([], [])
    for person in (ann, ben):
        person.context.close()
