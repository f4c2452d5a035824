"""A conversation as people read it: who said what, and for each tool call how it was proposed, decided and executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import Q

from agents.compiled import Compiled
from agents.models import Run, Thread
from agents.outcome import MessageView, ToolCallView
from reviews import diffs
from reviews.diffs import Change
from reviews.models import Action, Decision, Interrupt
from reviews.people import name_of

Voice = Literal["agent", "outside", "us", "system"]
Tone = Literal["", "wait", "next", "red"]

VERDICT_WORDS = {"approve": "approved", "edit": "changed and approved", "reject": "rejected", "respond": "answered"}
UNFIT = "did not run: the tool refused the arguments, and the agent was told"
EFFECT_WORDS = {
    "executed": "ran",
    "failed": "ran and failed",
    "unfit": UNFIT,
    "rejected": "nothing ran",
    "responded": "nothing ran; the text was the result",
    "answered": "the answer was taken",
    "continued": "went on",
    "stopped": "stopped",
    "missing": "no trace of it was found",
    "refused": "refused: it was not what had been decided",
}
HEAVY = ("args", "schema", "executed", "description", "result")  # columns of an action that a step does not show
ICONS = {"approve": "check", "edit": "pencil", "reject": "cross", "respond": "reply"}


@dataclass(frozen=True)
class Step:
    """One of the three steps of a call."""

    word: str
    text: str
    tone: Tone = ""
    at: datetime | None = None
    icon: str = ""


@dataclass(frozen=True)
class TalkCall:
    """A tool call in a conversation. ``action`` is there where people were asked about it."""

    view: ToolCallView
    steps: tuple[Step, ...]
    action: Action | None = None

    @property
    def is_open(self) -> bool:
        return self.action is not None and self.action.interrupt.status == Interrupt.Status.OPEN

    @property
    def decision(self) -> Decision | None:
        return getattr(self.action, "decision", None)

    @property
    def changes(self) -> list[Change]:
        """What a person changed of the call as the message holds it."""
        made, asked = self.decision, self.view.args
        edited = made is not None and made.verdict == "edit" and isinstance(made.args, dict) and isinstance(asked, dict)
        return diffs.changes(asked, made.args) if made and edited else []


@dataclass(frozen=True)
class Said:
    """One message with its calls. ``who`` is a user name for one of us, else what the message calls itself."""

    voice: Voice
    who: str
    text: str
    calls: tuple[TalkCall, ...]
    id: str = ""
    reasoning: str = ""


def steps_of(action: Action) -> tuple[Step, ...]:
    """Return proposed, decided (or waiting) and executed of an action; a step not reached says so."""
    interrupt = action.interrupt
    proposed = Step("Proposed", "", at=interrupt.created_at)
    decision: Decision | None = getattr(action, "decision", None)
    match interrupt.status:
        case Interrupt.Status.OPEN:
            return proposed, Step("Waits", "for a person", "wait", icon="clock"), Step("Executed", "not yet", "next")
        case Interrupt.Status.WITHDRAWN if decision is None:
            reason = interrupt.withdrawn_reason or "the question is gone"
            return (
                proposed,
                Step("Withdrawn", reason, at=interrupt.withdrawn_at),
                Step("Executed", "nothing ran", "next"),
            )
    if decision is None:
        return proposed, Step("Decided", "", at=interrupt.decided_at), _executed(action, interrupt)
    word = action.labels.get(decision.verdict) or VERDICT_WORDS.get(decision.verdict, decision.verdict)
    text = f"{word}, {name_of(decision.user)}"
    return (
        proposed,
        Step("Decided", text, at=decision.created_at, icon=ICONS.get(decision.verdict, "")),
        _executed(action, interrupt),
    )


def _executed(action: Action, interrupt: Interrupt) -> Step:
    if action.differs:
        return Step("Executed", "not what was decided", "red", interrupt.applied_at, "warn")
    if action.effect:
        tone: Tone = "red" if action.effect in ("missing", "refused") else ""
        icon = "warn" if tone or action.effect in ("failed", "unfit") else "check"
        return Step("Executed", EFFECT_WORDS.get(action.effect, action.effect), tone, interrupt.applied_at, icon)
    if interrupt.status == Interrupt.Status.WITHDRAWN:
        return Step("Executed", "nothing ran: the decision had no effect", "next")
    return Step("Executed", "not yet", "next")


def unasked_steps(call: ToolCallView, *, answered: bool) -> tuple[Step, ...]:
    """Return the steps of a call that nobody was asked about."""
    if call.result is not None:
        word = _failed(call) if call.error else "ran"
        last = Step("Executed", word, icon="warn" if call.error else "check")
    else:
        last = Step("Executed", "no result is stored" if answered else "not yet", "next")
    return Step("Proposed", ""), Step("Decided", "nobody was asked"), last


def _failed(call: ToolCallView) -> str:
    """Say what an error result means. Without a record of the ledger it may also be that nothing ran."""
    match call.ran:
        case True:
            return "ran and failed"
        case False:
            return UNFIT
        case _:
            return "an error stands for its result"


def read(thread: Thread, messages: Sequence[MessageView]) -> list[Said]:
    """Turn the stored messages of ``thread`` into what is shown, each call with what was asked about it."""
    asked = _asked_calls(thread)
    authors = _authors(thread, messages)
    return [_said(message, thread=thread, asked=asked, authors=authors) for message in messages]


def as_it_stood(thread: Thread, messages: Sequence[MessageView]) -> list[Said]:
    """Turn the messages of a checkpoint into what is shown of the past: nothing that was decided or asked later."""
    authors = _authors(thread, messages)
    return [_said(message, thread=thread, asked={}, authors=authors) for message in messages]


def _said(
    message: MessageView, *, thread: Thread, asked: dict[tuple[str, str], Action], authors: dict[str, str]
) -> Said:
    voice, who = _voice(message, authors)
    if voice == "agent" and who in ("", thread.agent.name):
        who = thread.agent.title
    calls = []
    for view in message.calls:
        action = asked.get((message.id, view.id))
        if action and view.result is None and action.interrupt.thread_id != thread.pk:
            action = None  # decided where this was forked from: that counts for what stands, and for nothing new
        steps = steps_of(action) if action else unasked_steps(view, answered=False)
        calls.append(TalkCall(view, steps, action))
    return Said(voice, who, message.content, tuple(calls), message.id, message.reasoning)


def _voice(message: MessageView, authors: dict[str, str]) -> tuple[Voice, str]:
    match message.role:
        case "human" if author := authors.get(message.id):
            return "us", author
        case "human":
            return "outside", message.name or "A person"
        case "system":
            return "system", "Instructions"
        case _:
            return "agent", message.name


def _authors(thread: Thread, messages: Sequence[MessageView]) -> dict[str, str]:
    """Map message id to who sent it from this desk: the id of such a message is that of its run."""
    own = {message.id for message in messages if message.role == "human"}
    return {str(pk): author for pk, author in _TOLD(thread.lineage()) if str(pk) in own}


_TOLD = Compiled(
    lambda threads: (
        Run.objects.filter(thread__any_of=threads, kind__in=[Run.Kind.INPUT, Run.Kind.REPLAY])
        .exclude(author="")
        .values_list("pk", "author")
    )
)
# What asks about calls: of the thread all, of those it was forked from what was decided.
_ASKED = Compiled(
    lambda thread, lineage: (
        Action.objects.filter(interrupt__thread__any_of=lineage)
        .filter(Q(interrupt__thread=thread) | Q(decision__isnull=False))
        .exclude(tool_call_id="")
        .select_related("interrupt", "decision", "decision__user")
        .defer(*HEAVY, *(f"interrupt__{name}" for name in ("value", "siblings", "response_schema")))
        .order_by("pk")
    )
)


def _asked_calls(thread: Thread) -> dict[tuple[str, str], Action]:
    """Map (message id, call id) to the newest action that asks about it; what was decided before a fork, too."""
    lineage = thread.lineage()
    actions = _ASKED(thread.pk, lineage)
    nearest_last = sorted(actions, key=lambda action: -lineage.index(action.interrupt.thread_id))
    return {(action.message_id, action.tool_call_id): action for action in nearest_last}
