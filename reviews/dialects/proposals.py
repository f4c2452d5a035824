"""What an agent asks and what people decide, as plain frozen values, and the digests that tie the two together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from agents import outcome

VerdictType = Literal["approve", "edit", "reject", "respond"]
VERDICTS: Final[tuple[VerdictType, ...]] = ("approve", "edit", "reject", "respond")

# Their actions are tool calls: name and arguments. In the others the one action stands for the whole value.
TOOL_DIALECTS: Final = frozenset({"hitl", "hitl_early", "hitl_js", "tool_approval", "agent_inbox"})


class Unset(Enum):
    """The type of UNSET, which says "no value": None is an answer like any other."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True)
class ProposedAction:
    """One thing to decide. ``allowed`` is in the order of VERDICTS, ``flags`` sorted.

    ``schema``: JSON Schema of the arguments where the payload has one; in the dialect ``schema`` that of the answer.
    ``choices``: answers that the question offers as text; any other text is an answer too.
    ``labels``: verdict -> the dialect's own word for it, where it is another than ours.
    """

    name: str
    args: Any
    description: str | None = None
    allowed: tuple[VerdictType, ...] = ()
    flags: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    tool_call_id: str | None = None
    choices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """An interrupt as it was understood. ``value`` is the whole of it as plain data."""

    dialect: str
    actions: tuple[ProposedAction, ...]
    value: Any


@dataclass(frozen=True)
class Refused:
    """The value claims a dialect and breaks its rules: it is held and shown raw. ``message`` is for the reviewer."""

    code: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What a person chose for one action.

    ``args``: for edit, the whole arguments. ``message``: for reject the feedback, for respond the text. ``value``: the
    parsed answer in the dialects ``raw`` and ``schema``. ``name``: the tool's name where a client sent one; it has to
    be the name that was asked about.
    """

    type: VerdictType
    args: Any = None
    message: str | None = None
    value: Any = UNSET
    name: str | None = None


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the verdicts. ``position`` is None where it is their number.

    ``field``: ``decisions``, ``type``, ``name``, ``message``, ``value`` or ``args``, the last two with ``/key`` for
    each step inside, as in ``args/to/0``.
    """

    position: int | None
    field: str
    code: str
    message: str


class BrokenRules(ValueError):
    """Raised while reading: the value breaks the rules of the dialect it claims. Becomes a Refused."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def call_digest(name: str, args: Any) -> str:
    """Return the digest of a tool call: its name and its arguments, as asked, as edited or as executed."""
    return outcome.digest({"name": name, "args": args})


def digest_of(proposal: Proposal, position: int) -> str:
    """Return the digest of one action: name and arguments of a tool call, else the whole value."""
    action = proposal.actions[position]
    return (
        call_digest(action.name, action.args) if proposal.dialect in TOOL_DIALECTS else outcome.digest(proposal.value)
    )


def action_digests(proposal: Proposal) -> tuple[str, ...]:
    return tuple(digest_of(proposal, position) for position in range(len(proposal.actions)))


def interrupt_digest(dialect: str, digests: Sequence[str]) -> str:
    """Return the digest of an interrupt: its dialect and its actions' digests in order."""
    return outcome.digest({"dialect": dialect, "actions": list(digests)})


def quoted(value: object) -> str:
    """Show a value inside a message: escaped, on one line, and short."""
    text = repr(value[:60]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
