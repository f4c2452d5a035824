"""``make bench-stream``: events on their way from agents to many pages, embedded and in production shape.

The pages are sockets of one process on this machine, so its own work is part of each figure; the processor's time that
it takes for an event, or for the burst, is told beside it. Latency is from an agent's telling to a page's hearing.
``delivered``: of all that was told, what each page has in the end, in order, once; it asks for what was dropped on the
way, as browsers do. Writes are counted as events stored: a write stores one or more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import Any

from playwright.sync_api import Page
from websockets.asyncio.client import connect

from project.benchmarks.click import chromium
from project.benchmarks.desk import AT_WORK
from project.benchmarks.lines import p95, report, shape
from reviews.tests.browser.caller import Caller
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.people import sign_in

TOLD, APART = 20, 0.3  # single events, and the seconds between them
BURST = 300
WORDS = 500  # ten seconds of 50 a second
PATIENCE = 120  # seconds

_WATCH_TASKS = """() => { window.long = []; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.long.push(entry.duration);
}).observe({ type: "longtask" }) }"""

_TAKE_LONG = "() => setTimeout(() => { for (const end = performance.now() + 80; performance.now() < end; ); })"


def main() -> None:
    parser = argparse.ArgumentParser(description="Events on their way from agents to many pages.")
    parser.add_argument("--shapes", default="embedded,production")
    parser.add_argument("--sockets", default="100,500")
    chosen = parser.parse_args()
    counts = [int(text) for text in chosen.sockets.split(",")]
    for name in chosen.shapes.split(","):
        with shape(name) as desk:
            ann = Caller(desk.url, "ann")
            for count in counts:
                single(desk, ann, name, count)
            burst(desk, ann, name, max(counts))
            together(ann, name)
            browser(desk, ann, name)
            ann.close()


# --------------------------------------------------------------------------------------------------------------- pages


@lru_cache(maxsize=2_000)
def _heard(text: str) -> dict[str, Any]:
    """Parse a frame once, however many pages get it: they stand for browsers, which do not share one processor."""
    found: dict[str, Any] = json.loads(text)
    return found


class Watcher:
    """One page of a thread. ``told``: (number of the event, its data, when it was heard), in order."""

    def __init__(self, ann: Caller, thread_id: str) -> None:
        self.ann, self.thread_id = ann, thread_id
        self.last = 0
        self.told: list[tuple[int, dict[str, Any], float]] = []
        self.recovered = 0
        self.ready, self.ended = asyncio.Event(), asyncio.Event()

    async def watch(self) -> None:
        cookies = "; ".join(f"{name}={value}" for name, value in self.ann.http.cookies.items())
        address = f"{self.ann.url.replace('http', 'ws', 1)}/ws/?thread={self.thread_id}"
        headers = {"Cookie": cookies, "Origin": self.ann.url}
        async with connect(
            address, additional_headers=headers, max_size=None, compression=None, open_timeout=PATIENCE
        ) as line:
            while not self.ended.is_set():
                text = await line.recv()
                now = time.time()
                heard = _heard(str(text))
                if "at" in heard and not self.ready.is_set():
                    self.last = next(iter(heard["at"].values()))
                    self.ready.set()
                elif "at" in heard and next(iter(heard["at"].values())) > self.last:
                    await self._ask()
                elif "events" in heard:
                    await self._take(heard["events"], now)

    async def _take(self, events: Iterable[dict[str, Any]], now: float) -> None:
        for event in events:
            if event["seq"] > self.last + 1:
                await self._ask()
            if event["seq"] == self.last + 1:
                self._one(event, now)

    def _one(self, event: dict[str, Any], now: float) -> None:
        self.last = event["seq"]
        self.told.append((event["seq"], event | event["data"], now))
        if event["kind"] == "end":
            self.ended.set()

    async def _ask(self) -> None:
        """Ask over HTTP for what is missing."""
        more = True
        while more:
            path, query = f"/threads/{self.thread_id}/events/", {"after": self.last}
            answer = (await asyncio.to_thread(self.ann.get, path, query)).json()
            for event in answer["events"]:
                self.recovered += 1
                self._one(event, time.time())
            more = answer["more"]


async def _watch_all(watchers: Sequence[Watcher], begin: Any) -> None:
    """Open all pages, fifty at a time, call ``begin``, and wait until each has heard the end."""
    tasks = []
    for start in range(0, len(watchers), 50):
        some = watchers[start : start + 50]
        tasks += [asyncio.create_task(one.watch()) for one in some]
        await asyncio.wait_for(asyncio.gather(*(one.ready.wait() for one in some)), PATIENCE)
    begin()
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)


def _told(watcher: Watcher) -> list[tuple[dict[str, Any], float]]:
    return [(data["data"], at) for _, data, at in watcher.told if data["kind"] == "custom"]


# --------------------------------------------------------------------------------------------------------------- cases


def _beacon(desk: Desk, ann: Caller, sockets: int, count: int, apart: float) -> tuple[list[Watcher], float]:
    """Have things told to so many pages. Returns the pages, and the seconds of work they took in this process."""
    go = f"go-{time.time_ns()}"
    thread_id = ann.start("beacon", f"{go} {count} {apart}")
    watchers = [Watcher(ann, thread_id) for _ in range(sockets)]
    begun = 0.0

    def begin() -> None:
        nonlocal begun
        begun = time.process_time()
        (desk.data / go).touch()

    asyncio.run(_watch_all(watchers, begin))
    return watchers, time.process_time() - begun


def single(desk: Desk, ann: Caller, name: str, sockets: int) -> None:
    watchers, work = _beacon(desk, ann, sockets, TOLD, APART)
    took = [(at - data["at"]) * 1e3 for one in watchers for data, at in _told(one)]
    case = f"one event to {sockets} sockets, {name}"
    report("stream", f"{case}, median", unit="ms", ours=median(took))
    report("stream", f"{case}, p95", unit="ms", ours=p95(took), limit="<= 250")
    report("stream", f"{case}, work of the bench's own process", unit="ms", ours=work * 1e3 / TOLD)


def burst(desk: Desk, ann: Caller, name: str, sockets: int) -> None:
    watchers, work = _beacon(desk, ann, sockets, BURST, 0)
    whole = list(range(BURST))
    right = sum([data["number"] for data, _ in _told(one)] == whole for one in watchers)
    pushed = sum(len(one.told) - one.recovered for one in watchers) / sum(len(one.told) for one in watchers)
    last = max(at - data["at"] for one in watchers for data, at in _told(one)) * 1e3
    case = f"burst of {BURST} events to {sockets} sockets, {name}"
    report("stream", f"{case}, delivered in order", unit="%", ours=100 * right / sockets, limit="= 100")
    report("stream", f"{case}, without asking again", unit="%", ours=100 * pushed)
    report("stream", f"{case}, until the last has all", unit="ms", ours=last)
    report("stream", f"{case}, work of the bench's own process", unit="ms", ours=work * 1e3)


def together(ann: Caller, name: str) -> None:
    """Twenty agents at 50 words a second, each watched by somebody."""
    threads = [ann.start("talker", str(WORDS)) for _ in range(AT_WORK)]
    watchers = [Watcher(ann, thread_id) for thread_id in threads]
    asyncio.run(_watch_all(watchers, lambda: None))
    rates, paces = zip(*map(_rates, watchers), strict=True)
    case = f"{AT_WORK} agents, 50 words/s each, {AT_WORK} viewers, {name}"
    report("stream", f"{case}, writes of a run", unit="1/s", ours=max(rates), limit="<= 12")
    report("stream", f"{case}, writes of all", unit="1/s", ours=sum(rates))
    report("stream", f"{case}, words of a run", unit="1/s", ours=median(paces))


def _rates(watcher: Watcher) -> tuple[float, float]:
    """Return events and words a second, from the first words that were pushed to the last."""
    pushed = watcher.told[watcher.recovered :]
    spoken = [at for _, data, at in pushed if data["kind"] == "delta"]
    words = sum(len(data["text"].split()) for _, data, _ in pushed if data["kind"] == "delta")
    during = sum(spoken[0] <= at <= spoken[-1] for _, _, at in pushed)
    spent = spoken[-1] - spoken[0]
    return during / spent, words / spent


def browser(desk: Desk, ann: Caller, name: str) -> None:
    with chromium() as context:
        page: Page = context.new_page()
        sign_in(page, desk.url, "ann")
        thread_id = ann.start("talker", str(WORDS))
        page.goto(f"{desk.url}/threads/{thread_id}/")
        page.locator("#line[data-state=live]").wait_for()
        page.evaluate(_WATCH_TASKS)
        page.get_by_text(f"word{WORDS - 1}").first.wait_for(timeout=PATIENCE * 1e3)
        page.locator("#tail:empty").wait_for(state="attached", timeout=PATIENCE * 1e3)
        longest = max(page.evaluate("window.long"), default=0)
        page.evaluate(_TAKE_LONG)
        page.wait_for_function("window.long.length > 0")  # otherwise none was seen because nobody looked
    case = f"50 words/s in a browser, longest task over 50 ms, {name}"
    report("stream", case, unit="ms", ours=longest, limit="<= 50")


if __name__ == "__main__":
    main()
