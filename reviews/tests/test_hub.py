"""The hub: one subscription of a process for all who listen, left with the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from project.channel_layer import ThreadSafeInMemoryLayer
from reviews import hub as hubs
from reviews.hub import Hub, LayerAway


class Ear:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def hear(self, message: dict[str, Any]) -> None:
        self.heard.append(message["said"])


class Deaf(Ear):
    def hear(self, message: dict[str, Any]) -> None:
        raise ValueError("not today")


class Layer(ThreadSafeInMemoryLayer):
    """Counts what is asked of it, and fails as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.failures = 0

    async def group_add(self, group: str, channel: str) -> None:
        self.asked.append(f"join {group}")
        await asyncio.sleep(0)  # as with a layer that is elsewhere, others come in between
        self._fail()
        await super().group_add(group, channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self.asked.append(f"leave {group}")
        await asyncio.sleep(0)
        await super().group_discard(group, channel)

    async def receive(self, channel: str) -> Any:
        self._fail()
        return await super().receive(channel)

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no Redis")


async def until(reached: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if reached():
            return
        await asyncio.sleep(0)
    pytest.fail("it was not reached")


async def tell(layer: Layer, group: str, said: Any) -> None:
    await layer.group_send(group, {"group": group, "said": said})


async def test_many_listeners_are_one_subscription_and_each_hears_its_groups() -> None:
    layer = Layer()
    hub, both, one, other = Hub(layer), Ear(), Ear(), Ear()
    joins: list[Awaitable[None]] = [hub.join("a", both), hub.join("a", one), hub.join("b", both), hub.join("b", other)]
    await asyncio.gather(*joins)
    assert sorted(layer.asked) == ["join a", "join b"]
    await tell(layer, "a", 1)
    await tell(layer, "b", 2)
    await until(lambda: both.heard == [1, 2])
    assert (one.heard, other.heard) == ([1], [2])


async def test_the_last_listener_takes_the_process_out_of_the_group() -> None:
    layer = Layer()
    hub, one, other = Hub(layer), Ear(), Ear()
    for ear in (one, other):
        await hub.join("a", ear)
    await hub.leave("a", one)
    assert "a" in layer.groups
    await tell(layer, "a", 1)
    await until(lambda: other.heard == [1])
    assert one.heard == []
    await hub.leave("a", other)
    await hub.leave("a", other)  # a second time changes nothing
    assert "a" not in layer.groups
    assert layer.asked == ["join a", "leave a"]


async def test_who_comes_while_the_last_one_leaves_hears() -> None:
    layer = Layer()
    hub, old, new = Hub(layer), Ear(), Ear()
    await hub.join("a", old)
    await asyncio.gather(hub.leave("a", old), hub.join("a", new))
    await tell(layer, "a", 1)
    await until(lambda: new.heard == [1])
    assert old.heard == []


async def test_a_listener_that_fails_is_logged_and_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    layer = Layer()
    hub, ears = Hub(layer), [Deaf(), Ear(), Deaf(), Ear()]
    for ear in ears:
        await hub.join("a", ear)
    await tell(layer, "a", 1)
    await until(lambda: ears[1].heard == [1] and ears[3].heard == [1])
    assert caplog.text.count("did not take a message of a") == 2


async def test_while_the_layer_is_away_one_asks_for_all_and_afterwards_again(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer()
    layer.failures = 1
    hub, ears = Hub(layer), [Ear() for _ in range(5)]
    answers = await asyncio.gather(*(hub.join("a", ear) for ear in ears), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OSError, *[LayerAway] * 4]
    assert layer.asked == ["join a"]
    monkeypatch.setattr(hubs, "AGAIN_SECONDS", 0)
    await hub.join("a", ears[0])
    await tell(layer, "a", 1)
    await until(lambda: ears[0].heard == [1])


async def test_a_layer_that_fails_to_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hubs, "AGAIN_SECONDS", 0)
    layer = Layer()
    hub, ear = Hub(layer), Ear()
    await hub.join("a", ear)
    layer.failures = 2
    await tell(layer, "a", 1)
    await until(lambda: ear.heard == [1])
    assert caplog.text.count("asked again") == 2
