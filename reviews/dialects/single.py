"""The dialects that ask one thing: ``tool_approval``, ``schema``, ``raw``, and our own two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reviews.dialects import schemas
from reviews.dialects.arguments import flags_of
from reviews.dialects.calls import Policy, choices_of, object_at, read_call, read_policy, text_of
from reviews.dialects.proposals import VERDICTS, BrokenRules, Proposal, ProposedAction, VerdictType, quoted

NAME = "interrupt"  # of the one action where no tool is asked about

_BREAKPOINT_LABELS = {"approve": "Run the next step", "reject": "Stop the agent here"}
_EXECUTION_LABELS = {"approve": "Run it again", "respond": "It ran, with this result", "reject": "It did not run"}


def read_tool_approval(value: dict[str, Any], schema: Any) -> Proposal:
    if not isinstance(schema, dict):
        raise BrokenRules("no_policy", "A tool_approval without a response_schema does not say what may be decided.")
    return _tool_approval(value, schema, read_policy(schemas.branches(schema), VERDICTS))


def read_own_question(value: Any, schema: Any) -> Proposal:
    """The ledger asks about a call whose decision was taken elsewhere; all four decisions are open."""
    call = object_at(value, "The question", code="bad_shape")
    return _tool_approval(call, schema if isinstance(schema, dict) else {}, Policy(VERDICTS))


def _tool_approval(value: dict[str, Any], schema: dict[str, Any], policy: Policy) -> Proposal:
    action = read_call(value, policy, where="The call")
    edit = schemas.branches(schema).get("edit", {})
    schemas.check_pinned(edit, schema, action.name)
    found = schemas.edit_args(edit, schema)
    action = replace(action, schema=found, tool_call_id=text_of(value, "tool_call_id", "The call"))
    return Proposal("tool_approval", (action,), value)


def read_raw(value: Any) -> Proposal:
    return _question("raw", value, allowed=("respond",))


def read_schema(value: Any, schema: Any) -> Proposal:
    if not isinstance(schema, dict):
        raise BrokenRules("bad_shape", f"response_schema is {quoted(schema)}; it must be an object.")
    return _question("schema", value, allowed=("respond",), schema=schema)


def read_breakpoint(value: Any, _: Any) -> Proposal:
    return _question("breakpoint", value, allowed=("approve", "reject"), labels=_BREAKPOINT_LABELS)


def read_execution(value: Any, _: Any) -> Proposal:
    """Nobody knows whether a call took effect. Its name and arguments are shown where the value has them."""
    proposal = _question("execution", value, allowed=("approve", "reject", "respond"), labels=_EXECUTION_LABELS)
    if not isinstance(value, dict) or "name" not in value:
        return proposal
    name = text_of(value, "name", "The call") or NAME
    action = replace(
        proposal.actions[0],
        name=name,
        args=value.get("args", {}),
        tool_call_id=text_of(value, "tool_call_id", "The call"),
    )
    return replace(proposal, actions=(action,))


def _question(
    dialect: str,
    value: Any,
    *,
    allowed: tuple[VerdictType, ...],
    schema: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> Proposal:
    action = ProposedAction(
        name=NAME,
        args=value if isinstance(value, dict) else {"value": value},
        description=_question_text(value),
        allowed=allowed,
        flags=tuple(sorted(flags_of(value))),
        schema=schema,
        choices=choices_of(value) if dialect == "raw" else (),
        labels=labels or {},
    )
    return Proposal(dialect, (action,), value)


def _question_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in ("question", "description") if isinstance(value.get(key), str)), None)
