"""Every page of the desk in a state that has something to show, for those who look at all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

from playwright.sync_api import expect

from reviews.tests.browser.people import Person

Go = Callable[[Person, Person], object]  # brings the first person there; the second one is a colleague

_HELD = {"action_requests": [{"name": "pay", "args": {"amount": 5}}], "review_configs": []}


def _at(path: str) -> Go:
    return lambda person, other: person.open(path)


def _oldest(person: Person, other: Person, *, agent: str, search: str = "") -> None:
    """Open the oldest question of an agent: that of its demo thread, which no test decides."""
    page = person.open(f"/?agent={agent}&q={search}")
    page.locator(".inbox .what a").first.click()
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def _as_json(person: Person, other: Person) -> None:
    _oldest(person, other, agent="support", search="replacement")
    person.page.get_by_role("link", name="Raw JSON").click()


def _edited(person: Person, other: Person) -> None:
    person.take_up(person.start("support", "Refund order 10391. The customer wrote: It never came."))
    person.change("amount", "50.5")
    person.change("method", "voucher")


def _wrong(person: Person, other: Person) -> None:
    person.take_up(person.start("support", "Refund order 10482. The customer wrote: Too dark."))
    person.page.get_by_label("amount", exact=True).fill("1190")
    expect(person.box("Approve, edited").get_by_text("cannot run yet")).to_be_visible()


def _held(person: Person, other: Person) -> None:
    person.take_up(person.start("parrot", json.dumps(_HELD)))


def _decide_refund(person: Person) -> str:
    thread_id = person.start("support", "Refund order 10482. The customer wrote: Shade broken.")
    person.take_up(thread_id)
    person.change("amount", "100")
    person.press("Run with my change")
    person.see_recorded()
    person.watch(thread_id)
    return thread_id


def _thread_done(person: Person, other: Person) -> None:
    _decide_refund(person)


def _decided(person: Person, other: Person) -> None:
    person.open(f"/?status=decided&thread={_decide_refund(person)}")


def _decision(person: Person, other: Person) -> None:
    _decided(person, other)
    person.page.locator(".inbox .what a").first.click()
    expect(person.page.get_by_role("heading", name="issue_refund")).to_be_visible()


def _audit_entry(person: Person, other: Person) -> None:
    _decide_refund(person)
    person.open("/audit/?verdict=edit")
    person.page.locator("main table a").first.click()
    expect(person.page.get_by_role("heading", level=1)).to_be_visible()


def _mark_two(person: Person) -> str:
    thread_id = person.start("operations", "Clean up the stale carts.")
    person.take_up(thread_id)
    person.press("Mark: run as asked")
    person.box("Reject with feedback").get_by_role("textbox").fill("Not into /srv, please.")
    person.press("Mark: reject with this")
    expect(person.page.get_by_text("2 of 3 decided")).to_be_visible()
    return thread_id


def _batch(person: Person, other: Person) -> None:
    _mark_two(person)


def _thread_open(person: Person, other: Person) -> None:
    person.watch(_mark_two(person), "interrupted")


def _thread_held(person: Person, other: Person) -> None:
    person.start("support", "Tell the customer of order 10311 that it comes on Friday.")
    for text in ("Ask her whether she wants the brass one.", "And close the case."):
        person.page.get_by_label("Message to Support").fill(text)
        person.page.get_by_role("button", name="Hold as number").click()
        expect(person.page.get_by_text(text)).to_be_visible()


def _anyway(person: Person, other: Person) -> None:
    """Before somebody sends a message in spite of an open question."""
    _thread_held(person, other)
    person.page.get_by_label("Message to Support").fill("Never mind, I called her.")
    person.page.get_by_text("Send now and drop the question").click()
    person.press(re.compile("^Send now, withdrawing"))
    expect(person.page.get_by_role("heading", name="What is withdrawn")).to_be_visible()


def _unanswered(person: Person, other: Person) -> None:
    """Before somebody ends a question that takes nothing but an answer."""
    _oldest(person, other, agent="ask-user")
    person.press("Cancel: end it without an answer")
    expect(person.page.get_by_role("heading", name="What is withdrawn")).to_be_visible()


def _queue(person: Person, other: Person) -> None:
    """With a run that failed, and messages that are held."""
    person.start("parrot", "This is no JSON, so it fails.")
    _thread_held(person, other)
    person.open("/queue/")
    expect(person.page.get_by_role("heading", name="Queue", level=1)).to_be_visible()


def _conflict(person: Person, other: Person) -> None:
    thread_id = person.start("support", "Refund order 10482. The customer wrote: Wrong colour.")
    person.take_up(thread_id)
    other.take_up(thread_id)
    other.box("Reject with feedback").get_by_role("textbox").fill("The policy says repair first.")
    other.press("Reject and tell Support why")
    other.see_recorded()
    person.page.get_by_label("amount", exact=True).fill("99")
    person.box("Reject with feedback").get_by_role("textbox").fill("Offer a voucher first.")
    person.press("Reject and tell Support why")
    expect(person.page.get_by_role("alert").first).to_contain_text("not recorded")


# ---------------------------------------------------------------------------------------------------------- time travel


def _checkpoints(person: Person, other: Person) -> str:
    """A thread that asked, was rewound to before it, and asks again: with a branch, a label and a fork."""
    thread_id = person.start("support", "Refund order 10482. The customer wrote: Broken lamp.")
    _step(person, thread_id, 3)
    person.page.get_by_label("Name").fill("Before the order is looked up")
    person.press("Label this step")
    person.page.get_by_role("link", name="Rewind to").click()
    person.page.get_by_label("I read what is hidden").check()
    person.press(re.compile("^Rewind$"))
    person.see_status("interrupted")
    _step(person, thread_id, 0)
    person.page.get_by_role("link", name="Fork from").click()
    person.page.get_by_label("Name of the fork").fill("A second try")
    person.press(re.compile("^Fork$"))
    person.page.wait_for_url(re.compile(r"/threads/[^/]+/$"))
    person.open(f"/threads/{thread_id}/checkpoints/")
    expect(person.page.get_by_role("link", name="Fork: “A second try”").first).to_be_visible()
    return thread_id


def _step(person: Person, thread_id: str, at: int) -> None:
    """Open one step of a thread, counted from its head."""
    person.open(f"/threads/{thread_id}/checkpoints/").locator(".timeline .what > a").nth(at).click()
    expect(person.page.get_by_role("heading", name="Go on from here")).to_be_visible()


def _checkpoint(person: Person, other: Person) -> None:
    _step(person, _checkpoints(person, other), 2)


def _state_then(person: Person, other: Person) -> None:
    _checkpoint(person, other)
    person.page.get_by_role("link", name="Whole state").click()


def _start_again(person: Person, other: Person, *, how: str) -> None:
    _checkpoint(person, other)
    person.page.get_by_role("link", name=how).click()
    if how == "Fork from":
        person.page.get_by_role("link", name="Edit the values").click()


def _beside(person: Person, other: Person) -> None:
    person.open(f"/threads/{_checkpoints(person, other)}/beside/")


def _subgraphs(person: Person, other: Person) -> None:
    """A thread whose agent has graphs inside it, all of them folded out."""
    thread_id = person.start("publishing", "Publish the note about the brass lamp.")
    page = person.open(f"/threads/{thread_id}/checkpoints/")
    for summary in page.locator(".timeline summary").all():
        summary.click()


_ASKING = (
    "support",
    "operations",
    "operations-per-call",
    "ask-user",
    "release",
    "travel",
    "publishing",
    "onboarding",
    "naming",
    "buyer",
    "rollout",
    "night-shift",
    "mailroom",
    "frontdesk",
    "hotline",
)
PLACES: dict[str, Go] = {
    "inbox": _at("/"),
    "inbox-filtered": _at("/?q=nothing+has+this+name"),
    "inbox-decided": _decided,
    "threads": _at("/threads/"),
    "agents": _at("/agents/"),
    "queue": _queue,
    "queue-failed": _at("/queue/?state=failed"),
    "anyway": _anyway,
    "unanswered": _unanswered,
    "audit": _at("/audit/"),
    "audit-entry": _audit_entry,
    "help": _at("/help/"),
    "settings": _at("/settings/"),
    "not-found": _at("/interrupts/999999/"),
    **{f"question-{agent}": partial(_oldest, agent=agent) for agent in _ASKING},
    "question-email": partial(_oldest, agent="support", search="replacement"),
    "question-raw-json": _as_json,
    "question-edited": _edited,
    "question-wrong": _wrong,
    "question-held": _held,
    "question-batch": _batch,
    "decision": _decision,
    "conflict": _conflict,
    "thread-done": _thread_done,
    "thread-open": _thread_open,
    "thread-held": _thread_held,
    "checkpoints": _checkpoints,
    "checkpoints-inner": _subgraphs,
    "checkpoint": _checkpoint,
    "checkpoint-state": _state_then,
    "fork": partial(_start_again, how="Fork from"),
    "rewind": partial(_start_again, how="Rewind to"),
    "beside": _beside,
}
