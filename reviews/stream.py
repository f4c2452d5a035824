"""A thread's stream on its way to browsers: the same JSON by socket and by HTTP, in frames of bounded size.

A browser keeps the number of the last event it has seen. An event of a number it has seen changes nothing; a gap in the
numbers, or a number named by ``at`` that it has not reached, makes it ask for what is missing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from agents import streams
from agents.models import Run, Thread
from agents.outcome import StreamEvent
from agents.streams.standing import standing

FRAME_BYTES = 60_000  # below what sockets and proxies cut (64 KiB)
_SAFE = re.compile(r"[A-Za-z0-9_\-]{1,80}")


def group_of(thread_id: str) -> str:
    """Return the group of those who watch a thread."""
    return f"thread.{thread_id}" if _SAFE.fullmatch(thread_id) else f"thread-{_hashed(thread_id)}"


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def encode(event: StreamEvent) -> str:
    """Return one event as strict JSON in ASCII."""
    told = {"seq": event.seq, "run": event.run_id, "kind": event.kind, "data": dict(event.data)}
    return json.dumps(told, allow_nan=False, separators=(",", ":"))


class Frame(NamedTuple):
    """Events of a thread, as they go over a socket. ``last``: the number of its last event."""

    thread: str
    last: int
    text: str


def frames(thread_id: str, events: Iterable[StreamEvent]) -> Iterator[Frame]:
    """Pack events of a thread, in their order, into frames."""
    packed: list[str] = []
    size = last = 0
    for event in events:
        text = encode(event)
        if packed and size + len(text) > FRAME_BYTES:
            yield _frame(thread_id, last, packed)
            packed, size = [], 0
        packed.append(text)
        size += len(text) + 1
        last = event.seq
    if packed:
        yield _frame(thread_id, last, packed)


def _frame(thread_id: str, last: int, packed: Sequence[str]) -> Frame:
    return Frame(thread_id, last, f"{_head(thread_id)}{','.join(packed)}{_TAIL}")


def joined(several: Sequence[Frame]) -> str:
    """Return the text of one frame that has the events of several, of one thread and in their order."""
    head = _head(several[0].thread)
    return f"{head}{','.join(frame.text[len(head) : -len(_TAIL)] for frame in several)}{_TAIL}"


_TAIL = "]}"


def _head(thread_id: str) -> str:
    return f'{{"thread":{json.dumps(thread_id)},"events":['


def page_after(thread: Thread, after: int) -> str:
    """Return what was told after a number, as JSON: events, ``last``, ``more``, ``gap``, ``running``.

    ``gap``: it cannot be filled any more; load the snapshot anew. ``more``: ask again from ``last``.
    """
    page = streams.since(thread.pk, after)
    events = ",".join(encode(event) for event in page.events)
    facts = {"thread": thread.pk, "last": page.last, "more": page.more, "gap": page.gap, **_state(thread)}
    return f'{json.dumps(facts)[:-1]},"events":[{events}]}}'


def snapshot(thread: Thread) -> str:
    """Return what a newcomer needs, as JSON: ``messages`` as they stood at number ``last``. What follows is asked for.

    The messages hold all that was told up to ``last``, and nothing of what was told after it.
    """
    seq, messages = standing(thread.pk)
    shown = [_plain(asdict(message)) for message in messages]
    newest = streams.last_seq(thread.pk)
    facts = {"thread": thread.pk, "last": seq, "more": seq < newest, "gap": False, "snapshot": True, **_state(thread)}
    return json.dumps({**facts, "messages": shown, "events": []}, allow_nan=False)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message for the page: of its calls, never the arguments. Questions are shown from the question alone."""
    calls = [{name: value for name, value in call.items() if name != "args"} for call in message["calls"]]
    plain: dict[str, Any] = streams.cleaned({**message, "calls": calls})
    return plain


def _state(thread: Thread) -> dict[str, Any]:
    running = Run.objects.filter(thread=thread, status=Run.Status.RUNNING).values_list("pk", "stop").first()
    return {
        "status": thread.status,
        "running": str(running[0]) if running else None,
        "stopping": running[1] if running else "",
        "redacts": thread.agent.redacts,
    }
