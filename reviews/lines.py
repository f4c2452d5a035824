"""What waits for the browser at the end of one socket: bounded, so that a page which does not read costs nobody else.

What gathers while the last message is being sent goes out together: names of hints each once, frames of a stream as
one. What does not fit is dropped, and the page is told the number it has missed; it asks over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from autobahn.exception import Disconnected

from reviews import live, stream

log = logging.getLogger(__name__)

MOST_WAITING = 500_000  # characters of frames that one page may leave unread, beside what the server's socket holds
MOST_NAMES = 2_000  # of hints; a page that is so far behind asks for all it shows


class Line:
    """Messages to one socket, sent one after the other by ``send`` (JSON text). ``begin`` starts, ``end`` stops."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._frames: deque[stream.Frame] = deque()
        self._size = 0  # characters in them
        self._at: dict[str, int] = {}  # thread -> number that its stream has reached, to be said behind the frames
        self._dropping: set[str] = set()  # threads whose frames are dropped until that is said
        self._names: dict[str, None] = {}
        self._news = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def frame(self, frame: stream.Frame) -> None:
        """Send events of a thread, if there is room."""
        if frame.thread in self._dropping or self._size + len(frame.text) > MOST_WAITING:
            self._dropping.add(frame.thread)
            self.at(frame.thread, frame.last)
            live.overflow()
            return
        self._frames.append(frame)
        self._size += len(frame.text)
        self._news.set()

    def names(self, names: Iterable[str]) -> None:
        """Say that these changed."""
        self._names |= dict.fromkeys(names)
        if len(self._names) > MOST_NAMES:
            self._names = dict.fromkeys([live.EVERYTHING])
        self._news.set()

    def at(self, thread: str, last: int) -> None:
        """Say that the stream of a thread has reached this number."""
        self._at[thread] = last
        self._news.set()

    def begin(self) -> None:
        self._sending = asyncio.create_task(self._on())

    def clear(self) -> None:
        """Forget what waits."""
        self._frames.clear()
        self._size = 0
        self._at.clear()
        self._dropping.clear()
        self._names.clear()

    async def end(self) -> None:
        self.clear()
        if self._sending is not None:
            self._sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sending

    async def _on(self) -> None:
        with contextlib.suppress(Disconnected):  # the page was left before its message came
            while True:
                await self._news.wait()
                self._news.clear()
                while (text := self._next()) is not None:
                    await self._say(text)

    async def _say(self, text: str) -> None:
        try:
            await self._send(text)
        except Disconnected:
            raise
        except Exception:
            log.exception("A message to a page failed.")

    def _next(self) -> str | None:
        if self._names:
            names, self._names = list(self._names), {}
            return json.dumps({"changed": names})
        if self._frames:
            return self._joined()
        if self._at:
            at, self._at = self._at, {}
            self._dropping.clear()
            return json.dumps({"at": at})
        return None

    def _joined(self) -> str:
        """Take the frames in front that make one."""
        first = self._frames.popleft()
        together = [first]
        size = len(first.text)
        while self._frames and self._frames[0].thread == first.thread:
            size += len(self._frames[0].text)
            if size > stream.FRAME_BYTES:
                break
            together.append(self._frames.popleft())
        self._size -= sum(len(frame.text) for frame in together)
        return first.text if len(together) == 1 else stream.joined(together)
