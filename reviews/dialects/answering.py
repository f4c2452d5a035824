"""Verdicts -> what is wrong with them, or the exact value that goes to LangGraph.

The library saves a bad answer before it looks at it, and then the thread is poisoned: all is checked here first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reviews.dialects.arguments import Path, at, is_object, locked_leaves, same, unsendable
from reviews.dialects.proposals import UNSET, Problem, Proposal, ProposedAction, Verdict, quoted
from reviews.hidden import has_visible

_VALUE_DIALECTS = frozenset({"raw", "schema"})
_INBOX_TYPES = {"approve": "accept", "edit": "edit", "reject": "ignore", "respond": "response"}
_MISSING = object()


def check(proposal: Proposal, verdicts: Sequence[Verdict]) -> list[Problem]:
    """Return what is wrong with the verdicts, which stand in the order of the actions. Schemas are not looked at."""
    asked, given = len(proposal.actions), len(verdicts)
    if asked != given:
        message = f"{asked} decision{'' if asked == 1 else 's'} needed, one for each action in order; {given} came."
        return [Problem(None, "decisions", "count", message)]
    return [
        Problem(position, field, code, message)
        for position, (action, verdict) in enumerate(zip(proposal.actions, verdicts, strict=True))
        for field, code, message in _problems(proposal.dialect, action, verdict)
    ]


def answer(proposal: Proposal, verdicts: Sequence[Verdict]) -> Any:
    """Return the value to resume this interrupt with, not wrapped by its id. Raises ValueError for what check finds."""
    if problems := check(proposal, verdicts):
        raise ValueError(f"{problems[0].field}: {problems[0].message}")
    pairs = list(zip(proposal.actions, verdicts, strict=True))
    match proposal.dialect:
        case "raw" | "schema":
            return _value(verdicts[0])
        case "agent_inbox":
            return [_inbox_answer(action, verdict) for action, verdict in pairs]
        case "tool_approval" | "breakpoint" | "execution":
            return _decision(proposal.dialect, *pairs[0])
        case _:
            return {"decisions": [_decision(proposal.dialect, action, verdict) for action, verdict in pairs]}


def is_blank(text: str | None) -> bool:
    """Say whether nothing in ``text`` can be seen."""
    return not text or not has_visible(text)


# ---------------------------------------------------------------------------------------------------------------- check

_Found = Iterator[tuple[str, str, str]]  # field, code, message


def _problems(dialect: str, action: ProposedAction, verdict: Verdict) -> _Found:
    if verdict.type not in action.allowed:
        allowed = ", ".join(action.allowed)
        yield (
            "type",
            "not_allowed",
            f"{quoted(verdict.type)} is not allowed for {quoted(action.name)}; allowed: {allowed}.",
        )
        return
    if verdict.name is not None and verdict.name != action.name:
        yield (
            "name",
            "renamed",
            f"The tool stays {quoted(action.name)}; a decision cannot make it {quoted(verdict.name)}.",
        )
    yield from _message_problems(verdict)
    if verdict.value is not UNSET and dialect not in _VALUE_DIALECTS:
        yield "value", "unexpected", "A decision about a tool call has no value of its own; answer with a message."
    match verdict.type:
        case "approve" if verdict.args is not None and not same(verdict.args, action.args):
            yield "args", "changed", "The arguments were changed: run it with the change, or take the change back."
        case "edit":
            yield from _edit_problems(action, verdict.args)
        case "respond":
            yield from _response_problems(dialect, verdict)


def _message_problems(verdict: Verdict) -> _Found:
    if verdict.message is None:
        return
    for _, code, message in unsendable(verdict.message):
        yield "message", code, message


def _response_problems(dialect: str, verdict: Verdict) -> _Found:
    if verdict.value is UNSET or dialect not in _VALUE_DIALECTS:
        if is_blank(verdict.message):
            yield "message", "blank", "Write an answer: the agent would take a blank one as the result."
        return
    if verdict.message is not None:
        yield "value", "ambiguous", "There is an answer as text and one as JSON; which one counts is not known."
    for path, code, message in unsendable(verdict.value):
        yield _field("value", path), code, message


def _edit_problems(action: ProposedAction, args: Any) -> _Found:
    if not is_object(args):
        yield "args", "not_object", f"The arguments are {quoted(args)}; they must be an object."
        return
    faults = [
        fault for fault in unsendable(args) if fault[1] == "too_deep" or not _is_kept(fault[0], action.args, args)
    ]
    for path, code, message in faults:
        yield _field("args", path), code, message
    if faults:
        return
    for path, leaf in locked_leaves(action.args).items():
        if not _is_kept(path, action.args, args):
            yield (
                _field("args", path),
                "locked",
                f"{quoted(leaf)} cannot be written as JSON, so an edit keeps it as it is.",
            )
    if same(args, action.args):
        yield "args", "unchanged", "Nothing was changed: approve it as it was asked, or change something."


def _is_kept(path: Path, before: Any, after: Any) -> bool:
    return same(_at(before, path), _at(after, path))


def _at(value: Any, path: Path) -> Any:
    try:
        return at(value, path)
    except LookupError:
        return _MISSING


def _field(name: str, path: Path) -> str:
    return "/".join((name, *map(str, path)))


# --------------------------------------------------------------------------------------------------------------- answer


def _value(verdict: Verdict) -> Any:
    return verdict.message if verdict.value is UNSET else verdict.value


def _decision(dialect: str, action: ProposedAction, verdict: Verdict) -> dict[str, Any]:
    match verdict.type:
        case "edit":
            args_key = "arguments" if dialect == "hitl_early" else "args"
            edited_key = "editedAction" if dialect == "hitl_js" else "edited_action"
            return {"type": "edit", edited_key: {"name": action.name, args_key: verdict.args}}
        case "respond":
            return {"type": "respond", "message": verdict.message}
        case "reject" if not is_blank(verdict.message):
            return {"type": "reject", "message": verdict.message}
        case _:
            return {"type": verdict.type}


def _inbox_answer(action: ProposedAction, verdict: Verdict) -> dict[str, Any]:
    args: Any = None  # an ignored request takes no reason along: the dialect has no place for one
    if verdict.type == "edit":
        args = {"action": action.name, "args": verdict.args}
    elif verdict.type == "respond":
        args = verdict.message
    return {"type": _INBOX_TYPES[verdict.type], "args": args}
