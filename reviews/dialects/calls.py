"""One proposed tool call, read by the rules that all tool dialects share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reviews.dialects.arguments import flags_of, is_object, normal_args
from reviews.dialects.proposals import VERDICTS, BrokenRules, ProposedAction, VerdictType, quoted
from reviews.hidden import has_visible

MAX_NAME = 200  # characters; longer is no tool's name and no id
MAX_CHOICES = 20

_ARGS_KEYS = ("args", "arguments")


@dataclass(frozen=True)
class Policy:
    """What may be decided about a call. ``allowed`` in the agent's order, ``flags`` about what was dropped from it."""

    allowed: tuple[VerdictType, ...]
    flags: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None  # where the early form keeps it


def read_policy(given: Iterable[Any], known: tuple[VerdictType, ...]) -> Policy:
    """Keep the decisions that the dialect knows, flag the others."""
    listed = list(given)
    unknown = frozenset(f"unknown_decision:{_printable(item)}" for item in listed if item not in known)
    return Policy(tuple(verdict for verdict in known if verdict in listed), unknown)


def read_call(
    call: Mapping[str, Any], policy: Policy, *, where: str, name_key: str = "name", args_key: str = "args"
) -> ProposedAction:
    """Read one call. ``where`` names it in messages. Raises BrokenRules."""
    name = text_of(call, name_key, where)
    if not name or not has_visible(name):
        raise BrokenRules("bad_action", f"{where} has no name: {name_key} must be text that can be seen.")
    args, flags = normal_args(_given_args(call, args_key, where))
    description = text_of(call, "description", where)
    description = policy.description if description is None else description
    allowed = tuple(
        verdict for verdict in VERDICTS if verdict in policy.allowed and (verdict != "edit" or is_object(args))
    )
    if not allowed:
        reason = "only edit is allowed, and args is no object" if policy.allowed else "no decision we know is allowed"
        raise BrokenRules("no_allowed_decisions", f"Nothing can be decided about {quoted(name)}: {reason}.")
    flags |= flags_of(args, name, description) | policy.flags
    if "edit" in allowed and "not_json" in flags:
        flags.add("edit_locked_leaves")
    return ProposedAction(
        name=name,
        args=args,
        description=description,
        allowed=allowed,
        flags=tuple(sorted(flags)),
        choices=choices_of(args) if allowed == ("respond",) else (),
        labels=policy.labels,
    )


def text_of(holder: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return a text, or None where it is null or missing. Raises BrokenRules for anything else, and for odd names."""
    found = holder.get(key)
    if found is not None and not isinstance(found, str):
        raise BrokenRules("bad_action", f"{where} has {key} {quoted(found)}; it must be text.")
    if found is None or key == "description":
        return found
    if len(found) > MAX_NAME:
        raise BrokenRules("bad_action", f"{where} has a {key} of {len(found)} characters; {MAX_NAME} is the most.")
    # Names are keys and filters: what the database cannot keep as text cannot be one.
    if "\0" in found or any("\ud800" <= sign <= "\udfff" for sign in found):
        raise BrokenRules("bad_action", f"{where} has {key} {quoted(found)}; NUL and half characters cannot be in it.")
    return found


def object_at(item: Any, where: str, *, code: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise BrokenRules(code, f"{where} is {quoted(item)}; it must be an object.")
    return item


def choices_of(question: Any) -> tuple[str, ...]:
    """Return the answers that a question offers as text, none where one of them is anything else."""
    if not isinstance(question, dict):
        return ()
    offered = question.get("options", question.get("choices"))
    if not isinstance(offered, list) or len(offered) > MAX_CHOICES:
        return ()
    usable = all(
        isinstance(item, str) and item.strip() and len(item) <= MAX_NAME and item.isprintable() for item in offered
    )
    return tuple(dict.fromkeys(offered)) if usable else ()


def _given_args(call: Mapping[str, Any], args_key: str, where: str) -> Any:
    other = next(key for key in _ARGS_KEYS if key != args_key)
    if args_key in call and other in call:
        raise BrokenRules("ambiguous", f"{where} has both args and arguments; which one counts is not known.")
    if other in call:
        raise BrokenRules("bad_action", f"{where} has {other} where this dialect has {args_key}.")
    return call.get(args_key)


def _printable(item: Any) -> str:
    return item if isinstance(item, str) and len(item) <= 60 and item.isprintable() else quoted(item)
