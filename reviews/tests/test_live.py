"""Hints: who hears them, when they leave, and that nothing depends on them."""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from channels.layers import BaseChannelLayer, channel_layers, get_channel_layer
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import DatabaseError, transaction
from django.test import Client

from agents.models import Agent
from agents.outcome import StreamEvent
from reviews import consumers, live
from reviews.models import Decision, Grant, Interrupt, Role
from reviews.tests.cast import APPROVE, Cast, ask_calls, decide, file_outcome
from reviews.tests.sockets import Socket, closes_with, connected, doorman, stored

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")
QUIET = 0.15  # seconds in which nothing may come


@pytest.fixture(autouse=True)
def _fresh_layer() -> None:
    """The in-memory layer keeps the loop it was used on; each test has its own."""
    live.flush()
    channel_layers.backends.clear()


@pytest.fixture
def door(cast: Cast) -> Callable[..., Socket]:
    return doorman(cast)


# ---------------------------------------------------------------------------------------------------------- who gets in


async def test_anonymous_people_are_refused(door: Any) -> None:
    assert await door(None).connect() == (False, consumers.SIGNED_OUT)


@pytest.mark.parametrize("origin", ["https://evil.example", None, "null", "http://localhost:9999"])
async def test_foreign_and_missing_origins_are_refused(door: Any, origin: str | None) -> None:
    """HC-35."""
    is_open, _ = await door("ann", origin=origin).connect()
    assert not is_open


async def test_a_page_is_greeted_with_the_servers_time(door: Any) -> None:
    socket = door("ann")
    await socket.connect()
    now = datetime.fromisoformat((await socket.receive_json_from())["hello"]["now"])
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)
    await socket.disconnect()


async def test_a_database_that_is_away_keeps_the_door_shut(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(consumers, "_groups_of", away)
    assert await door("ann").connect() == (False, consumers.UNAVAILABLE)


# ------------------------------------------------------------------------------------------------------- who hears what


async def test_ann_hears_of_her_agent_and_otto_does_not(door: Any) -> None:
    async with connected(door("ann")) as ann, connected(door("otto")) as otto, connected(door("root")) as root:
        await stored(lambda: live.publish_on_commit("inbox-3", "thread-9", agent="support"))

        assert await ann.receive_json_from() == {"changed": ["inbox-3", "thread-9"]}
        assert await root.receive_json_from() == {"changed": ["inbox-3", "thread-9"]}
        assert await otto.receive_nothing(QUIET)


async def test_somebody_without_any_right_hears_nothing(cast: Cast, door: Any) -> None:
    await stored(Grant.objects.all().delete)
    async with connected(door("ann")) as ann:
        await stored(lambda: live.publish_on_commit("inbox", agent="support"))
        await stored(lambda: live.publish_on_commit("workers"))
        assert await ann.receive_nothing(QUIET)


async def test_nothing_leaves_before_the_commit_and_nothing_after_a_rollback(door: Any) -> None:
    def undone() -> None:
        with transaction.atomic():
            live.publish_on_commit("inbox", agent="support")
            transaction.set_rollback(True)

    async with connected(door("ann")) as ann:
        await stored(undone)
        assert await ann.receive_nothing(QUIET)


async def test_hints_of_one_moment_are_one_message(door: Any) -> None:
    def many() -> None:
        for number in range(30):
            live.publish_on_commit(f"thread-{number % 3}", "inbox", agent="support")

    async with connected(door("ann")) as ann:
        await stored(many)
        heard = {name for message in await received(ann) for name in message["changed"]}
        assert heard == {"inbox", "thread-0", "thread-1", "thread-2"}


async def received(socket: WebsocketCommunicator) -> list[Any]:
    """Return what came until it is quiet; less than five messages, for coalescing is promised."""
    messages = []
    while not await socket.receive_nothing(QUIET):
        messages.append(await socket.receive_json_from())
    assert len(messages) < 5
    return messages


async def test_a_question_and_its_decision_reach_the_pages(cast: Cast, door: Any) -> None:
    async with connected(door("ann")) as ann, connected(door("otto")) as otto:
        (row,) = await stored(lambda: file_outcome(cast.thread, ask_calls(("pay", {"amount": 5}))))
        names = {"inbox", f"inbox-{row.pk}", f"interrupt-{row.pk}", f"thread-{cast.thread.pk}"}
        assert set((await ann.receive_json_from())["changed"]) == names

        await stored(lambda: decide(cast.ben, row, APPROVE))
        assert set((await ann.receive_json_from())["changed"]) == names
        assert await otto.receive_nothing(QUIET)


async def test_a_new_socket_hears_what_changed_since_its_page_was_made(
    cast: Cast, payment: Interrupt, door: Any
) -> None:
    made = int(payment.created_at.timestamp())
    names = {f"thread-{cast.thread.pk}", f"inbox-{payment.pk}", f"interrupt-{payment.pk}", "threads", "inbox"}
    async with connected(door("ann", f"/ws/?since={made}")) as ann:
        assert set((await ann.receive_json_from())["changed"]) == names
    for name, query in (("ann", f"?since={made + 60}"), ("otto", f"?since={made}"), ("ann", "?since=-1"), ("ann", "")):
        async with connected(door(name, f"/ws/{query}")) as socket:
            assert await socket.receive_nothing(QUIET)


async def test_whatever_a_browser_sends_is_ignored(cast: Cast, payment: Interrupt, door: Any) -> None:
    async with connected(door("ann")) as ann:
        for text in (" ", "{", f'{{"decide": {payment.pk}, "verdict": "approve"}}', "[" * 50_000):
            await ann.send_to(text_data=text)
        await ann.send_to(bytes_data=b"\0\xff")
        await stored(lambda: live.publish_on_commit("inbox", agent="support"))
        assert await ann.receive_json_from() == {"changed": ["inbox"]}
    assert not await stored(Decision.objects.exists)


# --------------------------------------------------------------------------------------------------- rights that change


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.05)


async def test_signing_out_closes_the_socket(door: Any, often: None) -> None:
    async with connected(door("ann")) as ann:
        await stored(Session.objects.all().delete)
        assert await closes_with(ann) == consumers.SIGNED_OUT


async def test_an_account_that_is_switched_off_closes_the_socket(cast: Cast, door: Any, often: None) -> None:
    async with connected(door("ann")) as ann:
        await stored(lambda: User.objects.filter(pk=cast.ann.pk).update(is_active=False))
        assert await closes_with(ann) == consumers.SIGNED_OUT


async def test_a_new_password_closes_other_sessions_sockets(cast: Cast, door: Any, often: None) -> None:
    async with connected(door("ann")) as ann:
        await stored(lambda: User.objects.filter(pk=cast.ann.pk).update(password="another"))
        assert await closes_with(ann) == consumers.SIGNED_OUT


async def test_a_lost_right_closes_the_socket(cast: Cast, door: Any, often: None) -> None:
    async with connected(door("ann")) as ann:
        await stored(lambda: Group.objects.get(name="support reviewers").user_set.clear())
        assert await closes_with(ann) == consumers.RIGHT_LOST


async def test_a_new_right_is_heard_without_a_reload(cast: Cast, door: Any, often: None) -> None:
    def grant() -> None:
        Grant.objects.create(group=Group.objects.get(name="support reviewers"), agent=cast.other, role=Role.AUDITOR)

    async with connected(door("ann")) as ann:
        await stored(grant)
        for _ in range(40):  # until the next look at her rights, at most 2 s
            await stored(lambda: live.publish_on_commit("inbox", agent="billing"))
            if not await ann.receive_nothing(0.05):
                break
        assert await ann.receive_json_from() == {"changed": ["inbox"]}


async def test_a_check_that_fails_is_logged_and_tried_again(
    door: Any, often: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HC-38: a dead connection in a consumer."""
    honest = consumers._groups_of
    failures: list[int] = []

    def sometimes(*asked: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            raise DatabaseError("the connection is closed")
        return honest(*asked)

    async with connected(door("ann")) as ann:
        monkeypatch.setattr(consumers, "_groups_of", sometimes)
        await stored(Session.objects.all().delete)
        assert await closes_with(ann) == consumers.SIGNED_OUT
    assert [record.levelno for record in caplog.records if record.name == consumers.__name__] == [logging.ERROR] * 2


# ------------------------------------------------------------------------------------------------------ without a layer


def test_a_layer_that_is_away_costs_no_decision(
    cast: Cast, payment: Interrupt, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Away:
        async def group_send(self, *_: Any) -> None:
            raise OSError("no Redis")

    monkeypatch.setattr(live, "get_channel_layer", Away)
    before = live.counts["lost"]

    receipt = decide(cast.ann, payment, APPROVE)

    assert live.flush()
    assert receipt.verdicts == ("approve",)
    assert live.counts["lost"] > before
    assert "lost" in caplog.text


def test_a_layer_that_hangs_is_given_up(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging:
        async def group_send(self, *_: Any) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(live, "get_channel_layer", Hanging)
    monkeypatch.setattr(live, "SEND_SECONDS", 0.02)
    before = live.counts["lost"]

    live.publish("inbox", agent="support")

    assert live.flush()
    assert live.counts["lost"] == before + 1


async def test_a_page_whose_server_gave_it_up_is_out_of_all_groups(cast: Cast, door: Any) -> None:
    """Daphne cancels what does not end in time; no disconnect comes then."""
    layer = get_channel_layer()
    assert layer is not None
    socket = door("ann", f"/ws/?thread={cast.thread.pk}")
    await socket.connect()
    assert len(layer.groups) == 3  # her agent's, the desk's, the thread's
    socket.future.cancel()
    await asyncio.wait([socket.future])
    assert layer.groups == {}


async def test_a_full_channel_starves_nobody_else(door: Any) -> None:
    """HC-38: one page does not read; the other hears everything. What is decided never depends on a push."""
    async with connected(door("ann")) as ann, connected(door("aude")) as aude:
        for number in range(5):
            await stored(lambda number=number: live.publish_on_commit(f"thread-{number}", agent="support"))  # type: ignore[misc]
            assert await aude.receive_json_from() == {"changed": [f"thread-{number}"]}
        assert len([await ann.receive_json_from() for _ in range(5)]) == 5


@pytest.mark.parametrize("name", ["support", "a" * 100, "with.dot", "ümläut", "x y", "", "desk"])
def test_every_agents_name_makes_a_group_of_its_own(name: str) -> None:
    group = live.group_of(name)
    assert BaseChannelLayer().require_valid_group_name(group)
    assert group not in {live.DESK, live.group_of("another"), live.group_of(name + "x")}


def test_groups_follow_the_grants(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.root)
    user, groups = consumers._groups_of(client.session, [])
    assert user == cast.root
    assert groups == {live.DESK, *map(live.group_of, Agent.objects.values_list("pk", flat=True))}


def test_an_event_does_not_wait_for_what_a_hint_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "GATHER_SECONDS", 30.0)
    waiting: queue.SimpleQueue[live.Item] = queue.SimpleQueue()
    waiting.put(("desk", ("inbox",)))
    event = StreamEvent("thread", "run", 1, "tool", {})
    with ThreadPoolExecutor(1) as threads:
        gathering = threads.submit(live._gather, waiting)
        waiting.put(event)
        gathered = gathering.result(timeout=10)
    assert gathered.events == {"thread": [event]}
    assert gathered.names == {"desk": {"inbox": None}}
