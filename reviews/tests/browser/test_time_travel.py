"""A person says no, goes back before it, says yes in the fork, and looks at both; and walks a timeline by keys."""

from __future__ import annotations

import json
import re

from playwright.sync_api import expect

from reviews.tests.browser.people import Person

ASKED = "Refund order 10482. The customer wrote: Wrong colour."


def stored(person: Person, thread_id: str) -> dict[str, str]:
    """All that is stored of each checkpoint of a thread, as the desk gives it out."""
    page = person.open(f"/threads/{thread_id}/checkpoints/")
    places = [str(link.get_attribute("href")) for link in page.locator(".timeline .what > a[href*=checkpoints]").all()]
    return {place: person.context.request.get(f"{person.desk.url}{place}raw/").text() for place in places}


def test_reject_go_back_approve_in_the_fork_and_compare(ann: Person) -> None:
    page = ann.page
    thread_id = ann.start("support", ASKED)
    ann.take_up(thread_id)
    ann.box("Reject with feedback").get_by_role("textbox").fill("Offer a new shade first.")
    ann.press("Reject and tell Support why")
    ann.see_recorded()
    ann.watch(thread_id)
    before = stored(ann, thread_id)
    assert len(before) > 5 and all("checkpoint" in json.loads(one) for one in before.values())

    ann.open(f"/?status=decided&thread={thread_id}").locator(".inbox .what a").first.click()
    page.get_by_label("Tell Support").fill("Refund it after all. The customer wrote: Wrong colour.")
    ann.press("Go back, and tell Support this")
    page.wait_for_url(re.compile(r"/threads/[^/]+/$"))
    fork_id = page.url.rstrip("/").rpartition("/")[2]
    assert fork_id != thread_id
    ann.see_status("interrupted")
    ann.take_up(fork_id)
    ann.press("Run as asked")
    ann.see_recorded()
    ann.watch(fork_id)
    assert [kind for kind, _ in ann.desk.effects(fork_id)] == ["refund"]
    assert ann.desk.effects(thread_id) == []

    ann.open(f"/threads/{fork_id}/beside/")
    left, right = page.locator(".pair > section").all()
    expect(left).to_contain_text("ann approved")
    expect(right).to_contain_text("ann rejected")
    expect(page.get_by_role("link", name="the last step that both come from")).to_be_visible()
    assert stored(ann, thread_id) == before


def test_arrow_keys_move_along_the_timeline(ann: Person) -> None:
    thread_id = ann.start("support", ASKED)
    page = ann.open(f"/threads/{thread_id}/checkpoints/")
    rows = page.locator(".timeline .what > a")
    rows.nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(2)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(rows.nth(1)).to_be_focused()
    place = rows.nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{place}")
    expect(page.locator(".timeline .what > a[aria-current=true]")).to_have_attribute("href", str(place))


def test_new_steps_of_a_running_thread_are_announced(ann: Person, ben: Person) -> None:
    thread_id = ann.start("support", ASKED)
    page = ann.open(f"/threads/{thread_id}/checkpoints/")
    expect(page.locator("#line")).to_have_attribute("data-state", "live")
    count = page.locator(".timeline > li").count()
    ben.take_up(thread_id)
    ben.press("Run as asked")
    ben.see_recorded()
    news = page.locator("#news").get_by_role("link", name=re.compile(r"\d+ new steps?"))
    expect(news).to_be_visible()
    assert page.locator(".timeline > li").count() == count  # no row moves by itself
    news.click()
    expect(page.locator(".timeline > li").first).to_contain_text("head")
    expect(page.locator(".timeline > li")).not_to_have_count(count)
