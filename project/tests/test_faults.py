"""What stops under a desk that runs as processes: its broker, its database, the line of a page (CHECKS A 4, 15, 17)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.exceptions import RedisError
from websockets.sync.client import ClientConnection

from project.services import Server, postgres, redis
from reviews.hub import Hub
from reviews.tests.browser import desks
from reviews.tests.browser.caller import Caller, frames
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.more_agents import GO
from reviews.tests.test_hub import Ear
from reviews.tests.watching import Page

pytestmark = [pytest.mark.production, pytest.mark.crash]

REFUND = "Refund order 10482. The customer wrote: Shade broken."
Arrive = Callable[[Desk, str], Caller]
TOLD = 10_000  # events of one stream
MORE = "reviews.tests.browser.more_desk"


@contextmanager
def of_our_own(build: Callable[[Path], Server]) -> Iterator[Server]:
    """A server that only this test uses, and may stop."""
    folder = Path(tempfile.mkdtemp(prefix="countersign-faults-"))
    server = build(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def staffed(data: Path, module: str = "project", **own: str) -> Iterator[Desk]:
    with desks.production(data, module, concurrency=2, **own) as desk:
        desk.run("reviews.tests.browser.staff")
        yield desk


@pytest.fixture
def arrive() -> Iterator[Arrive]:
    with ExitStack() as here:
        yield lambda desk, name: here.enter_context(closing(Caller(desk.url, name)))


def refunds(desk: Desk, thread_id: str) -> int:
    return len(desk.effects(thread_id, "refund"))


# ---------------------------------------------------------------------------------------------------------- the broker


def test_a_click_with_the_broker_away_is_recorded_at_once_and_carried_out_by_a_poll(
    tmp_path: Path, arrive: Arrive
) -> None:
    """A 4. A broker that hangs is worse than one that is gone: it takes the message's bytes and never answers."""
    with of_our_own(redis) as broker, staffed(tmp_path / "data", REDIS_URL=broker.url) as desk:
        ann = arrive(desk, "ann")
        asked = [ann.start("support", REFUND) for _ in range(5)]
        pages = {path: ann.page(path) for path in (ann.question(thread_id) for thread_id in asked)}
        clicks = iter(zip(asked, pages.items(), strict=True))
        broker.stop()
        assert min(_click(desk, ann, *next(clicks)) for _ in range(2)) < 1
        broker.start()
        _click(desk, ann, *next(clicks), banner=False)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            assert min(_click(desk, ann, *next(clicks)) for _ in range(2)) < 1
        finally:
            os.kill(broker.pid, signal.SIGCONT)


def _click(desk: Desk, ann: Caller, thread_id: str, opened: tuple[str, Any], *, banner: bool = True) -> float:
    """Approve on a page that was opened before, and see it carried out. Returns the seconds it took."""
    before = time.monotonic()
    answer = ann.send(*opened)
    took = time.monotonic() - before
    assert answer.status_code == 303
    ann.comes_to(thread_id, "idle")
    assert refunds(desk, thread_id) == 1
    assert ("Workers are not woken." in ann.page("/").text) == banner
    return took


# --------------------------------------------------------------------------------------------------------- the database


def test_a_desk_without_its_database_says_so_and_goes_on_when_it_is_back(tmp_path: Path, arrive: Arrive) -> None:
    """A 15."""
    with of_our_own(postgres) as database, _on(database, tmp_path / "data") as desk:
        ann = arrive(desk, "ann")
        thread_id = ann.start("support", REFUND)
        path = ann.question(thread_id)
        page = ann.page(path)
        database.stop(signal.SIGQUIT)
        for answer in (ann.get("/"), ann.send(path, page), ann.get("/readyz")):
            assert answer.status_code == 503
            assert "Traceback" not in answer.text
        assert "The database does not answer" in ann.get("/").text
        assert ann.get("/healthz").status_code == 200
        _wait_for(lambda: desk.log.count("the poller tries again in") >= 3)
        pauses = _pauses(desk.log)
        assert max(pauses) > min(pauses), pauses
        assert all(process.poll() is None for process in desk.processes.values())
        database.start()
        assert _answers(ann, path) == 200
        assert ann.send(path, page).status_code == 303
        ann.comes_to(thread_id, "idle", within=60)
        assert refunds(desk, thread_id) == 1


def _on(database: Server, data: Path) -> AbstractContextManager[Desk]:
    return staffed(data, DATABASE_URL=database.url, DATABASE_POOL_SECONDS="1")


def _wait_for(reached: Callable[[], bool], *, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # a log tells nobody that it grew


def _pauses(log: str) -> list[float]:
    """Return the seconds that pollers say they wait."""
    found = [line.partition("tries again in ")[2] for line in log.splitlines() if "tries again in" in line]
    return [float(words.split(" s")[0]) for words in found]


def _answers(ann: Caller, path: str) -> int:
    deadline = time.monotonic() + 30
    while (status := ann.get(path).status_code) == 503 and time.monotonic() < deadline:
        time.sleep(0.1)
    return status


async def test_a_web_process_hears_again_when_its_redis_was_restarted() -> None:
    """Its subscriptions are one for each group, and go with the server that held them."""
    with of_our_own(redis) as broker:
        settings = {"address": broker.url, "socket_timeout": None, "socket_connect_timeout": 1}
        layer = RedisPubSubChannelLayer(hosts=[settings], prefix="again")
        hub, ear = Hub(layer), Ear()
        await hub.join("thread", ear)
        await _heard(layer, ear, "before")
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
        await _heard(layer, ear, "after")
        await layer.flush()


async def _heard(layer: RedisPubSubChannelLayer, ear: Ear, said: str) -> None:
    async with asyncio.timeout(30):
        while said not in ear.heard:
            with contextlib.suppress(OSError, RedisError):
                await layer.group_send("thread", {"group": "thread", "said": said})
            await asyncio.sleep(0.1)  # nobody tells when the line stands again


# ---------------------------------------------------------------------------------------------------------- the streams


class Reader(threading.Thread):
    """Reads a thread's stream as a page does, until its end. ``cut`` at that many events: away for ``away`` seconds."""

    def __init__(self, ann: Caller, thread_id: str, *, cut: int = 0, away: float = 0) -> None:
        super().__init__(daemon=True)
        self.ann, self.thread_id, self.cut, self.away = ann, thread_id, cut, away
        self.page = Page(ann.get, thread_id)
        self.pushed = self.lines = 0
        self.heard = False
        self.start()

    def run(self) -> None:
        while not self.page.screen.ended:
            self.lines += 1
            with self.ann.watch(self.thread_id) as line:
                self._read(line)

    def _read(self, line: ClientConnection) -> None:
        if self.lines > 1:
            time.sleep(self.away)
            self.page.ask()
        for frame in frames(line):
            told = frame.get("events", ())
            self.pushed += len(told)
            if self.lines > 1 or not self.cut:
                self.page.push(frame)
            elif any(event["seq"] >= self.cut for event in told):
                return  # with what was on its way
            elif told and told[0]["seq"] == self.page.screen.seq + 1:
                self.page.push(frame)  # it asks for nothing: it would read all of the flood before it is cut off
            self.heard = True
            if self.page.screen.ended:
                return


def test_a_flood_that_the_layer_does_not_hold_and_lines_that_are_cut_leave_no_gap(
    tmp_path: Path, arrive: Arrive
) -> None:
    """A 17: the layer drops a web process that does not read, one page is cut off; each plays all, once, in order."""
    with of_our_own(redis) as layer, staffed(tmp_path / "data", MORE, REDIS_URL=layer.url) as desk:
        _redis(layer, "CONFIG SET client-output-buffer-limit 'pubsub 65536 0 0'")
        _redis(layer, "CONFIG SET client-query-buffer-limit 1048576")
        ann, ben = arrive(desk, "ann"), arrive(desk, "ben")
        thread_id = ann.start("torrent", str(TOLD))
        whole, cut = Reader(ann, thread_id), Reader(ben, thread_id, cut=500, away=1.0)
        _wait_for(lambda: whole.heard and cut.heard)
        (desk.data / GO).touch()
        _wait_for(lambda: whole.page.screen.seq > 1_500)
        web = desk.processes["web"]
        _pause(web, 2.0)
        for reader in (whole, cut):
            reader.join(90)
            assert not reader.is_alive()
            numbers = reader.page.numbers
            assert numbers == list(range(1, len(numbers) + 1))
            told = [event.data["data"]["number"] for event in reader.page.events if event.kind == "custom"]
            assert told == list(range(TOLD))
        assert whole.page.events == cut.page.events
        assert (whole.page.reloads, cut.page.reloads) == (0, 0)
        assert whole.pushed < len(whole.page.events), "the layer held everything"
        assert cut.lines == 2


def test_a_page_that_sleeps_through_a_flood_reads_all_of_it_when_it_wakes(tmp_path: Path, arrive: Arrive) -> None:
    """The web process keeps a bounded part for it, drops the rest, and names the number it has missed."""
    with staffed(tmp_path / "data", MORE) as desk:
        ann, ben = arrive(desk, "ann"), arrive(desk, "ben")
        thread_id = ann.start("torrent", str(TOLD))
        awake, asleep = Reader(ann, thread_id), Page(ben.get, thread_id)
        with ben.watch(thread_id, small=True) as line:
            told = frames(line)
            asleep.push(next(told))
            _wait_for(lambda: awake.heard)
            (desk.data / GO).touch()
            awake.join(90)
            assert not awake.is_alive()
            before, pushed = asleep.asked, 0
            while not asleep.screen.ended:
                frame = next(told)
                pushed += len(frame.get("events", ()))
                asleep.push(frame)
        assert asleep.events == awake.page.events
        assert asleep.numbers == list(range(1, len(asleep.numbers) + 1))
        assert 0 < pushed < TOLD * 0.9
        assert asleep.asked == before + 1
        assert "A page does not read its socket" in desk.log


def _pause(process: subprocess.Popen[str], seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)  # it does not read meanwhile
    process.send_signal(signal.SIGCONT)


def _redis(server: Server, command: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as line:
        line.sendall(f"{command}\r\n".encode())
        assert line.recv(64).startswith(b"+OK")
