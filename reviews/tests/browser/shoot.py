"""Screenshots of every page: ``python -m reviews.tests.browser.shoot FOLDER [page ...]``.

Starts a desk of its own, brings it into a state in which every page has something to show, and writes
``<page>.<width>-<theme>.png`` for each width and theme. Pages may be named by their beginning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from playwright.sync_api import Browser, Page, sync_playwright

from project import scratch
from project.services import find
from reviews.tests.browser import desks
from reviews.tests.browser.people import LAUNCH, newcomer, sign_in
from reviews.tests.browser.places import PLACES

SIZES = ((1440, 900), (768, 1024), (360, 740))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def shoot(folder: Path, wanted: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        scratch.folder("shots") as home,
        desks.embedded(home / "data", "reviews.tests.browser.desk") as desk,
        chromium() as browser,
    ):
        door = newcomer(browser, desk)
        for name, address in (("first-run", desk.link), ("sign-in", f"{desk.url}/sign-in/")):
            door.page.goto(address)
            take(door.page, folder / name)
        desk.run("reviews.tests.browser.staff")
        ann, ben = newcomer(browser, desk), newcomer(browser, desk)
        sign_in(ann.page, desk.url, "ann")
        sign_in(ben.page, desk.url, "ben")
        for name, go in PLACES.items():
            if name.startswith(wanted):
                go(ann, ben)
                take(ann.page, folder / name)


def take(page: Page, path: Path) -> None:
    """Write the page as it stands in all sizes and themes; it is not loaded again."""
    page.evaluate("scrollTo(0, 0)")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.screenshot(path=f"{path}.{width}-{theme}.png", full_page=True)
    page.set_viewport_size({"width": 1440, "height": 900})


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium"), args=LAUNCH)
        yield browser
        browser.close()


if __name__ == "__main__":
    shoot(Path(sys.argv[1]), tuple(sys.argv[2:]) or ("",))
