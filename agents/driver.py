"""Drives a graph for the runner, on a loop or in a thread: streamed into a recorder, stopped when people say so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

from django.conf import settings
from django.db import Error as DatabaseError
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.stream import StreamTransformer

from agents import ledger
from agents.outcome import type_names
from agents.registry import Registered
from agents.store import Fenced
from agents.streams import Recorder
from agents.streams.events import Told
from agents.streams.reading import MODES, Reader

log = logging.getLogger(__name__)

# Each run would say so once more: the agents that need v3 are those with transformers, and there is no other way.
warnings.filterwarnings("ignore", message="The v3 streaming protocol")


class StoppedNow(BaseException):
    """A person ended the run. Not an Exception: no middleware may take it for an error of a tool."""


class Driver:
    """What one run does with its graph. ``stop`` and ``lose`` may be called in any thread, at any time."""

    def __init__(self, agent: Registered, *, recorder: Recorder, reader: Reader, run_id: str) -> None:
        self.agent = agent
        self.recorder = recorder
        self.reader = reader
        self.run_id = run_id
        self.control = RunControl()
        self.error = ""
        self.lost = False
        self.cancelled = False  # ended in the middle of a step
        self.types: dict[str, dict[str, str]] = {}  # interrupt id -> names of the classes that its value held
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._tools: set[asyncio.Task[Any]] = set()

    # ------------------------------------------------------------------------------------------------------------- stop

    def drain(self, reason: str) -> None:
        """Stop before the next step."""
        self.control.request_drain(reason)

    def stop(self) -> None:
        """Stop now, in the middle of a step. What runs in a thread (a sync tool) still runs to its end."""
        self._stopping = True
        self.control.request_drain("cancel")
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._cancel)

    def lose(self) -> None:
        """Another worker has the thread: store nothing more, and leave."""
        self.lost = True
        self.control.request_drain("lease lost")

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        ledger.cancel_async(self._tools)

    # -------------------------------------------------------------------------------------------------------------- run

    def run(self, value: Any, config: dict[str, Any], *, context: Any) -> None:
        """Run the graph until it rests, asks, fails (``error``), or is stopped."""
        options = {"context": context, "durability": "sync", "control": self.control}
        if self.agent.mode == "sync":
            self.guarded(lambda: self._in_thread(value, config, options))
        else:
            self.guarded(lambda: asyncio.run(self._on_loop(value, config, options)))

    def guarded(self, work: Callable[[], None]) -> None:
        """Do something with the graph. What it raises is the run's error; what the desk's database raises is not."""
        try:
            work()
        except GraphDrained:
            log.info("drained", extra={"run": self.run_id})
        except (StoppedNow, asyncio.CancelledError):
            if not self._stopping:
                raise
            self.cancelled = True
        except ledger.Ended:
            self.cancelled = True
        except Fenced as late:
            self.lost = True
            log.warning("late worker", extra={"run": self.run_id, "reason": str(late)})
        except DatabaseError:
            raise
        except TimeoutError:
            self.error = f"The run took longer than {settings.RUN_MAX_SECONDS:g} s and was ended."
        except GraphRecursionError as error:
            self.error = f"The agent went round too often and was stopped: {error}"
        except Exception as error:
            # Without its words: they may quote what people wrote.
            log.warning("the graph raised", extra={"run": self.run_id, "error": type(error).__name__})
            self.error = _words(error)

    def _in_thread(self, value: Any, config: Any, options: dict[str, Any]) -> None:
        ledger.ended.set(lambda: self._stopping)
        for told in self._parts(value, config, options):
            self.recorder.tell(told)
            if self._stopping:
                raise StoppedNow

    def _parts(self, value: Any, config: Any, options: dict[str, Any]) -> Iterator[Iterator[Told]]:
        graph = self.agent.graph
        if self.agent.streams == "v3":
            with graph.stream_events(value, config, version="v3", transformers=[self._tap()], **options) as events:
                for event in events:
                    yield self.reader.read_event(event)
            return
        v2 = {"stream_mode": list(MODES), "subgraphs": True, "version": "v2"}
        parts = graph.stream(value, config, **options, **v2)
        with contextlib.closing(parts):
            for part in parts:
                self._note_types(part)
                yield self.reader.read(part)

    def _note_types(self, part: Any) -> None:
        """Keep what objects an interrupt held: read back from the checkpoint they are plain data."""
        for one in part.get("interrupts") or ():
            self.types[one.id] = type_names(one.value)

    async def _on_loop(self, value: Any, config: Any, options: dict[str, Any]) -> None:
        self._tools = set()
        ledger.in_flight.set(self._tools)
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if self._stopping:
                raise StoppedNow
            async with asyncio.timeout(settings.RUN_MAX_SECONDS):
                async for told in self._aparts(value, config, options):
                    self.recorder.tell(told)
        finally:
            self._task = None  # what follows must not be cancelled
            while self._tools:  # a tool that has begun ends before the loop does, and before the thread is released
                await asyncio.gather(*self._tools, return_exceptions=True)

    async def _aparts(self, value: Any, config: Any, options: dict[str, Any]) -> AsyncIterator[Iterator[Told]]:
        graph = self.agent.graph
        if self.agent.streams == "v3":
            events = await graph.astream_events(value, config, version="v3", transformers=[self._tap()], **options)
            try:
                async for event in events:
                    yield self.reader.read_event(event)
            finally:
                await events.abort()
            return
        v2 = {"stream_mode": list(MODES), "subgraphs": True, "version": "v2"}
        async for part in graph.astream(value, config, **options, **v2):
            self._note_types(part)
            yield self.reader.read(part)

    def _tap(self) -> Callable[[tuple[str, ...]], StreamTransformer]:
        """Return the transformer that asks for every mode, and hears of tasks, which LangGraph keeps from the log."""
        driver = self

        class Tap(StreamTransformer):
            required_stream_modes: ClassVar[tuple[str, ...]] = MODES

            def init(self) -> dict[str, Any]:
                return {}

            def process(self, event: Any) -> bool:
                if event["method"] == "tasks" and not self.scope:
                    driver.recorder.tell(driver.reader.read_event(event))
                return True

        return Tap


def _words(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".replace("\x00", "\u2400")
    if "msgpack" in text or "exceeds 64-bit" in text:
        return (
            "A value of this step cannot be stored in a checkpoint, so the step was not taken. Numbers may have at most"
            f" 64 bits (up to 18446744073709551615) and nesting is limited. {text}"
        )
    return text
