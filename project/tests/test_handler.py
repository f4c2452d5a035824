"""Pages under ASGI: one thread from the first middleware to the last, whoever leaves meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from django.core import signals
from django.http import HttpRequest, HttpResponse
from pytest_django.fixtures import Settings

from project.handler import THREADS, PageHandler

HEADERS = [(b"host", b"desk.example")]


class Client:
    """One request, as a server hands it over. ``sent``: what came back."""

    def __init__(self, path: str, *, method: str = "GET", parts: tuple[bytes, ...] = (b"",)) -> None:
        self.scope = {
            "type": "http",
            "path": path,
            "raw_path": path.encode(),
            "method": method,
            "headers": HEADERS,
            "query_string": b"",
        }
        self.parts = list(parts)
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def ask(self, handler: PageHandler) -> tuple[int, bytes]:
        await handler(self.scope, self.receive, self.send)
        return self.sent[0]["status"], b"".join(message["body"] for message in self.sent[1:])


class Views:
    """The only view of these tests. ``gate``: what it waits for."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.threads: list[tuple[str, int]] = []
        self.done: SimpleQueue[str] = SimpleQueue()

    def note(self, what: str, **_: Any) -> None:
        self.threads.append((what, threading.get_ident()))

    def __call__(self, request: HttpRequest, what: str) -> HttpResponse:
        self.note("view")
        if what == "fails":
            raise RuntimeError("as asked")
        if what == "waits":
            self.entered.release()
            self.gate.wait(10)
        self.done.put(what)
        return HttpResponse(request.body or what.encode())


@pytest.fixture
def views(settings: Settings) -> Iterator[Views]:
    from types import ModuleType

    from django.urls import path

    made, urls = Views(), ModuleType("urls_of_a_test")
    urls.urlpatterns = [path("<str:what>/", made)]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF, settings.ALLOWED_HOSTS = urls, ["desk.example"]
    yield made
    made.gate.set()


@pytest.fixture
def handler(views: Views) -> PageHandler:
    return PageHandler()


async def test_a_page_keeps_to_one_thread(handler: PageHandler, views: Views) -> None:
    began, ended = (lambda **_: views.note("began")), (lambda **_: views.note("ended"))
    signals.request_started.connect(began, sender=PageHandler)
    signals.request_finished.connect(ended, sender=PageHandler)
    try:
        assert await Client("/page/").ask(handler) == (200, b"page")
    finally:
        signals.request_started.disconnect(began, sender=PageHandler)
        signals.request_finished.disconnect(ended, sender=PageHandler)
    assert [what for what, _ in views.threads] == ["began", "view", "ended"]
    assert len({thread for _, thread in views.threads} - {threading.get_ident()}) == 1


async def test_a_body_that_comes_in_parts_is_one(handler: PageHandler, settings: Settings) -> None:
    settings.MIDDLEWARE = []
    assert await Client("/page/", method="POST", parts=(b"a" * 70_000, b"b", b"")).ask(PageHandler()) == (
        200,
        b"a" * 70_000 + b"b",
    )


async def test_a_page_that_fails_is_an_answer(handler: PageHandler) -> None:
    status, _ = await Client("/fails/").ask(handler)
    assert status == 500


async def test_an_address_that_is_no_text_is_refused(handler: PageHandler, views: Views) -> None:
    client = Client("/page/")
    client.scope["query_string"] = b"a=\xff"
    status, _ = await client.ask(handler)
    assert (status, views.threads) == (400, [])


async def test_what_was_asked_for_is_done_though_its_reader_leaves(handler: PageHandler, views: Views) -> None:
    client = Client("/waits/")
    asked = asyncio.ensure_future(handler(client.scope, client.receive, client.send))
    assert await asyncio.to_thread(views.entered.acquire, timeout=10)
    client.left.set()
    await asyncio.wait_for(asked, 10)
    assert client.sent == []
    views.gate.set()
    assert await asyncio.to_thread(views.done.get, timeout=10) == "waits"


async def test_pages_that_wait_leave_room_for_others(handler: PageHandler, views: Views) -> None:
    waiting = [Client("/waits/") for _ in range(THREADS - 1)]
    asked = [asyncio.ensure_future(one.ask(handler)) for one in waiting]
    for _ in waiting:
        assert await asyncio.to_thread(views.entered.acquire, timeout=10)
    assert await asyncio.wait_for(Client("/page/").ask(handler), 10) == (200, b"page")
    views.gate.set()
    assert [status for status, _ in await asyncio.gather(*asked)] == [200] * len(waiting)


async def test_a_reader_who_leaves_while_sending_is_no_error(handler: PageHandler, views: Views) -> None:
    client = Client("/page/", method="POST", parts=())
    client.left.set()
    await handler(client.scope, client.receive, client.send)
    assert (client.sent, views.threads) == ([], [])


async def test_a_socket_is_no_page(handler: PageHandler) -> None:
    with pytest.raises(ValueError, match="websocket"):
        await handler({"type": "websocket"}, None, None)
