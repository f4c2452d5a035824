"""Sockets as browsers open them: with the cookie of a person who is signed in, from a page of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import transaction
from django.test import Client

from project.asgi import application
from reviews import live
from reviews.tests.cast import Cast

T = TypeVar("T")
PEOPLE = ("ann", "otto", "root", "aude", "olga")


class Socket(WebsocketCommunicator):
    """Waits longer than Channels does: the machine may be busy."""

    async def connect(self, timeout: float = 60) -> tuple[bool, int | str | None]:
        answer: tuple[bool, int | str | None] = await super().connect(timeout)
        return answer

    async def receive_json_from(self, timeout: float = 60) -> Any:
        return await super().receive_json_from(timeout)


def doorman(cast: Cast) -> Callable[..., Socket]:
    """Return what opens a socket for a person of the cast, or for nobody."""
    cookies = {}
    for name in PEOPLE:
        client = Client()
        client.force_login(getattr(cast, name))
        cookies[name] = client.cookies["sessionid"].value

    def socket(name: str | None, path: str = "/ws/", *, origin: str | None = "http://localhost") -> Socket:
        headers = [(b"host", b"localhost")]
        headers += [(b"origin", origin.encode())] if origin else []
        headers += [(b"cookie", f"sessionid={cookies[name]}".encode())] if name else []
        return Socket(application, path, headers=headers)

    return socket


async def stored(work: Callable[[], T]) -> T:
    """Do database work off the loop, in a transaction of its own, and wait until its hints have left."""

    def done() -> T:
        with transaction.atomic():
            return work()

    result: T = await database_sync_to_async(done, thread_sensitive=False)()
    assert await asyncio.to_thread(live.flush)
    return result


@asynccontextmanager
async def connected(socket: Socket) -> AsyncIterator[Socket]:
    assert await asyncio.to_thread(live.flush)  # what the test did before is no news
    is_open, _ = await socket.connect()
    assert is_open
    hello = await socket.receive_json_from()
    assert set(hello) == {"hello"}
    try:
        yield socket
    finally:
        await socket.disconnect()


async def closes_with(socket: WebsocketCommunicator) -> int:
    message = await socket.receive_output(timeout=60)
    assert message["type"] == "websocket.close"
    return int(message["code"])
