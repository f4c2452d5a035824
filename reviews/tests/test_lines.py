"""The line of one page: what gathers goes out together, what does not fit is dropped and said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from autobahn.exception import Disconnected

from agents.outcome import StreamEvent
from reviews import lines, live, stream
from reviews.lines import Line


class Browser:
    """Reads a line's messages when it is told to; ``messages`` it has read."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.fails: Exception | None = None
        self.line = Line(self._take)
        self.line.begin()

    async def _take(self, text: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.messages.append(json.loads(text))
        await self.reads.wait()

    async def sleeps(self) -> None:
        """Have it stop reading in the middle of a message."""
        self.reads.clear()
        self.line.names(["asleep"])
        await rest()
        assert self.messages.pop() == {"changed": ["asleep"]}

    async def wakes(self) -> None:
        self.reads.set()
        await rest()


async def rest() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    browser = Browser()
    yield browser
    await browser.line.end()


def frame(*numbers: int, thread: str = "t", text: str = "x") -> stream.Frame:
    told = [StreamEvent(thread, "r", number, "delta", {"text": text}) for number in numbers]
    (packed,) = stream.frames(thread, told)
    return packed


def numbers(message: dict[str, Any]) -> list[int]:
    return [event["seq"] for event in message["events"]]


async def test_what_comes_one_by_one_goes_out_as_it_is(browser: Browser) -> None:
    for number in (1, 2):
        browser.line.frame(frame(number))
        await rest()
    browser.line.names(["inbox"])
    await rest()
    assert browser.messages == [json.loads(frame(1).text), json.loads(frame(2).text), {"changed": ["inbox"]}]


async def test_what_gathers_while_the_last_message_is_sent_goes_out_together(browser: Browser) -> None:
    await browser.sleeps()
    for number in (1, 2, 3):
        browser.line.frame(frame(number, thread='a "b"'))
        browser.line.names(["inbox", f"thread-{number}"])
    browser.line.frame(frame(1, thread="other"))
    await browser.wakes()
    hints, first, other = browser.messages
    assert hints == {"changed": ["inbox", "thread-1", "thread-2", "thread-3"]}
    assert first == json.loads(frame(1, 2, 3, thread='a "b"').text)
    assert (other["thread"], numbers(other)) == ("other", [1])


async def test_no_frame_grows_beyond_what_a_proxy_passes(browser: Browser) -> None:
    await browser.sleeps()
    for number in range(1, 8):
        browser.line.frame(frame(number, text="x" * 20_000))
    await browser.wakes()
    assert [numbers(message) for message in browser.messages] == [[1, 2], [3, 4], [5, 6], [7]]


async def test_a_page_that_does_not_read_costs_a_bounded_memory_and_learns_what_it_missed(browser: Browser) -> None:
    before = live.counts["overflow"]
    await browser.sleeps()
    for number in range(1, 101):
        browser.line.frame(frame(number, text="x" * 10_000))
    held = sum(len(one.text) for one in browser.line._frames)
    assert 400_000 < held <= lines.MOST_WAITING
    await browser.wakes()
    *told, at = browser.messages
    whole = [number for message in told for number in numbers(message)]
    assert whole == list(range(1, len(whole) + 1))  # the page has no gap before it is told of one
    assert live.counts["overflow"] - before == 100 - len(whole)
    assert at == {"at": {"t": 100}}
    browser.line.frame(frame(101))
    await rest()
    assert numbers(browser.messages[-1]) == [101]


async def test_frames_of_other_threads_pass_when_one_was_too_much(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_WAITING", 1_000)
    await browser.sleeps()
    browser.line.frame(frame(1, text="x" * 2_000))
    browser.line.frame(frame(2))
    browser.line.frame(frame(7, thread="small"))
    await browser.wakes()
    small, at = browser.messages
    assert (small["thread"], numbers(small)) == ("small", [7])
    assert at == {"at": {"t": 2}}


async def test_a_page_that_sleeps_holds_up_no_other() -> None:
    asleep, awake = Browser(), Browser()
    await asleep.sleeps()
    for number in range(1, 301):
        for browser in (asleep, awake):
            browser.line.frame(frame(number))
        await rest()
    assert [number for message in awake.messages for number in numbers(message)] == list(range(1, 301))
    assert asleep.messages == []
    for browser in (asleep, awake):
        await browser.line.end()


async def test_more_hints_than_a_page_can_act_on_are_one(browser: Browser) -> None:
    await browser.sleeps()
    for number in range(lines.MOST_NAMES + 5):
        browser.line.names([f"inbox-{number}"])
    await browser.wakes()
    (hint,) = browser.messages
    assert live.EVERYTHING in hint["changed"]
    assert len(hint["changed"]) < 10


async def test_what_a_right_was_lost_for_is_forgotten(browser: Browser) -> None:
    await browser.sleeps()
    browser.line.frame(frame(1))
    browser.line.names(["inbox"])
    browser.line.at("t", 1)
    browser.line.clear()
    await browser.wakes()
    assert browser.messages == []


async def test_a_message_that_fails_is_logged_and_the_next_one_goes_out(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    browser.fails = ValueError("broken pipe")
    browser.line.names(["inbox"])
    await rest()
    browser.fails = None
    browser.line.names(["threads"])
    await rest()
    assert browser.messages == [{"changed": ["threads"]}]
    assert caplog.text.count("A message to a page failed.") == 1


async def test_a_page_that_was_left_is_no_failure(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    browser.fails = Disconnected("gone")
    browser.line.names(["inbox"])
    await rest()
    browser.line.names(["threads"])
    await rest()
    assert (browser.messages, caplog.text) == ([], "")
