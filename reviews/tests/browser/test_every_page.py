"""Every page in a state that has something to show: no axe violation, nothing that scrolls sideways."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from reviews.tests.browser.conftest import Newcomer
from reviews.tests.browser.people import Person
from reviews.tests.browser.places import PLACES

WIDE, ZOOMED, NARROW = (1440, 900), (720, 450), (360, 740)  # zoomed: 200 % of the first
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ALL_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


def resize(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})


def see_no_sideways_scroll(page: Page) -> None:
    width = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] <= width[1], f"scrolls sideways: {width}"


def see_no_violation(page: Page, theme: Literal["light", "dark"]) -> None:
    """Run all of axe's rules in light, and in dark those again that look at colours."""
    page.emulate_media(color_scheme=theme)
    rules = ALL_RULES if theme == "light" else OF_COLOURS
    found = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", PLACES)
def test_every_page_can_be_used(ann: Person, ben: Person, name: str) -> None:
    PLACES[name](ann, ben)
    for size in (WIDE, NARROW):
        resize(ann.page, size)
        for theme in THEMES:
            see_no_violation(ann.page, theme)
        see_no_sideways_scroll(ann.page)
    resize(ann.page, ZOOMED)
    see_no_sideways_scroll(ann.page)


@pytest.mark.parametrize("path", ["link", "/sign-in/"])
def test_the_pages_before_the_sign_in_can_be_used(arrive: Newcomer, path: str) -> None:
    stranger = arrive()
    page = stranger.page
    page.goto(stranger.desk.link if path == "link" else f"{stranger.desk.url}{path}")
    for size in (WIDE, NARROW):
        resize(page, size)
        for theme in THEMES:
            see_no_violation(page, theme)
        see_no_sideways_scroll(page)
