"""One decision, however often somebody clicks and however many people do."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Request, expect

from reviews.tests.browser.people import Person


@pytest.fixture
def refund(ann: Person) -> str:
    thread = ann.start("support", "Refund order 10482. The customer wrote: Shade broken.")
    ann.take_up(thread)
    return thread


def is_decision(request: Request) -> bool:
    return request.method == "POST" and re.search(r"/interrupts/\d+/(\?|$)", request.url) is not None


def test_a_double_click_is_one_decision(ann: Person, refund: str) -> None:
    """HC-23: both clicks are made before the answer comes; the same form sent again by hand changes nothing."""
    page, sent = ann.page, list[Request]()
    slow = page.context.new_cdp_session(page)
    slow.send("Network.enable")
    slow.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 500, "downloadThroughput": -1, "uploadThroughput": -1},
    )
    page.on("request", lambda request: sent.append(request) if is_decision(request) else None)
    page.get_by_role("button", name="Run as asked").dblclick()
    ann.see_recorded("approved")
    assert len(sent) == 1
    ann.watch(refund)
    assert len(ann.desk.effects(refund)) == 1

    fields: dict[str, str | float | bool] = {
        name: values[0] for name, values in parse_qs(sent[0].post_data or "").items()
    }
    again = page.request.post(sent[0].url, form=fields, headers={"Origin": ann.desk.url, "Referer": sent[0].url})
    assert again.ok
    assert "Recorded: approved" in again.text()
    ann.watch(refund)
    assert len(ann.desk.effects(refund)) == 1


def test_clicks_on_two_boxes_at_once_are_the_first_one(ann: Person, refund: str) -> None:
    ann.page.evaluate(
        "() => { for (const verb of ['approve', 'reject', 'respond', 'approve'])"
        " document.querySelector(`[data-verb=${verb}] button[name=decision]`).click(); }"
    )
    ann.see_recorded("approved")
    ann.watch(refund)
    assert len(ann.desk.effects(refund)) == 1


def test_a_form_that_was_stopped_can_be_sent_again(ann: Person, refund: str) -> None:
    """An answer without content leaves the browser where it is, as Stop does."""
    page = ann.page
    page.clock.install()
    page.reload()
    page.route(re.compile(r"/interrupts/\d+/(\?|$)"), lambda route: route.fulfill(status=204), times=1)
    button = page.get_by_role("button", name="Run as asked")
    with page.expect_request(is_decision):
        button.click()
    expect(button).to_have_attribute("aria-busy", "true")
    page.clock.fast_forward(25_000)
    expect(button).not_to_have_attribute("aria-busy", "true")
    button.click()
    ann.see_recorded("approved")
    ann.watch(refund)
    assert len(ann.desk.effects(refund)) == 1


def test_a_server_that_fails_says_so_and_the_form_is_sent_again(ann: Person, refund: str) -> None:
    page = ann.page
    page.route(re.compile(r"/interrupts/\d+/(\?|$)"), lambda route: route.fulfill(status=500, body="No."), times=1)
    ann.box("Reject with feedback").get_by_role("textbox").fill("Kept?")
    ann.press("Reject and tell Support why")
    expect(page.get_by_text("No.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Reject and tell Support why")).to_be_enabled()
    ann.box("Reject with feedback").get_by_role("textbox").fill("Kept?")
    ann.press("Reject and tell Support why")
    ann.see_recorded("rejected")
    ann.watch(refund)
    assert ann.desk.effects(refund) == []


def test_the_second_of_two_people_keeps_what_they_typed(ann: Person, ben: Person, refund: str) -> None:
    ben.take_up(refund)
    ben.change("amount", "80")
    ann.press("Run as asked")
    ann.see_recorded("approved")

    page = ben.page
    ben.press("Run with my change")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("ann")
    expect(alert).to_contain_text("not recorded")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    yours = page.get_by_role("region", name="Yours, not recorded")
    expect(yours).to_contain_text("129.0")
    expect(yours).to_contain_text("80")
    ben.watch(refund)
    ((_, args),) = ben.desk.effects(refund)
    assert args["amount"] == 129.0


def test_the_text_of_the_second_person_becomes_a_message(ann: Person, ben: Person, refund: str) -> None:
    ben.take_up(refund)
    ben.box("Reject with feedback").get_by_role("textbox").fill("Offer a voucher first.")
    ann.press("Run as asked")
    ann.see_recorded("approved")

    ben.press("Reject and tell Support why")
    page = ben.page
    expect(page.get_by_label("Text you typed in “Reject with feedback”")).to_have_value("Offer a voucher first.")
    page.get_by_role("link", name="Send my text as a message").click()
    expect(page.get_by_label("Message to Support")).to_have_value("Offer a voucher first.")


def test_the_back_button_never_shows_an_old_question_as_open(ann: Person, refund: str) -> None:
    page = ann.page
    address = page.url
    ann.press("Run as asked")
    ann.see_recorded("approved")
    page.go_back()
    expect(page).to_have_url(address)
    expect(page.get_by_text("As proposed.")).to_be_visible()
    expect(page.get_by_role("button", name="Run as asked")).to_have_count(0)
