"""The channel layer of the embedded desk: in memory, and safe to call from the threads that run agents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from channels.exceptions import ChannelFull
from channels.layers import InMemoryChannelLayer

from reviews import live

LOOK_SECONDS = 0.1  # after that a send that has no answer looks whether the loop still runs


class ThreadSafeInMemoryLayer(InMemoryChannelLayer):
    """Channels' own in-memory layer, with each send carried out on the loop that receives.

    Its queues belong to one loop: a put from another thread does not wake the reader (965 ms from click to page).
    The home loop is the one that received last; before anybody receives there is nobody to tell, and sends are local.
    """

    _home: asyncio.AbstractEventLoop | None = None

    async def receive(self, channel: str) -> Any:
        self._home = asyncio.get_running_loop()
        return await super().receive(channel)

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        try:
            await self._at_home(lambda: InMemoryChannelLayer.send(self, channel, message))
        except ChannelFull:
            live.overflow()
            raise

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        await self._at_home(lambda: InMemoryChannelLayer.group_send(self, group, message))

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        home = self._home
        if home is None or home is asyncio.get_running_loop() or not home.is_running():
            return await work()
        done: Future[asyncio.Task[None]] = Future()
        with contextlib.suppress(RuntimeError):  # it was closed this moment
            home.call_soon_threadsafe(lambda: home.create_task(work()).add_done_callback(done.set_result))
        answer = asyncio.wrap_future(done)
        while not (await asyncio.wait({answer}, timeout=LOOK_SECONDS))[0]:
            if not home.is_running():
                return  # the server ends, and nobody is there to be told
        if not answer.result().cancelled():  # as it ends, it cancels what is under way
            answer.result().result()

    def _clean_expired(self) -> None:
        """Let nothing expire: the one channel that is read (``reviews.hub``) stays in its groups as long as it is."""
