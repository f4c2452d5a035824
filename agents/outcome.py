"""The border between agents and reviews: plain frozen values, their canonical bytes and digest.

Whatever crosses from ``agents`` to ``reviews`` or back is one of these classes, never a LangGraph object.

Canonical form (DESIGN section 5): JSON, keys sorted, ASCII only, no blanks. Integers and floats stay apart (``1``
and ``1.0``). What JSON cannot hold is tagged: ``{"__cs__": ["decimal", "1.10"]}``. An object that has other than text
keys, or that has the key ``__cs__`` itself, is tagged as ``map``. So two different values never share one form, but for
tuples, which are lists (msgpack already made them so).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

TAG = "__cs__"
MAX_DEPTH = 400  # msgpack itself stops below 500; deeper values never reach a checkpoint.


class NotCanonical(ValueError):
    """The value cannot be written down exactly. ``code``: ``too_deep`` or ``unknown_type``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


# ------------------------------------------------------------------------------------------------------------ canonical


def canonical_bytes(value: Any) -> bytes:
    """Return the one canonical form of ``value``, ASCII JSON. Raises NotCanonical."""
    plain = _tagged(value, 0)
    return json.dumps(plain, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical form, as 64 hex digits."""
    return digest_of_bytes(canonical_bytes(value))


def digest_of_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def from_canonical(data: bytes) -> Any:
    """Read a value back from its canonical bytes; the inverse of canonical_bytes, tuples being lists."""
    return json.loads(bytes(data), object_hook=_untagged)


def _tagged(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NotCanonical("too_deep", f"The value is nested deeper than {MAX_DEPTH} levels.")
    match value:
        case None | bool() | str() | int() if type(value) in (type(None), bool, str, int):
            return value
        case float() if type(value) is float:
            return value if math.isfinite(value) else {TAG: ["float", repr(value)]}
        case dict():
            return _tagged_map(value, depth)
        case list() | tuple():
            items = []
            for item in value:  # a loop, not a comprehension: one stack frame a level
                items.append(_tagged(item, depth + 1))
            return items
        case set() | frozenset():
            return {TAG: ["set", sorted((_tagged(item, depth + 1) for item in value), key=_sort_key)]}
        case _:
            return _tagged_object(value, depth)


def _tagged_map(value: Mapping[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value) and TAG not in value:
        plain = {}
        for key, item in value.items():
            plain[key] = _tagged(item, depth + 1)
        return plain
    pairs = [[_tagged(key, depth + 1), _tagged(item, depth + 1)] for key, item in value.items()]
    return {TAG: ["map", sorted(pairs, key=_sort_key)]}


def _tagged_object(value: Any, depth: int) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return {TAG: ["bytes", base64.b64encode(bytes(value)).decode("ascii")]}
        case datetime():
            return {TAG: ["datetime", value.isoformat()]}
        case date():
            return {TAG: ["date", value.isoformat()]}
        case time():
            return {TAG: ["time", value.isoformat()]}
        case timedelta():
            return {TAG: ["timedelta", [value.days, value.seconds, value.microseconds]]}
        case Decimal():
            return {TAG: ["decimal", str(value)]}
        case UUID():
            return {TAG: ["uuid", str(value)]}
    plain = as_plain(value)
    if plain is value:
        raise NotCanonical(
            "unknown_type", f"A value of type {type(value).__qualname__} cannot be written down exactly."
        )
    return _tagged(plain, depth)


def _sort_key(plain: Any) -> bytes:
    return json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _untagged(plain: dict[str, Any]) -> Any:
    if TAG not in plain:
        return plain
    kind, data = plain[TAG]
    return _READERS[kind](data)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


_READERS: dict[str, Any] = {
    "float": float,
    "set": lambda items: {_hashable(item) for item in items},
    "map": lambda pairs: {_hashable(key): item for key, item in pairs},
    "bytes": base64.b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "decimal": Decimal,
    "uuid": UUID,
}


def as_plain(value: Any) -> Any:
    """Turn one object (pydantic model, dataclass, enum, subclass of a plain type) into plain data, or return it as is.

    Only the outermost layer; what it holds is converted when its turn comes.
    """
    if isinstance(value, Enum):
        return value.value
    if hasattr(type(value), "model_fields"):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    return value


HALF = "text with half a character (a lone surrogate), which a checkpoint keeps as a question mark"


def type_names(value: Any, path: str = "") -> dict[str, str]:
    """Map the path (JSON pointer) of each object in ``value`` that is no plain data to its type's name, for display.

    A text that holds half a character is named too: LangGraph's serializer (OPT_REPLACE_SURROGATES) stores a question
    mark in its place, before anybody is asked.
    """
    found: dict[str, str] = {}
    plain = as_plain(value)
    if plain is not value:
        found[path] = type(value).__qualname__
    elif isinstance(plain, str) and any("\ud800" <= letter <= "\udfff" for letter in plain):
        found[path] = HALF
    if isinstance(plain, Mapping):
        for key, item in plain.items():
            found |= type_names(item, f"{path}/{key}")
    elif isinstance(plain, list | tuple):
        for index, item in enumerate(plain):
            found |= type_names(item, f"{path}/{index}")
    return found


# ---------------------------------------------------------------------------------------------------- agents -> reviews


@dataclass(frozen=True)
class CallKey:
    """Names one tool call for good.

    Tool call ids like ``call_0`` come again each turn; with the message id they do not.
    """

    message_id: str
    tool_call_id: str

    def __str__(self) -> str:
        return f"{self.message_id}:{self.tool_call_id}"


@dataclass(frozen=True)
class Call:
    """One tool call that an interrupt asks about.

    ``key`` is None where the payload could not be matched without doubt.
    """

    name: str
    args: Any
    key: CallKey | None = None
    schema: dict[str, Any] | None = None  # JSON Schema of the arguments


@dataclass(frozen=True)
class Sibling:
    """Another call of the same turn, which is not asked about.

    ``state``: ``ran``, ``refused`` (its arguments did not fit: it did not run), ``waits`` (runs by itself afterwards).
    """

    name: str
    args: Any
    state: Literal["ran", "refused", "waits"]
    key: CallKey | None = None
    result: str = ""


@dataclass(frozen=True)
class Ask:
    """One pause that waits for people, as it stands in the checkpoint (read back, never the run's return value)."""

    kind: Literal["interrupt", "breakpoint", "execution", "call"]
    interrupt_id: str  # LangGraph's; "breakpoint:<checkpoint id>", "execution:<id>", "call:<call key>" for our own
    namespace: str
    task_id: str
    checkpoint_id: str
    value: bytes  # canonical
    node: str = ""
    types: Mapping[str, str] = field(default_factory=dict)  # path -> type name
    response_schema: dict[str, Any] | None = None
    calls: tuple[Call, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    restarts: bool = False  # the node (or tool) that asks runs again from its top when it is answered

    @property
    def digest(self) -> str:
        return digest_of_bytes(self.value)


@dataclass(frozen=True)
class Effect:
    """What became of one decided call, verified in the stored messages and in the ledger."""

    interrupt_id: str
    namespace: str
    position: int  # index of the action inside its interrupt
    state: Literal[
        "executed",
        "failed",
        "unfit",  # the tool refused the arguments, and did not run
        "rejected",
        "responded",
        "answered",
        "continued",
        "stopped",
        "missing",
        "refused",  # by the ledger
    ]
    name: str = ""
    args: bytes | None = None  # canonical; what the tool really received, where the ledger saw it
    result: str = ""
    differs: bool = False  # executed is not what was decided: an incident


@dataclass(frozen=True)
class Outcome:
    """How one advance ended.

    ``status`` is the run's next status; ``asks`` lists everything that waits at the head now.
    """

    thread_id: str
    run_id: str
    token: int
    status: Literal["interrupted", "success", "error", "cancelled"]
    head: str = ""  # checkpoint id
    asks: tuple[Ask, ...] = ()
    known: bool = True  # False: the head could not be read, so nothing may be withdrawn because of `asks`
    # (namespace, interrupt id) decided, yet without effect: withdraw, tell people
    gone: tuple[tuple[str, str], ...] = ()
    effects: tuple[Effect, ...] = ()
    error: str = ""
    stuck: bool = False  # the thread is poisoned: only replaying its head helps


# ---------------------------------------------------------------------------------------------------- reviews -> agents


@dataclass(frozen=True)
class CallPermit:
    """What was decided about one call.

    ``digest`` covers name and arguments that may run (empty for reject and respond).
    """

    verdict: Literal["approve", "edit", "reject", "respond"]
    key: CallKey | None
    name: str
    args: bytes | None  # canonical; what may run
    digest: str
    position: int = 0


@dataclass(frozen=True)
class Permit:
    """The answer to one interrupt, on its way to the runner. ``digest``: of the value that was shown (Ask.digest)."""

    interrupt_id: str
    namespace: str
    digest: str
    answer: bytes  # canonical; goes to LangGraph as Command(resume={interrupt_id: answer})
    calls: tuple[CallPermit, ...] = ()


@dataclass(frozen=True)
class StreamEvent:
    """One event of the durable stream.

    ``kind``: message, tool, node, checkpoint, interrupt, custom, status, error, end.
    """

    thread_id: str
    run_id: str
    seq: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class ToolCallView:
    """A tool call inside a message, with what is known of its result."""

    id: str
    name: str
    args: Any
    result: str | None = None
    error: bool = False
    ran: bool | None = None  # whether the tool was entered, where the ledger knows


@dataclass(frozen=True)
class MessageView:
    """One message of a conversation, for display. ``content`` is text as the sender wrote it: untrusted.

    ``reasoning``: what a model thought before it answered, where it said so; no part of the answer.
    """

    id: str
    role: Literal["human", "ai", "tool", "system", "other"]
    content: str
    name: str = ""
    reasoning: str = ""
    calls: tuple[ToolCallView, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A question that was raised at a checkpoint. ``answers``: canonical, all that its task was given there so far."""

    interrupt_id: str
    namespace: str
    task_id: str
    node: str
    value: bytes  # canonical
    state: Literal["open", "answered", "ignored"]  # ignored: the thread went another way without an answer
    answers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """One checkpoint as it stood: conversation and other values (canonical), what would run next."""

    thread_id: str
    checkpoint_id: str
    messages: tuple[MessageView, ...]
    values: bytes
    next: tuple[str, ...] = ()
    namespace: str = ""
    parent_id: str = ""
    run_id: str = ""
    step: int | None = None
    source: str = ""  # LangGraph's: input, loop, update, fork
    at: datetime | None = None
    asked: tuple[Asked, ...] = ()
    metadata: bytes = b"{}"  # canonical
    is_head: bool = False
    missing: tuple[str, ...] = ()  # nodes due next that the agent's code does not have any more
    unread: tuple[str, ...] = ()  # values that only the agent's code could rebuild, and it is not here
