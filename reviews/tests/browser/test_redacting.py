"""Agents that redact, through each verdict that they allow; then what the tool really received."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from reviews.tests.browser.people import Person


@pytest.mark.parametrize("verdict", ["approve", "edit", "reject"])
def test_a_call_whose_addresses_are_redacted(ann: Person, verdict: str) -> None:
    thread = ann.start("frontdesk", "Call ines.krug@example.test back about order 10482, please.")
    page = ann.take_up(thread)
    expect(page.locator("main")).not_to_contain_text("ines.krug")
    note = "They wrote: Call [REDACTED_EMAIL] back about order 10482, please."
    match verdict:
        case "approve":
            ann.press("Run as asked")
        case "edit":
            ann.change("order", "10391")
            ann.press("Run with my change")
        case "reject":
            ann.box("Reject with feedback").get_by_role("textbox").fill("She rang already.")
            ann.press("Reject and tell Front desk why")
    ann.see_recorded()
    ann.watch(thread)
    booked = {"approve": 10482, "edit": 10391}
    calls = [("booking", {"order": booked[verdict], "note": note})] if verdict in booked else []
    assert ann.desk.effects(thread) == calls


@pytest.mark.parametrize("verdict", ["approve", "edit", "reject"])
def test_a_reply_of_an_agent_with_streams_of_its_own(ann: Person, verdict: str) -> None:
    thread = ann.start("hotline", "I was charged twice.")
    ann.take_up(thread)
    match verdict:
        case "approve":
            ann.press("Run as asked")
        case "edit":
            ann.change("text", "We look into it.")
            ann.press("Run with my change")
        case "reject":
            ann.box("Reject with feedback").get_by_role("textbox").fill("Ring them.")
            ann.press("Reject and tell Hotline why")
    ann.see_recorded()
    ann.watch(thread)
    sent = [args["text"] for _, args in ann.desk.effects(thread)]
    match verdict:
        case "approve":
            assert len(sent) == 1
            assert "I was charged twice" in sent[0]
        case "edit":
            assert sent == ["We look into it."]
        case "reject":
            assert sent == []
