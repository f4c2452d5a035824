"""``make bench-click``: from the click on *approve* to the tool's result on a page, in a headless Chromium.

One page holds the question; another, of the same browser, watches the thread. Both clocks are the browser's own. Beside
it the same agent under ``langgraph dev``: from the request that resumes to the tool's message in its stream.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from playwright.sync_api import BrowserContext, Page, sync_playwright

from project.benchmarks import peer
from project.benchmarks.lines import p95, report, shape
from project.services import find
from reviews.tests.browser.caller import Caller
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.people import LAUNCH, sign_in

CLICKS = 50
WARM = 3
LIMITS = {"embedded": 60, "production": 90}
P95 = 200

_NOTE_CLICK = """document.addEventListener("click", () =>
  localStorage.setItem("clicked", performance.timeOrigin + performance.now()), { capture: true })"""
_NOTE_RESULT = """(words) => { window.seen = new Promise((resolve) => {
  const look = () => document.querySelector("main").textContent.includes(words) &&
    resolve(performance.timeOrigin + performance.now());
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}) }"""
_TOOK = "window.seen.then((at) => at - Number(localStorage.getItem('clicked')))"


def main() -> None:
    parser = argparse.ArgumentParser(description="From the click on approve to the tool's result on the page.")
    parser.add_argument("--clicks", type=int, default=CLICKS)
    parser.add_argument("--shapes", default="embedded,production")
    parser.add_argument("--langgraph", default="", help="the `langgraph` command to measure beside it")
    chosen = parser.parse_args()
    found = shutil.which(chosen.langgraph) if chosen.langgraph else None
    theirs = peer.measure(found, rounds=chosen.clicks) if found else []
    note = "" if theirs else "langgraph dev is not installed here, so there is no peer"
    for name in chosen.shapes.split(","):
        with shape(name) as desk, chromium() as context:
            took = clicks(desk, context, chosen.clicks)
        case = f"click to result, {name}"
        figure = median(theirs) if theirs else None
        report(
            "click", f"{case}, median", unit="ms", ours=median(took), peer=figure, limit=f"<= {LIMITS[name]}", note=note
        )
        figure = p95(theirs) if theirs else None
        report("click", f"{case}, p95", unit="ms", ours=p95(took), peer=figure, limit=f"<= {P95}", note=note)


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium"), args=LAUNCH)
        yield browser.new_context(viewport={"width": 1440, "height": 900})
        browser.close()


def clicks(desk: Desk, context: BrowserContext, rounds: int) -> list[float]:
    """Return the milliseconds of each click after the first few."""
    ann = Caller(desk.url, "ann")
    question, thread = context.new_page(), context.new_page()
    sign_in(question, desk.url, "ann")
    question.add_init_script(_NOTE_CLICK)
    return [_click(desk, ann, question, thread, number) for number in range(WARM + rounds)][WARM:]


def _click(desk: Desk, ann: Caller, question: Page, thread: Page, number: int) -> float:
    thread_id = ann.start("till", str(number))
    path = ann.question(thread_id)
    thread.goto(f"{desk.url}/threads/{thread_id}/")
    thread.locator("#line[data-state=live]").wait_for()
    question.goto(desk.url + path)
    thread.evaluate(_NOTE_RESULT, f"Paid number {number}.")
    thread.wait_for_load_state("networkidle")
    question.wait_for_load_state("networkidle")
    question.get_by_role("button", name="Run as asked").click(no_wait_after=True)
    took = float(thread.evaluate(_TOOK))
    time.sleep(0.05)  # what the page and the worker still do belongs to this click, not to the next
    return took


if __name__ == "__main__":
    main()
