"""What comes from the channel layer, for all sockets of a web process: heard once, passed on to those that listen.

With a subscription for each socket the layer copied and queued each message once a socket, and Channels hopped to a
thread for each copy: one word to 500 pages took 2 seconds. Here the process has one channel, in a group as long as
somebody in the process listens to that group, and a message goes straight to those who do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0  # after a failure of the layer those who wait behind it fail at once, and do not try one by one


class LayerAway(Exception):
    """The channel layer did not answer a moment ago."""


class Listener(Protocol):
    """Who may join a group."""

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of a group. Must not wait: the others of the group are told after it."""


class Hub:
    """The one channel of a process. All methods are called on the loop that made it."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.rooms: dict[str, set[Listener]] = {}  # group -> who listens; each group has somebody
        self._lock = asyncio.Lock()  # one at a time joins or leaves a group of the layer
        self._channel = ""
        self._reading: asyncio.Task[None] | None = None
        self._failed_at = -AGAIN_SECONDS

    async def join(self, group: str, listener: Listener) -> None:
        """Have ``listener`` hear what is sent to ``group`` from now on. Raises what the layer raises, or LayerAway."""
        if group not in self.rooms:
            async with self._lock:
                if group not in self.rooms:
                    await self._enter(group)
                    self.rooms[group] = {listener}
        self.rooms[group].add(listener)

    async def leave(self, group: str, listener: Listener) -> None:
        """Have ``listener`` hear no more of ``group``, from this call on. With the last one the process leaves it."""
        room = self.rooms.get(group, set())
        room.discard(listener)
        if room or self.rooms.pop(group, None) is None:
            return
        async with self._lock:
            if group not in self.rooms:  # nobody came meanwhile
                await self.layer.group_discard(group, self._channel)

    async def _enter(self, group: str) -> None:
        if time.monotonic() - self._failed_at < AGAIN_SECONDS:
            raise LayerAway
        try:
            self._channel = self._channel or await self.layer.new_channel()
            await self.layer.group_add(group, self._channel)
        except Exception:
            self._failed_at = time.monotonic()
            raise
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                message = await self.layer.receive(self._channel)
            except Exception:
                log.exception("The channel layer failed; it is asked again.")
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._pass_on(message)

    def _pass_on(self, message: dict[str, Any]) -> None:
        for listener in tuple(self.rooms.get(message["group"], ())):
            try:
                listener.hear(message)
            except Exception:
                log.exception("A page did not take a message of %s.", message["group"])


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running loop; a web process has one loop."""
    loop, layer = asyncio.get_running_loop(), get_channel_layer()
    found = _hubs.get(loop)
    if found is None or found.layer is not layer:
        found = _hubs[loop] = Hub(layer)
    return found
