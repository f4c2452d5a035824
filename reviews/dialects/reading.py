"""Interrupt value -> Proposal, or the reason why it is held. What claims a dialect is never taken for another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.outcome import NotCanonical, canonical_bytes
from reviews.dialects import batched, single
from reviews.dialects.arguments import MAX_NESTING, plain_copy
from reviews.dialects.proposals import BrokenRules, Proposal, Refused

_TOO_DEEP = f"The value is nested deeper than {MAX_NESTING} levels, so it cannot be shown whole."
_KINDS: dict[str, Callable[[Any, Any], Proposal]] = {
    "breakpoint": single.read_breakpoint,
    "execution": single.read_execution,
    "call": single.read_own_question,
}


def read(value: Any, *, response_schema: dict[str, Any] | None, kind: str = "interrupt") -> Proposal | Refused:
    """Understand an interrupt. ``kind`` is Ask.kind. Raises nothing, whatever the value is."""
    try:
        plain = plain_copy(value)
        schema = None if response_schema is None else plain_copy(response_schema)
        canonical_bytes([plain, schema])  # what has no canonical form has no digest, so nothing could be decided on it
        return _KINDS.get(kind, _read_interrupt)(plain, schema)
    except (BrokenRules, NotCanonical) as error:
        return Refused(error.code, str(error))
    except RecursionError:
        return Refused("too_deep", _TOO_DEEP)
    except Exception as error:  # an object's own code may raise anything; the pause has to be shown all the same
        return Refused("unreadable", f"The value cannot be read: {type(error).__name__}.")


def _read_interrupt(value: Any, schema: Any) -> Proposal:
    claimed = _claims(value)
    if len(claimed) > 1:
        raise BrokenRules(
            "ambiguous", f"The value claims to be {' and '.join(claimed)}; which one counts is not known."
        )
    match claimed:
        case ["hitl"]:
            return batched.read_hitl(value)
        case ["hitl_js"]:
            return batched.read_hitl_js(value)
        case ["tool_approval"]:
            return single.read_tool_approval(value, schema)
        case ["agent_inbox"]:
            return batched.read_agent_inbox(value)
    return single.read_raw(value) if schema is None else single.read_schema(value, schema)


def _claims(value: Any) -> list[str]:
    """Name the dialects whose words the value uses."""
    if isinstance(value, list):
        return ["agent_inbox"] if any(isinstance(item, dict) and "action_request" in item for item in value) else []
    if not isinstance(value, dict):
        return []
    signs = {
        "hitl": "action_requests" in value or "review_configs" in value,
        "hitl_js": "actionRequests" in value or "reviewConfigs" in value,
        "tool_approval": value.get("type") == "tool_approval",
        "agent_inbox": "action_request" in value,
    }
    return [dialect for dialect, claimed in signs.items() if claimed]
