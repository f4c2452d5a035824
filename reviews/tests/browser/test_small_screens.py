"""Every decision can be made on a phone, and at 200 % zoom."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from reviews.tests.browser.conftest import Newcomer
from reviews.tests.browser.people import Person
from reviews.tests.browser.places import PLACES

SCREENS: dict[str, dict[str, Any]] = {
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
    "zoomed": {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},
}

# Links inside sentences are excepted; the whole row is the target of a title in a list; a label that of its box.
SMALL = """() => [...document.querySelectorAll('button, .button, select, summary, textarea, nav a, .trail a, footer a')]
    .filter((target) => target.checkVisibility() && target.getBoundingClientRect().height < 44)
    .map((target) => target.outerHTML)"""


@pytest.mark.parametrize("name", ["inbox", "question-support", "question-batch", "conflict", "thread-held"])
def test_a_finger_meets_every_target(arrive: Newcomer, ben: Person, name: str) -> None:
    ann = arrive("ann", **SCREENS["phone"])
    PLACES[name](ann, ben)
    assert ann.page.evaluate(SMALL) == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("verdict", ["approve", "edit", "reject", "respond"])
def test_a_refund_is_decided_on_a_small_screen(arrive: Newcomer, screen: str, verdict: str) -> None:
    ann = arrive("ann", **SCREENS[screen])
    thread = ann.start("support", "Refund order 10482. The customer wrote: Too small.")
    page = ann.take_up(thread)
    match verdict:
        case "edit":
            ann.change("amount", "12.5")
        case "reject":
            ann.box("Reject with feedback").get_by_role("textbox").fill("No.")
        case "respond":
            ann.box("Respond in its place").get_by_role("textbox").fill("Done by hand.")
    button = page.locator(f"[data-verb={'approve' if verdict == 'edit' else verdict}] button[name=decision]")
    if screen == "phone":
        button.tap()
    else:
        button.click()
    ann.see_recorded()
    expect(page.get_by_role("status").filter(has_text="Recorded")).to_be_in_viewport()
    ann.watch(thread)
    paid = [args["amount"] for _, args in ann.desk.effects(thread)]
    assert paid == {"approve": [129.0], "edit": [12.5]}.get(verdict, [])


def test_four_arguments_and_three_buttons_stand_on_one_screen(ann: Person) -> None:
    ann.take_up(ann.start("support", "Refund order 10482. The customer wrote: Shade broken."))
    ann.page.set_viewport_size({"width": 1440, "height": 900})
    buttons = ann.page.locator(".verb button").all()
    edges = [box["y"] + box["height"] for button in buttons if (box := button.bounding_box())]
    assert len(edges) == 3
    assert max(edges) <= 900
