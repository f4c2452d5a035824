"""The chain of the audit log: what an entry may say, and how entries are hashed. No writing and no walking here.

Hash of an entry: SHA-256 of the previous entry's hash (64 hex digits, ASCII; zeros before the first) followed by the
body (UTF-8). A body is RFC 8785 JSON of a closed vocabulary. Arguments, reasons and comments never stand in it, only a
commitment to each: SHA-256 of salt and canonical bytes. AuditSecret keeps salt and value: erased, the chain holds.
"""

from __future__ import annotations

import hashlib
import secrets as randomness
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from agents.outcome import canonical_bytes

FORMAT = 1  # of a body
START = "0" * 64  # what the first entry names as its previous
SALT_BYTES = 32


class Kind(StrEnum):
    """What an entry can say. Closed: an unknown kind is a fault of the body."""

    FILED = "interrupt filed"
    WITHDRAWN = "interrupt withdrawn"
    APPLIED = "interrupt applied"
    DECIDED = "decision recorded"
    REFUSED = "decision refused"
    STALE = "decision stale"
    INCIDENT = "incident"
    ERASED = "secrets erased"
    THREAD_STARTED = "thread started"
    MESSAGE_SENT = "message sent"
    MESSAGE_CANCELLED = "message cancelled"
    SENT_ANYWAY = "sent anyway"
    RUN_STOPPED = "run stopped"
    FORKED = "thread forked"
    REWOUND = "thread rewound"
    REPLAYED = "head replayed"
    GRANTED = "grant changed"
    SIGNED_IN = "signed in"
    EXPORTED = "log exported"


# What else an entry may name, beside the fields of `On`: codes, ids and counts, never words of an agent or a person.
FACTS = frozenset({"code", "run", "entry", "count", "tool", "position", "to_thread", "to_checkpoint"})
FACTS |= {"group", "granted", "supersedes", "shown"}
Fact = str | int | bool


@dataclass(frozen=True)
class CallFacts:
    """One action as an entry tells it. Digests cover name and arguments, 64 hex digits or empty."""

    position: int
    tool: str
    message_id: str = ""
    tool_call_id: str = ""
    verdict: str = ""
    shown: str = ""  # what the reviewer saw
    decided: str = ""  # what may run
    executed: str = ""  # what ran
    effect: str = ""


def commit(value: Any, salt: bytes | None = None) -> tuple[str, bytes]:
    """Return (commitment, salt): 64 hex digits that tell nothing of ``value`` without the salt."""
    chosen = salt or randomness.token_bytes(SALT_BYTES)
    return hashlib.sha256(chosen + canonical_bytes(value)).hexdigest(), chosen


def link(previous: str, body: str) -> str:
    """Return the hash of an entry."""
    return hashlib.sha256(previous.encode("ascii") + body.encode("utf-8")).hexdigest()


def columns(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the other columns say: they only help to find an entry, and must say the same as its body."""
    who, agent, interrupt = body["who"] or {}, body["agent"] or {}, body["interrupt"] or {}
    return {
        "seq": body["seq"],
        "kind": body["kind"],
        "user_id": who.get("id"),
        "actor": who.get("name", ""),
        "agent_id": agent.get("name"),
        "thread_id": body["thread"],
        "interrupt_id": interrupt.get("row"),
        "verdict": _one_verdict({call["verdict"] for call in body["calls"]}),
    }


def _one_verdict(verdicts: set[str]) -> str:
    return verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else ""


def written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
