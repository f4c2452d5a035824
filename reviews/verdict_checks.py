"""What is wrong with a set of verdicts, found before anything is stored: a bad answer poisons its thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings

from agents.statements import select
from reviews import dialects, schema_checks
from reviews.dialects import UNSET, Problem, Proposal, Refused, Verdict
from reviews.dialects.answering import is_blank
from reviews.edits import judgeable
from reviews.filing import is_storable, read_stored
from reviews.models import Action, Interrupt
from reviews.strict_json import same

_SHARED = """
select 1 from reviews_interrupt
where thread_id = %s and interrupt_id = %s and namespace <> %s and status in ('open', 'decided') limit 1
"""
LONGEST_TOKEN = 64  # characters
FORGED = frozenset({"not_allowed", "renamed"})  # no form of ours can send these


def find_problems(
    row: Interrupt, verdicts: Sequence[Verdict], *, submit_token: str
) -> tuple[list[Problem], Proposal | None]:
    """Return what is wrong, and what is decided on; None where nothing may be decided at all."""
    if not submit_token or len(submit_token) > LONGEST_TOKEN or not is_storable(submit_token):
        return [_whole("submit_token", "This form has no submit token. Load the page again.")], None
    proposal = read_stored(row)
    if isinstance(proposal, Refused):
        return [_whole("held", f"This question is held: {proposal.message} It cannot be decided.")], None
    if dialects.interrupt_digest(proposal.dialect, dialects.action_digests(proposal)) != row.digest:
        message = "This desk reads the question otherwise than the one that filed it. Have the agent ask again."
        return [_whole("read_differently", message)], None
    if _shares_its_id(row):
        message = "Another open question of this thread has the same id, so an answer could reach the wrong one."
        return [_whole("shared_id", f"{message} Neither can be answered; have the agent ask again.")], None
    problems = dialects.check(proposal, verdicts)
    wrong = {problem.position for problem in problems}
    if None not in wrong:
        for action, verdict in zip(row.actions.all(), verdicts, strict=True):
            if action.position not in wrong:
                problems += _action_problems(proposal.dialect, action, verdict)
    return sorted(problems, key=lambda problem: -1 if problem.position is None else problem.position), proposal


def _shares_its_id(row: Interrupt) -> bool:
    """Older LangGraphs gave pauses side by side one id, and LangGraph is answered by id alone."""
    # In the same namespace it is a newer version of this very question: that one is stale, and told so.
    return bool(select(_SHARED, [row.thread_id, row.interrupt_id, row.namespace]))


def is_forged(problem: Problem) -> bool:
    return problem.code in FORGED


def needs_reason(action: Action) -> bool:
    """Say whether rejecting this call needs a reason. ``REASON_NEEDED_FOR`` names tools, or ``*`` for all."""
    return "*" in settings.REASON_NEEDED_FOR or action.name in settings.REASON_NEEDED_FOR


def _whole(code: str, message: str) -> Problem:
    return Problem(None, "decisions", code, message)


def _action_problems(dialect: str, action: Action, verdict: Verdict) -> Iterator[Problem]:
    match verdict.type:
        case "edit":
            yield from _schema_problems(action, verdict.args)
        case "reject" if needs_reason(action) and is_blank(verdict.message):
            message = f"Say why: {action.name} is rejected only with a reason."
            yield Problem(action.position, "message", "reason_needed", message)
        case "respond" if dialect == "schema" and action.schema is not None:
            answer = verdict.message if verdict.value is UNSET else verdict.value
            yield from _answer_problems(action, answer)


def _schema_problems(action: Action, args: dict[str, Any]) -> Iterator[Problem]:
    """Hold an edit against the schema. What JSON Schema cannot judge is exempt where the reviewer left it alone."""
    if action.schema is None:
        return
    asked = action.args if isinstance(action.args, dict) else {}
    exempt = {
        name for name, value in args.items() if name in asked and not judgeable(value) and same(value, asked[name])
    }
    try:
        found = schema_checks.check(args, action.schema, exempt=exempt, asked=asked)
    except schema_checks.SchemaUnusable:  # a schema that says nothing forbids nothing; the tool itself will answer
        return
    for problem in found:
        if problem.mild:
            continue
        field = "args" if problem.name is None else f"args/{problem.name}"
        yield Problem(action.position, field, "schema", problem.message)


def _answer_problems(action: Action, answer: Any) -> Iterator[Problem]:
    try:
        found = schema_checks.check_value(answer, action.schema or {}, taker="this question")
    except schema_checks.SchemaUnusable:
        return
    for message in found:
        yield Problem(action.position, "value", "schema", message)
