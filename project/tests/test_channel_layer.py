"""A worker thread tells pages what changed, through the layer of the embedded desk."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels_redis.pubsub import RedisPubSubChannelLayer
from pytest_django.fixtures import Settings

from project.channel_layer import ThreadSafeInMemoryLayer

HINT = {"type": "hint", "thread": "t-1"}


async def test_a_send_from_another_thread_wakes_the_page_at_once() -> None:
    layer = ThreadSafeInMemoryLayer()
    await layer.group_add("inbox", "page")
    waiting = asyncio.ensure_future(layer.receive("page"))
    await asyncio.sleep(0)  # the page waits now
    loop = asyncio.get_running_loop()
    # Nothing else may wake the loop in this test: a put that is not handed over would be seen only when the timeout is.
    worker = threading.Thread(target=lambda: async_to_sync(layer.group_send)("inbox", HINT))
    worker.start()
    began = loop.time()
    assert await asyncio.wait_for(waiting, timeout=60) == HINT
    assert loop.time() - began < 1
    await asyncio.to_thread(worker.join)


async def test_a_send_to_one_channel_from_a_thread_arrives() -> None:
    layer = ThreadSafeInMemoryLayer()
    waiting = asyncio.ensure_future(layer.receive("page"))
    await asyncio.sleep(0)
    await asyncio.to_thread(async_to_sync(layer.send), "page", HINT)
    assert await asyncio.wait_for(waiting, timeout=60) == HINT


async def test_many_threads_lose_nothing() -> None:
    layer = ThreadSafeInMemoryLayer(capacity=1_000)
    await layer.group_add("inbox", "page")
    got: list[dict[str, Any]] = []

    async def page() -> None:
        while len(got) < 200:
            got.append(await layer.receive("page"))

    reading = asyncio.ensure_future(page())
    await asyncio.sleep(0)

    def send(first: int) -> None:
        for number in range(first, first + 50):
            async_to_sync(layer.group_send)("inbox", {"type": "hint", "number": number})

    await asyncio.gather(*(asyncio.to_thread(send, first) for first in (0, 50, 100, 150)))
    await asyncio.wait_for(reading, timeout=60)
    assert sorted(message["number"] for message in got) == list(range(200))


def test_before_any_page_is_open_a_send_goes_nowhere_and_fails_nowhere() -> None:
    layer = ThreadSafeInMemoryLayer()
    async_to_sync(layer.group_send)("inbox", HINT)


def test_after_the_server_is_gone_a_send_still_fails_nowhere() -> None:
    layer = ThreadSafeInMemoryLayer()

    async def one_page() -> None:
        await layer.group_add("inbox", "page")
        await layer.send("page", HINT)
        await layer.receive("page")

    asyncio.run(one_page())
    async_to_sync(layer.group_send)("inbox", HINT)


async def test_a_full_channel_says_so_to_the_sender() -> None:
    from channels.exceptions import ChannelFull

    layer = ThreadSafeInMemoryLayer(capacity=1)
    await layer.send("page", HINT)
    with pytest.raises(ChannelFull):
        await layer.send("page", HINT)


async def test_a_channel_that_is_read_stays_in_its_groups_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ThreadSafeInMemoryLayer()
    await layer.group_add("inbox", "page")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * layer.group_expiry)
    await layer.group_send("inbox", HINT)
    assert await asyncio.wait_for(layer.receive("page"), timeout=60) == HINT


@pytest.mark.production
async def test_a_page_that_hears_nothing_for_a_while_still_hears_the_next_hint(settings: Settings) -> None:
    """redis-py 8 closed idle sockets after 5 s (django/channels_redis#422), so this one waits longer."""
    config = settings.CHANNEL_LAYERS["default"]["CONFIG"]
    layer = RedisPubSubChannelLayer(**{**config, "prefix": f"idle-{uuid.uuid4().hex}"})
    page = await layer.new_channel()
    await layer.group_add("inbox", page)
    waiting = asyncio.ensure_future(layer.receive(page))
    done, _ = await asyncio.wait([waiting], timeout=6)
    assert not done
    await layer.group_send("inbox", HINT)
    assert await asyncio.wait_for(waiting, timeout=60) == HINT
    await layer.flush()


async def test_a_send_that_the_ending_server_cancels_is_no_error() -> None:
    """The desk ends while a hint is on its way: the thread of hints must not die of it, loudly."""
    layer, home = ThreadSafeInMemoryLayer(), asyncio.new_event_loop()
    server = threading.Thread(target=home.run_forever)
    server.start()
    layer._home = home

    def leave() -> None:
        for task in asyncio.all_tasks(home):
            task.cancel()

    try:
        with pytest.raises(TimeoutError):  # a sender that gives up is told so
            await asyncio.wait_for(layer._at_home(lambda: asyncio.sleep(30)), 0.05)
        home.call_soon_threadsafe(home.call_later, 0.05, leave)
        await asyncio.wait_for(layer._at_home(lambda: asyncio.sleep(30)), 10)
    finally:
        home.call_soon_threadsafe(home.stop)
        server.join()
        home.close()


async def test_a_send_that_the_ending_server_never_begins_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """It stood in the loop's list when the loop stopped; the thread of hints waited two seconds for it, and said so."""
    layer, home = ThreadSafeInMemoryLayer(), asyncio.new_event_loop()
    begun, stop = threading.Event(), threading.Event()

    def last() -> None:
        begun.set()
        stop.wait(60)
        home.stop()

    server = threading.Thread(target=lambda: (home.call_soon(last), home.run_forever()))
    server.start()
    layer._home = home
    await asyncio.to_thread(begun.wait, 60)
    sending = asyncio.ensure_future(layer.group_send("inbox", HINT))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(sending, timeout=10)
    server.join()
    home.close()
    assert caplog.records == []
