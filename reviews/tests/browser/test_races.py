"""One decision, however often somebody clicks and however many people do."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Request, Route, expect

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


UNSENT = re.compile("The desk did not answer")


@pytest.mark.parametrize("how", ["cut", "failing", "empty"])
def test_a_decision_that_gets_no_answer_is_sent_again(ann: Person, refund: str, how: str) -> None:
    """The line is cut, the desk fails, or something between answers without content: what was typed stays."""
    page = ann.page

    def break_off(route: Route) -> None:
        match how:
            case "cut":
                route.abort()
            case "failing":
                route.fulfill(status=502, content_type="text/html", body="<main>Bad gateway</main>")
            case _:
                route.fulfill(status=204)

    page.route(re.compile(r"/interrupts/\d+/(\?|$)"), break_off, times=1)
    why = ann.box("Reject with feedback").get_by_role("textbox")
    why.fill("Kept?")
    ann.press("Reject and tell Support why")
    expect(page.get_by_role("alert").filter(has_text=UNSENT)).to_be_visible()
    expect(why).to_have_value("Kept?")
    button = page.get_by_role("button", name="Reject and tell Support why")
    expect(button).not_to_have_attribute("aria-busy", "true")
    ann.press("Reject and tell Support why")
    ann.see_recorded("rejected")
    ann.watch(refund)
    assert ann.desk.effects(refund) == []


def test_an_answer_that_was_lost_was_recorded_once(ann: Person, refund: str) -> None:
    """The desk records it, the line breaks before the answer is there, and the reviewer presses again."""
    page = ann.page

    def lose(route: Route) -> None:
        assert "go-to" in route.fetch(max_redirects=0).headers
        route.abort()

    page.route(re.compile(r"/interrupts/\d+/(\?|$)"), lose, times=1)
    page.get_by_role("button", name="Run as asked").click()
    expect(page.get_by_role("alert").filter(has_text=UNSENT)).to_be_visible()
    page.get_by_role("button", name="Run as asked").click(force=True)  # live regions may have told it by now
    expect(page.get_by_role("status").filter(has_text="Recorded: approved")).to_be_visible()  # once
    ann.watch(refund)
    assert len(ann.desk.effects(refund)) == 1


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
