"""Starting again from a checkpoint: in a new thread (fork), in the same one (rewind), or before what was rejected.

Operators fork and rewind. The corrective fork of a rejected action is also for reviewers, as far as they may decide for
the agent: they said no, and it is the same hand that says what instead. Auditors read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from agents import history, registry
from agents.history import GraphChanged, NeedsCode, Point, SafetySheet, Unfit, UnknownCheckpoint
from agents.models import Run, Thread
from agents.outcome import digest
from reviews import audit, live, tasks
from reviews.audit import Kind, On
from reviews.models import Decision, Interrupt, Role, names_for
from reviews.people import name_of, roles_of

LONGEST_MESSAGE = 100_000  # characters
LONGEST_NAME = 200
LONGEST_NOTE = 10_000
NAME = 60  # characters of a correction that name its fork
MOST_BACK = 30  # steps from a question to before its proposal

_UNUSABLE = (GraphChanged, NeedsCode, registry.UnknownAgent, registry.UnusableAgent)


class Refused(Exception):
    """Nothing was done; the message says why, for the person who asked."""


class Changed(Exception):
    """Nothing was done: it would do something else than what the person was shown."""


@dataclass(frozen=True)
class Wish:
    """How to start: as it is, after a word to the agent, or with other values. ``name`` and ``note`` are for a fork."""

    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    as_node: str = ""
    name: str = ""
    note: str = ""

    @property
    def start(self) -> dict[str, Any]:
        return {"message": self.message, "values": dict(self.values), "as_node": self.as_node}

    def secrets(self) -> dict[str, Any]:
        """Return what the log only commits to."""
        told = {"message": self.message, "values": dict(self.values), "name": self.name, "note": self.note}
        return {name: value for name, value in told.items() if value}


# --------------------------------------------------------------------------------------------------------------- sheets


def sheet_of(thread: Thread, checkpoint_id: str, wish: Wish, *, kind: Any) -> SafetySheet:
    """Return what would happen. Raises Unfit, Refused, UnknownCheckpoint."""
    try:
        return history.safety_sheet(thread.pk, checkpoint_id, kind=kind, **wish.start)
    except _UNUSABLE as error:
        raise Refused(str(error)) from None


def stamp(sheet: SafetySheet) -> str:
    """Name what a sheet says: a form carries it, so that nothing is done but what its reader saw.

    What is hidden is left out: questions come and go, and are compared row by row when it counts.
    """
    said = [sheet.runs, sheet.asks, sheet.later, sheet.nodes, sheet.stands, sheet.fails, sheet.missing, sheet.known]
    return digest(said)


# ----------------------------------------------------------------------------------------------------------------- fork


def may_fork(user: Any, thread: Thread) -> bool:
    return thread.agent_id in names_for(user, Role.OPERATOR)


def fork(user: Any, thread: Thread, checkpoint_id: str, wish: Wish, *, seen: str, submit_token: str) -> str:
    """Copy a checkpoint into a new thread and return its id. Raises Refused, Changed, Unfit, UnknownCheckpoint."""
    _check(wish)
    if earlier := _forked_by(user, thread, submit_token):
        return earlier
    if stamp(sheet_of(thread, checkpoint_id, wish, kind="fork")) != seen:
        raise Changed
    with transaction.atomic():
        return _fork(user, thread, checkpoint_id, wish, submit_token=submit_token)


def _forked_by(user: Any, thread: Thread, submit_token: str) -> str | None:
    """Return the thread that this very form made before: a double click, a proxy's retry, the back button."""
    return history.forked_by(thread.pk, author=user.get_username(), submit_token=submit_token[:64])


def _fork(
    user: Any,
    thread: Thread,
    checkpoint_id: str,
    wish: Wish,
    *,
    submit_token: str,
    about: Interrupt | None = None,
) -> str:
    # Holds the thread, so that two sendings of one form come one after the other.
    Thread.objects.select_for_update(no_key=True).get(pk=thread.pk)
    if earlier := _forked_by(user, thread, submit_token):
        return earlier
    try:
        made = history.fork(
            thread.pk,
            checkpoint_id,
            author=user.get_username(),
            name=wish.name,
            note=wish.note,
            submit_token=submit_token[:64],
            **wish.start,
        )
    except _UNUSABLE as error:
        raise Refused(str(error)) from None
    run = Run.objects.filter(thread=made).values_list("pk", flat=True).first()
    facts: dict[str, Any] = {"to_thread": made} | ({"run": str(run)} if run else {})
    tasks.wake_on_commit(made)
    live.publish_on_commit("threads", f"thread-{thread.pk}", f"thread-{made}", agent=thread.agent_id)
    on = On(thread=thread, interrupt=about, checkpoint=checkpoint_id, facts=facts)
    _log(Kind.FORKED, user, thread, on=on, wish=wish)
    return made


# --------------------------------------------------------------------------------------------------------------- rewind


def open_questions(thread: Thread) -> list[Interrupt]:
    """Return what a rewind hides: everything that waits at the head."""
    return list(Interrupt.objects.filter(thread=thread).open().defer("value").order_by("pk"))


def rewind(
    user: Any, thread: Thread, checkpoint_id: str, wish: Wish, *, seen: str, hides: Sequence[int], submit_token: str
) -> str:
    """Let a thread go on from an earlier checkpoint, and return the run's id.

    ``hides``: the open questions that the person was told of. They are withdrawn with it; when one was decided or
    asked meanwhile, nothing is done: of a rewind and a decision exactly one wins, whoever holds the thread first.
    Raises as ``fork``.
    """
    _check(wish)
    if earlier := _rewound_by(user, thread, submit_token):
        return earlier
    if stamp(sheet_of(thread, checkpoint_id, wish, kind="rewind")) != seen:
        raise Changed
    with transaction.atomic():
        Thread.objects.select_for_update(no_key=True).get(pk=thread.pk)
        if earlier := _rewound_by(user, thread, submit_token):
            return earlier
        hidden = list(Interrupt.objects.filter(thread=thread).open().select_related("agent", "thread"))
        if {row.pk for row in hidden} != set(hides):
            raise Changed
        _check_rests(thread)
        return _rewind(user, thread, checkpoint_id, wish, hidden=hidden, submit_token=submit_token)


def _rewound_by(user: Any, thread: Thread, submit_token: str) -> str | None:
    mine = Run.objects.filter(thread=thread, author=user.get_username(), submit_token=submit_token[:64])
    first = mine.values_list("pk", flat=True).first() if submit_token else None
    return str(first) if first else None


def _check_rests(thread: Thread) -> None:
    active = Run.objects.filter(thread=thread, status__in=Run.ACTIVE)
    if active.filter(status=Run.Status.RUNNING).exists():
        raise Refused(f"{thread.agent.title} is at work. Wait until the run has ended, or stop it; then rewind.")
    if active.exclude(kind=Run.Kind.INPUT).exists():
        raise Refused("A decision or a replay is on its way already. Look again when it has arrived.")


def _rewind(
    user: Any, thread: Thread, checkpoint_id: str, wish: Wish, *, hidden: Sequence[Interrupt], submit_token: str
) -> str:
    try:
        run_id = history.rewind(
            thread.pk, checkpoint_id, author=user.get_username(), submit_token=submit_token[:64], **wish.start
        )
    except _UNUSABLE as error:
        raise Refused(str(error)) from None
    reason = f"Rewound by {name_of(user)} to an earlier step."
    for row in hidden:
        _withdraw(row, reason)
    names = [f"{kind}-{row.pk}" for row in hidden for kind in ("inbox", "interrupt")]
    tasks.wake_on_commit(thread.pk)
    live.publish_on_commit("threads", "inbox", f"thread-{thread.pk}", *names, agent=thread.agent_id)
    for row in hidden:
        told = {"run": run_id, "code": "rewound"}
        on = On(interrupt=row, before=Interrupt.Status.OPEN, after=Interrupt.Status.WITHDRAWN, facts=told)
        audit.append(Kind.WITHDRAWN, on=on, user=user, role=_role(user, thread))
    facts: dict[str, Any] = {"run": run_id, "count": len(hidden)}
    _log(Kind.REWOUND, user, thread, on=On(thread=thread, checkpoint=checkpoint_id, facts=facts), wish=wish)
    return run_id


def _withdraw(row: Interrupt, reason: str) -> None:
    """Take one question back. The thread is held, so that nobody can have decided it since it was read."""
    moved = Interrupt.objects.filter(pk=row.pk, status=Interrupt.Status.OPEN).update(
        status=Interrupt.Status.WITHDRAWN, withdrawn_at=Now(), withdrawn_reason=reason
    )
    if not moved:
        raise RuntimeError(f"Interrupt {row.pk} is not open any more, although its thread is locked.")


# ----------------------------------------------------------------------------------------------------------- correction


def may_correct(user: Any, row: Interrupt) -> bool:
    """Say whether somebody may fork before a rejected action: operators, and those who may decide it."""
    return row.agent_id in names_for(user, Role.OPERATOR, Role.REVIEWER)


def was_rejected(row: Interrupt) -> bool:
    return Decision.objects.filter(action__interrupt=row, verdict="reject").exists()


def correct(user: Any, row: Interrupt, *, message: str, name: str, submit_token: str) -> str:
    """Fork from before a rejected action was proposed, and tell the agent what instead. Returns the new thread's id.

    Raises Refused, Unfit, UnknownCheckpoint.
    """
    if not was_rejected(row):
        raise Refused("Nothing was rejected here, so there is nothing to correct.")
    if not message.strip():
        raise Refused(f"Tell {row.agent.title} what to do instead.")
    title = " ".join((name or message).split())[: LONGEST_NAME if name else NAME]
    wish = Wish(message=message, name=title, note=f"Instead of: {row.title}"[:LONGEST_NOTE])
    _check(wish)
    if earlier := _forked_by(user, row.thread, submit_token):
        return earlier
    with transaction.atomic():
        return _fork(user, row.thread, point_before(row), wish, submit_token=submit_token, about=row)


def point_before(row: Interrupt) -> str:
    """Return the checkpoint at which the agent had not yet proposed what a question asks about.

    That is the last one on the way back with fewer messages; where messages tell nothing, the question's own.
    Raises UnknownCheckpoint.
    """
    asked = history.step_at(Point(row.thread_id, row.checkpoint_id))
    step = asked
    for _ in range(MOST_BACK):
        if not step.parent_id or not asked.messages:
            break
        step = history.step_at(Point(row.thread_id, step.parent_id))
        if step.messages and step.messages < asked.messages:
            return step.point.checkpoint_id
    return row.checkpoint_id


# ---------------------------------------------------------------------------------------------------------------- parts


def _check(wish: Wish) -> None:
    for text, most, what in (
        (wish.message, LONGEST_MESSAGE, "message"),
        (wish.name, LONGEST_NAME, "name"),
        (wish.note, LONGEST_NOTE, "note"),
    ):
        if len(text) > most:
            raise Refused(f"This {what} has {len(text)} characters; {most} is the most.")
        if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
            raise Refused(f"This {what} holds signs that are no text (NUL, or half a character).")


def _role(user: Any, thread: Thread) -> str:
    return next(iter(roles_of(user, thread.agent_id)), "")


def _log(kind: Kind, user: Any, thread: Thread, *, on: On, wish: Wish) -> None:
    audit.append(kind, on=on, user=user, role=_role(user, thread), secrets=wish.secrets())


__all__ = [
    "Changed",
    "Refused",
    "Unfit",
    "UnknownCheckpoint",
    "Wish",
    "correct",
    "fork",
    "may_correct",
    "may_fork",
    "open_questions",
    "point_before",
    "rewind",
    "sheet_of",
    "stamp",
    "was_rejected",
]
