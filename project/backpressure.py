"""Makes daphne's ``send`` wait for a browser that does not read, as other servers' does.

Daphne hands everything to Twisted at once, which keeps what the network does not take, without a bound: a page that
slept through a flood cost as much memory as was told meanwhile. Twisted tells a registered producer when more than
64 KiB wait, and when they are gone; the application's next step waits between.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any


class Patient:
    """Passes on a socket with a ``send`` that returns once the browser has taken most of what was sent before."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        valve = _valve_of(send)
        if valve is None:
            return await self.inner(scope, receive, send)

        async def sending(message: dict[str, Any]) -> None:
            await send(message)
            if message["type"] == "websocket.send":
                await valve.wait()

        return await self.inner(scope, receive, sending)


def _valve_of(send: Any) -> asyncio.Event | None:
    """Return what is set while the socket behind daphne's ``send`` takes more; None with another server."""
    protocol: Any = send.args[0] if isinstance(send, partial) and send.args else None
    if not hasattr(protocol, "registerProducer"):
        return None
    producer = _Producer()
    protocol.unregisterProducer()  # of the HTTP request that became this socket
    protocol.registerProducer(producer, True)
    return producer.open


class _Producer:
    """Twisted's IPushProducer; it is called on the application's loop."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()

    def pauseProducing(self) -> None:
        self.open.clear()

    def resumeProducing(self) -> None:
        self.open.set()

    def stopProducing(self) -> None:
        """The line is gone; nobody need wait for it."""
        self.open.set()
