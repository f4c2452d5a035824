"""One Ask -> the rows of an Interrupt and its Actions. Called by ``intake`` only, inside its transaction.

Whatever an agent sends is filed: what no column can hold as text is kept in the canonical value, and shown from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from agents.models import Thread
from agents.outcome import Ask, Call, NotCanonical, Sibling, canonical_bytes, from_canonical
from reviews import dialects, titles
from reviews.dialects import Proposal, ProposedAction, Refused
from reviews.models import Action, Interrupt

RAW_NAME = "interrupt"  # of the one action of a value that no dialect understands
UNREADABLE = "A question that the desk cannot read"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL refuses them in text and in jsonb


def file_ask(ask: Ask, *, thread: Thread, run_id: str, supersedes: Interrupt | None, note: str = "") -> Interrupt:
    """Write the rows of one question, as the next version after ``supersedes``, and return its interrupt."""
    value, proposal, refused = _understand(ask)
    digests = dialects.action_digests(proposal)
    row = Interrupt.objects.create(
        thread=thread,
        agent=thread.agent,
        agent_version=thread.agent.version,
        agent_shape=thread.agent.shape,
        run_id=run_id,
        namespace=ask.namespace,
        interrupt_id=ask.interrupt_id,
        version=supersedes.version + 1 if supersedes else 1,
        supersedes=supersedes,
        task_id=ask.task_id,
        checkpoint_id=ask.checkpoint_id,
        node=storable(ask.node)[:200],
        kind=ask.kind,
        dialect=proposal.dialect,
        value=value,
        value_digest=ask.digest,
        types={path: name for path, name in ask.types.items() if is_storable(path) and is_storable(name)},
        response_schema=_canonical(ask.response_schema),
        siblings=_siblings(ask.siblings),
        restarts=ask.restarts,
        digest=dialects.interrupt_digest(proposal.dialect, digests),
        tools=_tools(proposal),
        held_code=refused.code if refused else "",
        held_reason=storable(refused.message) if refused else "",
        note=note,
        **_words(proposal, refused),
    )
    Action.objects.bulk_create(_actions(row, proposal, digests, _calls(ask, proposal)))
    return row


def read_stored(row: Interrupt) -> Proposal | Refused:
    """Understand a filed interrupt again, from its stored value: what people are shown and answer is this."""
    if row.held_code:
        return Refused(row.held_code, row.held_reason)
    return dialects.read(row.value, response_schema=row.response_schema, kind=row.kind)


def storable(text: str) -> str:
    """Return ``text`` with a mark in the place of what a text column cannot hold."""
    return _UNSTORABLE.sub("\ufffd", text)


def is_storable(text: Any) -> bool:
    return isinstance(text, str) and not _UNSTORABLE.search(text)


# -------------------------------------------------------------------------------------------------------- understanding


def _understand(ask: Ask) -> tuple[Any, Proposal, Refused | None]:
    """Return the value, what it asks, and why it is held if it is. A held one has no decision to offer."""
    try:
        value = from_canonical(ask.value)
    except Exception as error:  # a tag that cannot be read back: its text is shown instead
        text = ask.value.decode("ascii", "replace")
        return text, _held(text), Refused("unreadable", f"The value cannot be read back: {type(error).__name__}.")
    read = dialects.read(value, response_schema=ask.response_schema, kind=ask.kind)
    return (value, read, None) if isinstance(read, Proposal) else (value, _held(value), read)


def _held(value: Any) -> Proposal:
    return Proposal("raw", (ProposedAction(name=RAW_NAME, args=value),), value)


def _words(proposal: Proposal, refused: Refused | None) -> dict[str, str]:
    """Return title and summary, in the desk's words."""
    if refused:
        return {"title": UNREADABLE, "summary": ""}
    each = [titles.title(action.name, action.args, dialect=proposal.dialect) for action in proposal.actions]
    first = proposal.actions[0]
    summary = titles.summary(first.name, first.args) if len(each) == 1 else "; ".join(each)
    return {"title": storable(titles.joined(each))[:200], "summary": storable(summary)[:400]}


def _calls(ask: Ask, proposal: Proposal) -> Sequence[Call | None]:
    """Return the call behind each action; none where the counts differ, because then positions mean nothing."""
    count = len(proposal.actions)
    return ask.calls if len(ask.calls) == count else (None,) * count


def _actions(
    row: Interrupt, proposal: Proposal, digests: Sequence[str], calls: Sequence[Call | None]
) -> Iterable[Action]:
    for position, (action, call) in enumerate(zip(proposal.actions, calls, strict=True)):
        key = call.key if call else None
        yield Action(
            interrupt=row,
            position=position,
            name=action.name,
            args=action.args,
            args_order=_order(action, call),
            description=action.description,
            allowed=list(action.allowed),
            flags=list(action.flags),
            labels=dict(action.labels),
            choices=list(action.choices),
            schema=action.schema or (_canonical(call.schema) if call else None),
            message_id=key.message_id if key else "",
            tool_call_id=key.tool_call_id if key else action.tool_call_id or "",
            digest=digests[position],
        )


def _order(action: ProposedAction, call: Call | None) -> list[str]:
    """Return the names of the arguments as the agent wrote them: canonical bytes are sorted, the call is not."""
    if not isinstance(action.args, dict):
        return []
    given = call.args if call and isinstance(call.args, dict) else {}
    names = list(given) if set(given) == set(action.args) else list(action.args)
    return names if all(map(is_storable, names)) else []


def _tools(proposal: Proposal) -> str:
    """Return the tools' names with a blank around each, for the filter; whole names, as many as the column holds."""
    text = " "
    for name in dict.fromkeys(action.name for action in proposal.actions if action.name != RAW_NAME):
        if len(text) + len(name) + 1 <= 400:
            text += f"{name} "
    return text.rstrip() and text


def _siblings(siblings: Sequence[Sibling]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "args": _canonical(one.args), "state": one.state, "result": one.result} for one in siblings
    ]


def _canonical(value: Any) -> Any:
    """Return ``value``, or None where it has no canonical form: it is beside the question, and must not lose it."""
    try:
        canonical_bytes(value)
    except NotCanonical:
        return None
    return value
