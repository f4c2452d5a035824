"""Names that people give to checkpoints, so that others find them again."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import OuterRef, Subquery

from agents.compiled import Compiled
from agents.models import Checkpoint, Thread
from reviews import live
from reviews.models import Label, Role, names_for

LONGEST = 80  # characters of a name
LONGEST_NOTE = 2_000
MOST = 20  # labels of one checkpoint


class Refused(Exception):
    """Nothing was kept; the message says why, for the person who asked."""


def may_label(user: Any, thread: Thread) -> bool:
    """Say whether somebody acts on this thread: auditors only read."""
    return thread.agent_id in names_for(user, Role.REVIEWER, Role.OPERATOR)


_POINTS = Checkpoint.objects.filter(thread=OuterRef("thread"), ns="", checkpoint_id=OuterRef("checkpoint_id"))
_OF = Compiled(
    lambda thread: (
        Label.objects.filter(thread=thread)
        .select_related("author")
        .order_by(Subquery(_POINTS.values("pk")).desc(nulls_last=True), "pk")
    )
)


def of(thread: Thread) -> list[Label]:
    """Return a thread's labels with their authors, those of its newest checkpoints first."""
    return _OF(thread.pk)


def add(user: Any, thread: Thread, checkpoint_id: str, *, name: str, note: str) -> Label:
    """Give a checkpoint a name. Raises PermissionDenied, Refused."""
    if not may_label(user, thread):
        raise PermissionDenied("You may see this thread, but not act on it.")
    kept, words = " ".join(name.split()), note.strip()
    _check(kept, words)
    if Label.objects.filter(thread=thread, checkpoint_id=checkpoint_id).count() >= MOST:
        raise Refused(f"This checkpoint has {MOST} labels, the most it can have.")
    try:
        with transaction.atomic():
            label = Label.objects.create(thread=thread, checkpoint_id=checkpoint_id, name=kept, note=words, author=user)
    except IntegrityError:
        raise Refused(f"This checkpoint is called {kept} already.") from None
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)
    return label


def _check(name: str, note: str) -> None:
    if not name:
        raise Refused("A label needs a name.")
    if len(name) > LONGEST or len(note) > LONGEST_NOTE:
        raise Refused(f"A name has at most {LONGEST} characters, a note {LONGEST_NOTE}.")
    if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in name + note):
        raise Refused("This holds signs that are no text (NUL, or half a character).")


def remove(user: Any, label: Label) -> None:
    """Take a label away: its author's, or anybody's for operators. Raises PermissionDenied."""
    operates = label.thread.agent_id in names_for(user, Role.OPERATOR)
    if not operates and not (label.author_id == user.pk and may_label(user, label.thread)):
        raise PermissionDenied("Only its author or an operator takes a label away.")
    agent = label.thread.agent_id
    thread_id = label.thread_id
    label.delete()
    live.publish_on_commit(f"thread-{thread_id}", agent=agent)
