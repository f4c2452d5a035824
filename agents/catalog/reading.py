"""How the catalog's scripts read a conversation: what was asked, and what became of each call since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

EDITED = re.compile(
    r"\ANote: a human reviewer replaced this tool call.*?Executed instead: .*?(?:\n\s*|\Z)(?:Tool response:\s*)?",
    re.DOTALL,
)
REASON = re.compile(r"\AUser rejected the tool call for `.*?` with reason: (.*)", re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One tool call since the last human message, and how it ended.

    ``text`` is the result, the reason of a rejection (empty without one), or the answer in the tool's place.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    outcome: Literal["ran", "edited", "rejected", "answered", "failed", "open"] = "open"
    text: str = ""

    @property
    def ran(self) -> bool:
        return self.outcome in ("ran", "edited")


def wishes(messages: Sequence[BaseMessage]) -> list[str]:
    """Return what people said in this thread, newest first."""
    return [message.text for message in reversed(messages) if isinstance(message, HumanMessage)]


def steps(messages: Sequence[BaseMessage]) -> list[Step]:
    """Return the calls since the last human message, in order. Ids are matched within a turn, since they may repeat."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    recent = messages[start + 1 :]
    found: list[Step] = []
    for index, message in enumerate(recent):
        if isinstance(message, AIMessage):
            results = {result.tool_call_id: result for result in _results_after(recent[index + 1 :])}
            found += [_step(call["name"], call["args"], results.get(call["id"] or "")) for call in message.tool_calls]
    return found


def _results_after(messages: Iterable[BaseMessage]) -> Iterable[ToolMessage]:
    for message in messages:
        if isinstance(message, AIMessage):
            return
        if isinstance(message, ToolMessage):
            yield message


def _step(name: str, args: Mapping[str, Any], result: ToolMessage | None) -> Step:
    if result is None:
        return Step(name, args)
    decided = (result.additional_kwargs.get("lc_data") or {}).get("decision")
    if decided == "respond":
        return Step(name, args, "answered", result.text)
    if decided == "reject":
        reason = REASON.match(result.text)
        return Step(name, args, "rejected", reason[1].strip() if reason else "")
    text, replaced = EDITED.subn("", result.text)
    if result.status == "error":
        return Step(name, args, "failed", text)
    return Step(name, args, "edited" if replaced else "ran", text)


def latest(done: Sequence[Step], name: str) -> Step | None:
    """Return the last of these calls to the tool of that name."""
    return next((step for step in reversed(done) if step.name == name), None)


def sentence(text: str) -> str:
    """End a text with a full stop, where nothing ends it yet."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def told(step: Step, *, what: str) -> str:
    """Say in the agent's words how a call ended. ``what`` names it, as in "the refund"."""
    match step.outcome:
        case "ran":
            return sentence(step.text)
        case "edited":
            return f"A colleague changed {what} before it ran: {sentence(step.text)}"
        case "rejected" if step.text:
            return f"I leave out {what}. A colleague told me why: {sentence(step.text)} I will keep to that."
        case "rejected":
            return f"I leave out {what}: a colleague said no, and I will not try again unless you ask me to."
        case "answered":
            return f"About {what} a colleague answered: {sentence(step.text)}"
        case _:
            return f"I could not complete {what}: {sentence(step.text or 'no result came back')}"
