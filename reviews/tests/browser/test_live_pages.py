"""Pages that live: what happens elsewhere is seen without a reload, and nothing moves under the reader's hand."""

from __future__ import annotations

import json
import re

from playwright.sync_api import WebSocketRoute, expect

from reviews.live import EVERYTHING
from reviews.tests.browser.people import SOON, Person

LINE = "#line"


def reject(person: Person, why: str = "Not like this.") -> None:
    person.box("Reject with feedback").get_by_role("textbox").fill(why)
    person.press(re.compile("^Reject and tell"))
    person.see_recorded("rejected")


def test_what_happened_before_the_line_stood_is_not_missed(ann: Person, ben: Person) -> None:
    """Between the page and its socket lies a moment; hints of that moment reach nobody."""
    held: list[WebSocketRoute] = []
    thread = ann.start("ask-user", "Plan the team lunch.")
    ben.page.route_web_socket(re.compile("/ws/"), lambda socket: held.append(socket))
    ben.open(f"/threads/{thread}/")
    ben.see_status("interrupted")
    ann.take_up(thread)
    ann.page.get_by_label("Tuesday").check()
    ann.press("Give this as the result")
    ann.see_recorded()
    ann.watch(thread)
    held[0].connect_to_server()
    ben.see_status("idle")


def test_a_new_question_is_announced_and_moves_nothing(ann: Person, ben: Person) -> None:
    page = ann.open("/?agent=naming")
    expect(page.locator(LINE)).to_have_text("Live")
    rows = page.locator(".inbox li")
    before = rows.count()
    ben.start("naming", "Find a name for the old lamp.")
    bar = page.locator("#live")
    expect(bar).to_contain_text("1 new", timeout=SOON)
    expect(rows).to_have_count(before)
    expect(page.locator("#announce")).to_have_text("1 new question", timeout=SOON)
    bar.get_by_role("link", name="Show it").click()
    expect(rows).to_have_count(before + 1)
    expect(bar).to_contain_text("Nothing new.")


def test_a_page_that_missed_too_much_asks_for_all_it_shows(ann: Person, ben: Person) -> None:
    lines: list[WebSocketRoute] = []
    page = ann.page
    page.route_web_socket(re.compile("/ws/"), lambda line: lines.append(line))
    ann.open("/?agent=naming")
    expect(page.locator(LINE)).to_have_text("Live")
    ben.start("naming", "Find a name for the old chair.")
    expect(page.locator("#live")).to_contain_text("Nothing new.")
    lines[0].send(json.dumps({"changed": [EVERYTHING]}))
    expect(page.locator("#live")).to_contain_text("1 new", timeout=SOON)


def test_a_row_that_somebody_else_decided_stays_and_goes_grey(ann: Person, ben: Person) -> None:
    thread = ben.start("support", "Refund order 10482. The customer wrote: Too heavy.")
    page = ann.open(f"/?thread={thread}")
    expect(page.locator(LINE)).to_have_text("Live")
    row = page.locator(".inbox li")
    expect(row).not_to_have_attribute("data-done", "")
    ben.take_up(thread)
    reject(ben)
    expect(row).to_have_attribute("data-done", "", timeout=SOON)
    expect(row).to_contain_text("rejected")
    expect(row).to_contain_text("ben")


def test_who_looks_is_seen_at_once_where_the_others_are(ann: Person, ben: Person) -> None:
    thread = ben.start("support", "Refund order 10482. The customer wrote: Too green.")
    page = ann.open(f"/?thread={thread}")
    expect(page.locator(LINE)).to_have_text("Live")
    expect(page.locator(".inbox .looks")).to_have_text("nobody looks")
    ben.take_up(thread)
    expect(ben.page.locator("#looking")).to_have_text("nobody else looks")
    expect(page.locator(".inbox .looks")).to_have_text(re.compile(r"ben\s*$"), timeout=SOON)
    ann.take_up(thread)
    expect(page.locator("#looking")).to_have_text("ben is looking at this")
    expect(ben.page.locator("#looking")).to_have_text("ann is looking at this", timeout=SOON)


def test_a_page_in_sight_renews_its_mark_and_its_ages_grow(ben: Person) -> None:
    thread = ben.start("support", "Refund order 10482. The customer wrote: Too blue.")
    page = ben.page
    page.clock.install()
    ben.take_up(thread)
    age = page.locator(".head .chip time")
    expect(age).to_have_text(re.compile(r"^\d+ s$"))
    before = page.evaluate("document.querySelector('.head').getBoundingClientRect().height")
    page.wait_for_load_state("networkidle")  # a leap in time ends what is under way
    with page.expect_response(lambda one: one.request.method == "POST" and one.url.endswith("/looking/")) as renewed:
        page.clock.fast_forward(61_000)
    assert renewed.value.status == 204
    expect(age).to_have_text("1 min")
    page.wait_for_load_state("networkidle")
    page.clock.fast_forward(3_600_000)
    expect(age).to_have_text(re.compile("^1 h 0[12] min$"))
    assert page.evaluate("document.querySelector('.head').getBoundingClientRect().height") == before


def test_a_form_being_typed_in_is_never_replaced(ann: Person, ben: Person) -> None:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too light.")
    page = ann.take_up(thread)
    expect(page.locator(LINE)).to_have_text("Live")
    mine = ann.box("Reject with feedback").get_by_role("textbox")
    mine.fill("Half a sen")
    ben.take_up(thread)
    reject(ben)
    note = page.get_by_role("status").filter(has_text="decided this")
    expect(note).to_contain_text("ben", timeout=SOON)
    expect(mine).to_be_focused()
    mine.press_sequentially("tence.")
    expect(mine).to_have_value("Half a sentence.")
    expect(page.get_by_role("button", name="Run as asked")).to_be_visible()


def test_a_thread_is_watched_as_it_goes_on(ann: Person, ben: Person) -> None:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too round.")
    page = ben.watch(thread, "interrupted")
    expect(page.locator(LINE)).to_have_text("Live")
    ann.take_up(thread)
    reject(ann, "Round is what it should be.")
    ben.see_status("idle")
    expect(page.locator("#talk")).to_contain_text("Round is what it should be.")


def test_a_line_that_breaks_is_told_in_words_and_comes_back(ann: Person, ben: Person) -> None:
    lines: list[WebSocketRoute] = []
    broken = [True]

    def connect(socket: WebSocketRoute) -> None:
        lines.append(socket)
        if len(lines) > 1 and broken[0]:
            socket.close(code=1012)
        else:
            socket.connect_to_server()

    thread = ben.start("support", "Refund order 10482. The customer wrote: Too flat.")
    page = ann.page
    page.clock.install()
    page.route_web_socket(re.compile("/ws/"), connect)
    ann.open(f"/threads/{thread}/")
    line = page.locator(LINE)
    expect(line).to_have_text("Live")
    lines[0].close(code=1012)
    expect(line).to_have_text("Connecting again")
    page.clock.run_for(2_000)
    page.clock.run_for(4_000)
    expect(line).to_have_text("Line down, asking every 30 s")
    ben.take_up(thread)
    reject(ben)
    ben.watch(thread)
    page.clock.run_for(31_000)
    ann.see_status("idle")
    expect(line).to_have_text("Line down, asking every 30 s")
    broken[0] = False
    page.clock.run_for(31_000)
    expect(line).to_have_text("Live")


def test_what_a_reader_folded_out_stays_so_when_the_page_changes(ann: Person, ben: Person) -> None:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too round.")
    fold = ann.page.get_by_text("Send now and drop the question")
    fold.click()
    ben.open(f"/threads/{thread}/")
    ben.page.get_by_label("Message to Support").fill("One more thing.")
    ben.press("Hold as number 1")
    expect(ann.page.locator(".queued li")).to_contain_text("One more thing.")
    expect(ann.page.get_by_role("button", name=re.compile("^Send now, withdrawing"))).to_be_visible()
