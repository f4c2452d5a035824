"""The embedded desk's broker: its reader is woken, by a message and by room for one."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import kombu as _kombu
import pytest

from project import celery

kombu: Any = _kombu  # it has no types
EMBEDDED = "embedded://localhost/"  # whatever broker this test lane has
LONG = 20.0  # seconds; nobody waits so long unless nothing wakes the reader


@pytest.fixture
def line() -> Iterator[tuple[Any, Any, Any]]:
    """A reader's connection, a queue of its own, and a writer's connection."""
    assert celery.app  # it makes the transport known
    name = f"test-{uuid.uuid4().hex}"
    with kombu.Connection(EMBEDDED) as reader, kombu.Connection(EMBEDDED) as writer:
        yield reader, kombu.Queue(name, routing_key=name), writer


def drained(reader: Any) -> threading.Thread:
    """Wait for one message in a thread, as the worker does, and return once it waits."""
    thread = threading.Thread(target=lambda: reader.drain_events(timeout=LONG))
    thread.start()
    return thread


def test_a_message_wakes_its_reader(line: Any) -> None:
    reader, queue, writer = line
    heard: SimpleQueue[Any] = SimpleQueue()
    with kombu.Consumer(reader, [queue], callbacks=[lambda body, message: heard.put((body, message.ack()))]):
        waiting = drained(reader)
        began = time.monotonic()
        writer.SimpleQueue(queue).put("thread-1")
        assert heard.get(timeout=LONG / 2) == ("thread-1", None)
        waiting.join(LONG / 2)
    assert time.monotonic() - began < LONG / 2


def test_who_has_taken_all_it_may_goes_on_when_one_is_done(line: Any) -> None:
    reader, queue, writer = line
    heard: SimpleQueue[Any] = SimpleQueue()
    with kombu.Consumer(reader, [queue], callbacks=[lambda body, message: heard.put(message)], prefetch_count=1):
        for number in range(2):
            writer.SimpleQueue(queue).put(number)
        reader.drain_events(timeout=LONG)
        waiting = drained(reader)
        heard.get(timeout=1).ack()
        assert heard.get(timeout=LONG / 2).payload == 1
        waiting.join(LONG / 2)


def test_without_a_message_the_reader_comes_back_in_time(line: Any) -> None:
    reader, queue, _ = line
    with kombu.Consumer(reader, [queue], callbacks=[lambda *_: None]), pytest.raises(TimeoutError):
        reader.drain_events(timeout=0.05)
