"""A thread's stream through the door: who may watch, that a cut line costs nothing, that what comes is strict JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import channel_layers, get_channel_layer
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.urls import reverse

from agents import connections, registry, runs, streams
from agents.models import Run, RunEvent
from agents.outcome import StreamEvent
from agents.streams.events import Told
from agents.tests import graphs
from reviews import consumers, live, reminders, stream, tasks, threads
from reviews.models import Grant, Role
from reviews.tests.cast import Cast
from reviews.tests.sockets import Socket, closes_with, connected, doorman, stored
from reviews.tests.watching import Page, events_of

pytestmark = pytest.mark.django_db(transaction=True)
QUIET = 0.15


@pytest.fixture(autouse=True)
def _fresh_layer() -> None:
    live.flush()
    channel_layers.backends.clear()


@pytest.fixture
def door(cast: Cast) -> Callable[..., Socket]:
    return doorman(cast)


@pytest.fixture
def worker(cast: Cast) -> Iterator[None]:
    """The support agent may be run; people are asked about ``wipe``."""
    with registry.override("support", lambda: graphs.agent(graphs.into([]), policy={"wipe": True})):
        yield
    connections.close_all()


def watch(cast: Cast) -> str:
    return f"/ws/?thread={cast.thread.pk}"


def in_as(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


def tell(cast: Cast, *told: Told) -> list[StreamEvent]:
    """Store events as a run of the thread would, and return them."""
    run = Run.objects.filter(thread=cast.thread).first() or Run.objects.get(
        pk=runs.enqueue(cast.thread.pk, kind="input", payload={"text": "hi"}, author="olga")
    )
    first = streams.last_seq(cast.thread.pk) + 1
    rows = [
        RunEvent(thread=cast.thread, run=run, seq=seq, kind=one.kind, data=one.data)
        for seq, one in enumerate(told, first)
    ]
    RunEvent.objects.bulk_create(rows)
    return [StreamEvent(row.thread_id, str(row.run_id), row.seq, row.kind, row.data) for row in rows]


def words(*texts: str) -> list[Told]:
    return [
        Told("delta", {"lane": "", "id": "m", "node": "model", "block": 0, "type": "text", "text": text})
        for text in texts
    ]


# -------------------------------------------------------------------------------- who may watch


async def test_who_sees_the_agent_watches_its_thread_and_who_does_not_is_refused_without_a_hint(
    cast: Cast, door: Any
) -> None:
    """HC-35: guessing an id gives a refusal that does not tell whether it exists."""
    for name in ("ann", "olga", "aude", "root"):
        async with connected(door(name, watch(cast))):
            pass
    refusals = [await door("otto", watch(cast)).connect(), await door("otto", "/ws/?thread=nothing").connect()]
    assert refusals == [(False, consumers.NOT_THERE)] * 2
    assert await door(None, watch(cast)).connect() == (False, consumers.SIGNED_OUT)
    assert not (await door("ann", watch(cast), origin="https://evil.example").connect())[0]


async def test_events_reach_those_who_watch_and_nobody_else(cast: Cast, door: Any) -> None:
    async with connected(door("ann", watch(cast))) as ann, connected(door("ann")) as elsewhere:
        assert await ann.receive_json_from() == {"at": {cast.thread.pk: 0}}
        told = await stored(lambda: tell(cast, *words("Hel", "lo")))
        for event in told:
            live.show(event)
        frame = await ann.receive_json_from()
        assert events_of(frame) == told
        assert await elsewhere.receive_nothing(QUIET)


async def test_who_loses_the_right_hears_no_more(cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.05)
    async with connected(door("ann", watch(cast))) as ann:
        await ann.receive_json_from()
        await stored(Grant.objects.all().delete)
        assert await closes_with(ann) == consumers.RIGHT_LOST


async def test_who_loses_the_right_takes_nothing_from_those_beside(
    cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages of one process, in the same groups of its hub: each hears what its own reader may."""
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.05)
    async with connected(door("ann", watch(cast))) as ann, connected(door("aude", watch(cast))) as aude:
        for page in (ann, aude):
            assert await page.receive_json_from() == {"at": {cast.thread.pk: 0}}
        await stored(Grant.objects.exclude(role=Role.AUDITOR).delete)
        assert await closes_with(ann) == consumers.RIGHT_LOST
        consumers.RECHECK_SECONDS = 60
        (event,) = await stored(lambda: tell(cast, *words("still told")))
        live.show(event)
        assert events_of(await aude.receive_json_from()) == [event]
        assert not [said for said in await everything(ann) if said["type"] != "websocket.close"]
    layer = get_channel_layer()
    assert layer is not None
    assert layer.groups == {}  # the last page that leaves takes the process with it


async def everything(socket: Socket) -> list[dict[str, Any]]:
    """Return what came until it is quiet."""
    messages = []
    while not await socket.receive_nothing(QUIET):
        messages.append(await socket.receive_output())
    return messages


async def test_one_question_asks_for_all_pages_where_their_streams_stand(
    cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminders, "AT_SECONDS", 0.05)
    asked: list[list[str]] = []

    def counted(threads: list[str]) -> dict[str, int]:
        asked.append(threads)
        return honest(threads)

    honest = reminders.newest
    async with connected(door("ann", watch(cast))) as ann, connected(door("aude", watch(cast))) as aude:
        for page in (ann, aude):
            await page.receive_json_from()
        monkeypatch.setattr(reminders, "newest", counted)
        await stored(lambda: tell(cast, *words("never pushed")))
        for page in (ann, aude):
            assert await page.receive_json_from() == {"at": {cast.thread.pk: 1}}
        assert {tuple(threads) for threads in asked} == {(cast.thread.pk,)}
    asked.clear()
    await asyncio.sleep(QUIET)
    assert asked == []  # nobody watches


def test_the_newest_numbers_of_many_threads_are_one_statement(cast: Cast, django_assert_num_queries: Any) -> None:
    tell(cast, *words("one", "two"))
    quiet = threads.start_thread(cast.olga, "support", text="hi", submit_token="t")
    with django_assert_num_queries(1):
        assert reminders.newest([cast.thread.pk, quiet, "nothing"]) == {cast.thread.pk: 2, quiet: 0}


async def test_who_signs_out_hears_no_more(cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HC-35, for a stream: nothing that is told afterwards reaches the page."""
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.05)
    async with connected(door("ann", watch(cast))) as ann:
        await ann.receive_json_from()
        await stored(Session.objects.all().delete)
        assert await closes_with(ann) == consumers.SIGNED_OUT
        for event in await stored(lambda: tell(cast, *words("secret"))):
            live.show(event)
        while not await ann.receive_nothing(
            QUIET
        ):  # no browser is there to hang up, so the door is shut again and again
            assert (await ann.receive_output())["type"] == "websocket.close"
            consumers.RECHECK_SECONDS = 60


async def test_a_page_is_told_where_the_stream_stands_so_a_lost_last_event_is_missed(
    cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminders, "AT_SECONDS", 0.05)
    async with connected(door("ann", watch(cast))) as ann:
        assert await ann.receive_json_from() == {"at": {cast.thread.pk: 0}}
        await stored(lambda: tell(cast, *words("never pushed")))
        assert await ann.receive_json_from() == {"at": {cast.thread.pk: 1}}
        assert await ann.receive_nothing(QUIET)  # it is said once


@pytest.mark.parametrize(
    ("name", "status"), [("ann", 200), ("olga", 200), ("aude", 200), ("root", 200), ("otto", 404), (None, 401)]
)
def test_the_stream_over_http_has_the_same_door(cast: Cast, name: str | None, status: int) -> None:
    client = in_as(cast, name) if name else Client()
    for query in ("", "?after=0"):
        answer = client.get(reverse("reviews:events", args=[cast.thread.pk]) + query)
        assert answer.status_code == status
        assert answer["Content-Type"].startswith("application/json")
        assert "no-store" in answer["Cache-Control"]
    hidden = client.get(reverse("reviews:events", args=[cast.thread.pk])).content
    if status == 404:
        assert hidden == client.get(reverse("reviews:events", args=["nothing"])).content


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "", "9" * 30, "٣"])
def test_what_is_no_number_is_refused(cast: Cast, after: str) -> None:
    answer = in_as(cast, "ann").get(reverse("reviews:events", args=[cast.thread.pk]), {"after": after})
    assert answer.status_code == 400


def test_looking_changes_nothing(cast: Cast) -> None:
    assert in_as(cast, "ann").post(reverse("reviews:events", args=[cast.thread.pk])).status_code == 405


# -------------------------------------------------------------------------------- the line is cut


def run_of_two_lanes(cast: Cast) -> tuple[list[StreamEvent], str]:
    """HC-27: 200 tokens, 20 events of a subgraph, the final state, the end. Returns them, and the final text."""
    text = "".join(f"word{number} " for number in range(200))
    told = [Told("status", {"lane": "", "status": "running", "attempt": 1, "checkpoint": ""})]
    told += words(*(f"word{number} " for number in range(200)))
    told += [
        Told("node", {"lane": "sub:1", "node": str(number), "task": "t", "state": "started"}) for number in range(20)
    ]
    message = {"lane": "", "id": "m", "index": 0, "role": "ai", "name": "", "calls": [], "replaces": "", "same": True}
    told += [Told("message", message), Told("end", {"lane": "", "status": "success", "checkpoint": ""})]
    return tell(cast, *told), text


@pytest.mark.parametrize("cut", ["in the middle", "after the end", "from the start", "two tabs"])
def test_a_cut_line_costs_no_word(cast: Cast, cut: str) -> None:
    """HC-27: drop after event 70; reconnect in time, after the end, or with no position; and two tabs."""
    told, text = run_of_two_lanes(cast)
    pages = [Page(in_as(cast, "ann").get, cast.thread.pk) for _ in range(2 if cut == "two tabs" else 1)]
    for page in pages:
        if cut == "from the start":
            page.load()
        else:
            page.push({"thread": cast.thread.pk, "events": [json.loads(stream.encode(event)) for event in told[:70]]})
            if cut != "after the end":
                page.push(
                    {"thread": cast.thread.pk, "events": [json.loads(stream.encode(event)) for event in told[150:]]}
                )
            page.ask()
        assert page.screen.bubbles() == [("m", text)] or cut == "from the start"
        assert page.screen.ended == "success" or cut == "from the start"
        if cut != "from the start":
            assert page.numbers == sorted(set(page.numbers)) == list(range(1, len(told) + 1))


def test_frames_that_come_shuffled_and_twice_end_in_order(cast: Cast) -> None:
    told, text = run_of_two_lanes(cast)
    frames = [told[start : start + 10] for start in range(0, len(told), 10)] * 2
    random.Random(27).shuffle(frames)
    page = Page(in_as(cast, "ann").get, cast.thread.pk)
    for frame in frames:
        page.push({"thread": cast.thread.pk, "events": [json.loads(stream.encode(event)) for event in frame]})
    page.ask()
    assert page.screen.bubbles() == [("m", text)]
    assert page.numbers == list(range(1, len(told) + 1))


def test_a_gap_that_cannot_be_filled_makes_the_page_start_anew(cast: Cast) -> None:
    told, _ = run_of_two_lanes(cast)
    page = Page(in_as(cast, "ann").get, cast.thread.pk)
    page.push({"thread": cast.thread.pk, "events": [json.loads(stream.encode(event)) for event in told[:70]]})
    RunEvent.objects.filter(thread=cast.thread, seq__lt=150).delete()
    page.ask()
    assert page.reloads == 1
    assert page.screen.seq == len(told)


@pytest.mark.long
def test_ten_thousand_events_come_in_pages(cast: Cast) -> None:
    """CHECKS A17."""
    text = [f"{number} " for number in range(10_000)]
    tell(cast, *words(*text))
    page = Page(in_as(cast, "ann").get, cast.thread.pk)
    page.ask()
    assert page.screen.bubbles() == [("m", "".join(text))]
    assert page.numbers == list(range(1, 10_001))


@pytest.mark.long
async def test_a_layer_over_capacity_loses_pushes_and_no_page_loses_words(
    cast: Cast, door: Any, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    """HC-38, CHECKS A17: a page sleeps while 500 events come; another hears all; both end with the same text."""
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "project.channel_layer.ThreadSafeInMemoryLayer", "CONFIG": {"capacity": 100}}
    }
    layer = get_channel_layer()
    assert layer is not None
    sleeper = await layer.new_channel()
    await layer.group_add(stream.group_of(cast.thread.pk), sleeper)
    async with connected(door("ann", watch(cast))) as ann:
        await ann.receive_json_from()
        awake = Page((await stored(lambda: in_as(cast, "ann"))).get, cast.thread.pk)
        told = await stored(lambda: tell(cast, *words(*(f"{number} " for number in range(500)))))
        with caplog.at_level(logging.WARNING):
            for event in told:
                live.show(event)
                await asyncio.to_thread(live.flush)  # a message for each: the layer's capacity is counted in messages
                await database_sync_to_async(awake.push)(await ann.receive_json_from())
    assert awake.numbers == list(range(1, 501))
    assert "does not read its socket" in caplog.text
    assert live.counts["overflow"] >= 400
    waking = Page(awake.get, cast.thread.pk)
    for _ in range(100):
        frame = json.loads((await layer.receive(sleeper))["frame"][2])
        await database_sync_to_async(waking.push)(frame)
    await database_sync_to_async(waking.ask)()
    assert waking.screen.bubbles() == awake.screen.bubbles()


async def test_a_connection_that_broke_between_two_looks_is_replaced(
    cast: Cast, door: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HC-38: the consumer answers after the loss of its connection without a traceback."""
    monkeypatch.setattr(reminders, "AT_SECONDS", 0.05)
    async with connected(door("ann", watch(cast))) as ann:
        await ann.receive_json_from()
        await database_sync_to_async(lambda: connection.close(), thread_sensitive=False)()
        await stored(lambda: tell(cast, *words("still here")))
        assert await ann.receive_json_from() == {"at": {cast.thread.pk: 1}}
    assert "Traceback" not in caplog.text


# -------------------------------------------------------------------------------- frames


def test_frames_are_strict_json_below_64_kib_in_order(cast: Cast) -> None:
    told = tell(
        cast, *words(*("𝄞" * 4_000 for _ in range(5))), Told("custom", {"lane": "", "channel": "", "data": ["\0"]})
    )
    packed = list(stream.frames(cast.thread.pk, told))
    assert len(packed) == 5
    assert max(len(frame.text) for frame in packed) < 65_536
    read = [json.loads(frame.text, parse_constant=pytest.fail) for frame in packed]
    assert [event["seq"] for frame in read for event in frame["events"]] == [1, 2, 3, 4, 5, 6]
    assert [frame.last for frame in packed] == [frame["events"][-1]["seq"] for frame in read]


def test_arguments_never_go_out_with_a_stream_or_its_snapshot(cast: Cast, worker: None) -> None:
    secret = "IBAN DE89 3704 0044 0532 0130 00"
    said = graphs.turns([("wipe", {"path": secret})])
    thread_id = threads.start_thread(cast.olga, "support", text=said, submit_token="t")
    tasks.poll_once()
    client = in_as(cast, "ann")
    told = client.get(reverse("reviews:events", args=[thread_id]), {"after": 0}).json()
    calls = [event["data"] for event in told["events"] if event["kind"] == "call"]
    assert [call["name"] for call in calls] == ["wipe"]
    assert secret not in json.dumps(calls)
    snapshot = client.get(reverse("reviews:events", args=[thread_id])).json()
    assert [call["name"] for call in snapshot["messages"][-1]["calls"]] == ["wipe"]
    assert secret not in json.dumps([message["calls"] for message in snapshot["messages"]])


# --------------------------------------------------------------------------------
# A real run.


async def test_two_pages_watch_a_run_one_is_cut_off_and_both_read_the_same(cast: Cast, door: Any, worker: None) -> None:
    said = graphs.turns([("read", {"id": 1})])
    thread_id = await stored(lambda: threads.start_thread(cast.olga, "support", text=said, submit_token="t"))
    whole, cut = [Page((await stored(lambda: in_as(cast, "ann"))).get, thread_id) for _ in range(2)]
    async with connected(door("ann", f"/ws/?thread={thread_id}")) as ann:
        await ann.receive_json_from()
        await database_sync_to_async(tasks.poll_once, thread_sensitive=False)()
        while whole.screen.ended != "success":
            frame = await ann.receive_json_from()
            if "changed" in frame:
                continue
            await database_sync_to_async(whole.push)(frame)
            if not cut.numbers:
                await database_sync_to_async(cut.push)(frame)  # and then its line is down
    await database_sync_to_async(cut.ask)()
    late = Page(whole.get, thread_id)
    await database_sync_to_async(late.load)()
    assert cut.screen.bubbles() == late.screen.bubbles() == whole.screen.bubbles()
    assert cut.screen.ended == "success"
