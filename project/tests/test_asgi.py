"""Whose pages may open a socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from pytest_django.fixtures import Settings

from project.asgi import SameOriginOnly, application, is_own_origin

HOST = (b"host", b"desk.example:8000")


@pytest.fixture(autouse=True)
def desk_example(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["desk.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://front.example"]


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "websocket", "path": "/ws/", "headers": list(headers)}


@pytest.mark.parametrize(
    "origin", [b"http://desk.example:8000", b"https://DESK.example:8000", b"https://front.example"]
)
def test_our_own_page_is_let_in(origin: bytes) -> None:
    assert is_own_origin(scope(HOST, (b"origin", origin)))


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [HOST, (b"origin", b"null")],
        [HOST, (b"origin", b"")],
        [HOST, (b"origin", b"http://desk.example")],
        [HOST, (b"origin", b"http://desk.example:3000")],
        [HOST, (b"origin", b"http://evil.example:8000")],
        [HOST, (b"origin", b"http://desk.example:8000.evil.example")],
        [HOST, (b"origin", b"http://desk.example:8000@evil.example")],
        [HOST, (b"origin", b"chrome-extension://desk.example:8000")],
        [HOST, (b"origin", b"http://[broken")],
        [HOST, (b"origin", b"http://desk.example:8000"), (b"origin", b"http://evil.example")],
        [(b"origin", b"http://desk.example:8000")],
        [(b"host", b"evil.example"), (b"origin", b"http://evil.example")],
    ],
)
def test_a_foreign_an_absent_and_a_rebound_origin_are_refused(headers: Sequence[tuple[bytes, bytes]]) -> None:
    assert not is_own_origin(scope(*headers))


async def test_a_refused_socket_never_reaches_its_consumer() -> None:
    async def consumer(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the consumer was reached")

    page = WebsocketCommunicator(SameOriginOnly(consumer), "/ws/", headers=[HOST, (b"origin", b"http://evil.example")])
    connected, _ = await page.connect()
    assert not connected


async def test_the_desk_refuses_a_foreign_origin_at_its_door() -> None:
    page = WebsocketCommunicator(application, "/ws/", headers=[HOST, (b"origin", b"http://evil.example")])
    connected, _ = await page.connect()
    assert not connected
