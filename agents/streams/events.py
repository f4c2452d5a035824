"""What a stream tells, as plain JSON that every reader of JSON takes, in pieces that fit into one frame.

| kind | data (beside ``lane``: the namespace, "" for the graph itself) |
|---|---|
| status | ``status``: running, stopping, pending, cancelled; ``run_kind``, ``attempt``, ``checkpoint``, ``waits_for`` |
| node | ``node``, ``task``, ``state``: started, finished, failed, paused |
| delta | ``id`` of the message, ``node``, ``block`` (number), ``type``: text or reasoning, ``text`` to append |
| call | a tool call being made: ``id`` of the message, ``call``, ``name``. Never its arguments |
| message | a message as it stands now: ``id``, ``role``, ``name``, ``index``, ``text``, ``calls``, ``replaces`` |
| tool | ``call``, ``message``, ``name``, ``state``: started, output, finished, failed; ``text`` |
| custom | ``channel`` ("" for LangGraph's own), ``data`` |
| checkpoint | ``checkpoint``: its id. What came before it in its run stands in it |
| interrupt | ``interrupt``: its id, ``node`` |
| error | ``error`` in words |
| end | ``status`` of the run, ``checkpoint`` |

``message`` may instead say ``gone`` (it is not, or no longer, part of the state), ``same`` (its deltas stand as they
are), or ``withheld`` (the agent's transformers did not let its text through). A delta after its message goes on with
its text. ``replaces`` names the message under whose id it was streamed, if that was another one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.outcome import as_plain

STATUS, NODE, DELTA, CALL, MESSAGE = "status", "node", "delta", "call", "message"
TOOL, CUSTOM, CHECKPOINT, INTERRUPT, ERROR, END = "tool", "custom", "checkpoint", "interrupt", "error", "end"
CLOSING = (INTERRUPT, ERROR, END)  # written when the run is closed
BASES = (STATUS, CHECKPOINT, END)  # name a checkpoint that holds all that was told before

PIECE = 4_000  # characters of text in one event: at most 48 kB of JSON, each sign being 12 bytes at worst
MOST_BYTES = 24_000  # of a custom event's data as JSON
MOST_ITEMS = 200
MOST_DEPTH = 12
SAFE_INTEGER = 2**53 - 1  # what JavaScript reads to the digit

_HALF_SIGNS = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Told:
    """One event before it has its number."""

    kind: str
    data: dict[str, Any]

    @property
    def is_urgent(self) -> bool:
        """Say whether people wait for it: it is written before its turn, where deltas wait for more of their kind."""
        return self.kind not in (DELTA, CHECKPOINT, CUSTOM) and self.data.get("state") != "output"

    @property
    def has_time(self) -> bool:
        """Say whether it only tells that something began or moved on: what follows it at once may go with it."""
        return self.kind in (STATUS, NODE, CALL, CHECKPOINT) or self.data.get("state") == "started"

    @property
    def joins(self) -> tuple[Any, ...] | None:
        """Return what it may be joined to: text of the same block goes into one event."""
        if self.kind == DELTA:
            return (DELTA, *(self.data[name] for name in ("lane", "id", "block", "type")))
        if self.kind == TOOL and self.data["state"] == "output":
            return TOOL, self.data["lane"], self.data["message"], self.data["call"]
        return None


def clean(text: str) -> str:
    """Return text without half signs, which strict readers of JSON refuse."""
    return _HALF_SIGNS.sub("\ufffd", text)


def cleaned(value: Any) -> Any:
    """Return JSON data with each text cleaned; nothing is shortened."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(str(key)): cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [cleaned(item) for item in value]
    return value


def cut(text: str) -> list[str]:
    """Cut a text into pieces that fit into an event each; [""] for an empty one."""
    whole = clean(text)
    return [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)] or [""]


def plain(value: Any) -> Any:
    """Return any value as strict JSON, shortened where it is long, deep or of another kind."""
    shown = _plain(value, 0)
    text = json.dumps(shown)
    return shown if len(text) <= MOST_BYTES else {"shortened": text[:PIECE]}


def _plain(value: Any, depth: int) -> Any:
    if depth > MOST_DEPTH:
        return "…"
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= SAFE_INTEGER else str(value)
        case float():
            return float(value) if math.isfinite(value) else repr(float(value))
        case str():
            return clean(value[:PIECE]) + "…" * (len(value) > PIECE)
        case bytes() | bytearray() | memoryview():
            return f"({len(value)} bytes)"
        case Mapping():
            return dict(_entries(value, depth))
        case list() | tuple() | set() | frozenset():
            return [_plain(item, depth + 1) for item in list(value)[:MOST_ITEMS]]
    inner = as_plain(value)
    return f"({type(value).__name__})" if inner is value else _plain(inner, depth + 1)


def _entries(value: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, item in list(value.items())[:MOST_ITEMS]:
        yield clean(str(key)[:PIECE]), _plain(item, depth + 1)
