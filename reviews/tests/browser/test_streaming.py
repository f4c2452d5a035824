"""An answer as it is written, seen by several people: whoever was cut off reads the same in the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from reviews.tests.browser import desks
from reviews.tests.browser.chorus import FAILS
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


def begin(person: Person, agent: str = "support", text: str = ASKED) -> str:
    page = person.open("/threads/")
    page.get_by_label("Agent", exact=True).select_option(agent)
    page.get_by_label("First message").fill(text)
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
    while len(lines) == 1:  # what the page says meanwhile is soon gone; test_live_pages stops the clock for it
        ben.page.wait_for_timeout(20)
    for person in (ann, ben):
        person.see_status("interrupted")
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


def line_up(page: Page, agent: str, *texts: str) -> None:
    box = page.get_by_label(f"Message to {agent}")
    for text in texts:
        box.fill(text)
        page.keyboard.press("Control+Enter")
        expect(box).to_have_value("")


def test_three_queued_messages_of_which_one_fails_end_in_order_for_both(chromium: Browser, slow: Desk) -> None:
    ann, ben = arrives(chromium, slow, "ann"), arrives(chromium, slow, "ben")
    thread = begin(ann, "chorus", "Sing of the lamp.")
    ben.open(f"/threads/{thread}/")
    texts = ("Sing once more.", FAILS, "Sing for the last time.")
    line_up(ann.page, "Chorus", *texts)
    for person in (ann, ben):
        expect(person.page.locator(".queued li")).to_have_count(3, timeout=SOON)
    asked = ["Sing of the lamp.", *texts]
    for person in (ann, ben):
        expect(person.page.locator("#talk .hand p")).to_have_text(asked, timeout=60_000)
        person.see_status("idle")
        expect(person.page.locator(".queued li")).to_have_count(0)
        runs = person.page.locator("#about .steps b + span")
        shown = [
            re.compile("success"),
            re.compile("error: .*This one fails"),
            re.compile("success"),
            re.compile("success"),
        ]
        expect(runs).to_have_text(shown)
    assert conversation(ann.page) == conversation(ben.page)
    assert conversation(ann.page).count("Lead: the helper says it is the brass one.") == 3
    assert (ann.complaints, ben.complaints) == ([], [])
    for person in (ann, ben):
        person.context.close()


def test_voices_that_speak_at_once_keep_to_their_lanes_and_thoughts_stay_apart(chromium: Browser, slow: Desk) -> None:
    ann = arrives(chromium, slow, "ann")
    page = ann.page
    begin(ann, "chorus", "Sing of the lamp.")
    tail = page.locator("#tail")
    verse, lead, helper = (
        tail.locator("section.lane").filter(has=page.get_by_role("heading", name=f"Beside it: {name}", exact=True))
        for name in ("verse", "lead", "lead › tools")
    )
    left, right = (tail.locator("> figure.said").filter(has_text=f"· {branch}") for branch in ("left", "right"))
    for voice in (left, right):
        expect(voice).to_contain_text("is writing, not finished", timeout=SOON)
    thought = left.locator("details")
    thought.locator("summary").click()
    expect(thought).to_contain_text("The one who asks wants all voices.")
    expect(left.locator("> div")).not_to_contain_text("wants all voices")
    expect(verse).to_contain_text("First line: the lamp")
    expect(verse).not_to_contain_text("Left:")
    kept = page.locator("#talk figure").filter(has_text="Left: one voice says this").locator("details")
    expect(kept).to_have_attribute("open", "", timeout=SOON)
    expect(lead).to_contain_text("ask_helper", timeout=SOON)
    expect(helper).to_contain_text("Which lamp?", timeout=SOON)
    expect(helper).to_contain_text("was asked")
    expect(helper).to_contain_text("Helper: the brass one")
    ann.see_status("idle")
    assert "Second line: and who has come" in conversation(page)
    assert "[reasoning]" not in conversation(page)
    live = page.locator("#talk figure").count()
    page.reload()
    expect(page.locator("#talk figure")).to_have_count(live)
    assert ann.complaints == []
    ann.context.close()
