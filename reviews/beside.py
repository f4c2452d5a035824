"""Two branches or forks side by side, from the last checkpoint that both come from: what was said, called, decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from agents import history
from agents.history import Point
from agents.models import Thread, ToolExecution
from agents.outcome import MessageView
from reviews import comparing, talk
from reviews.models import Interrupt
from reviews.talk import Said
from reviews.timeline import Mark, mark_of, newest_versions, with_decisions


@dataclass(frozen=True)
class Side:
    """One of the two. ``calls``: (tool, how often, how often it failed); ``questions``: with what became of them."""

    point: Point
    thread: Thread
    step: int | None
    is_head: bool
    talk: list[Said]
    calls: tuple[tuple[str, int, int], ...]
    questions: tuple[tuple[Interrupt, Mark], ...]

    @property
    def ended(self) -> str:
        """Say how it stands: the thread's status, or that it was left."""
        return self.thread.status if self.is_head else "left"

    @property
    def last(self) -> Said | None:
        return next((said for said in reversed(self.talk) if said.voice == "agent" and said.text), None)


@dataclass(frozen=True)
class Beside:
    """``ancestor`` is None for threads that have nothing in common; ``shared``: messages that both begin with."""

    ancestor: Point | None
    shared: int
    sides: tuple[Side, Side]


def beside(a: Point, b: Point) -> Beside:
    """Raises UnknownCheckpoint."""
    ancestor = history.common_ancestor(a, b)
    spoken = tuple(history.conversation_at(one.thread_id, one.checkpoint_id) for one in (a, b))
    shared = comparing.shared(*spoken)
    left, right = (_side(point, said[shared:], ancestor) for point, said in zip((a, b), spoken, strict=True))
    return Beside(ancestor, shared, (left, right))


def _side(point: Point, said: Sequence[MessageView], ancestor: Point | None) -> Side:
    thread = Thread.objects.select_related("agent").get(pk=point.thread_id)
    step = history.step_at(point)
    ways = list(_ways(point, ancestor))
    asked = with_decisions(list(newest_versions().filter(_within(ways))))
    return Side(
        point=point,
        thread=thread,
        step=step.step,
        is_head=step.is_head,
        talk=talk.read(thread, said),
        calls=tuple(_calls(ways)),
        questions=tuple((row, mark_of(row)) for row in asked),
    )


def _ways(point: Point, ancestor: Point | None) -> Iterator[Q]:
    """Yield what lies on the way back to the ancestor, whose own next step belongs to it. Where a later thread or
    branch took off, the way leaves the older one before that one's next step: this belongs to the older one alone.
    """
    met = history.order_of(ancestor) if ancestor else None
    with_last = True
    for stretch in history.descent(point):
        is_met = met is not None and ancestor is not None and stretch.holds(ancestor.thread_id, met)
        ids = stretch.checkpoint_ids(since=met if is_met else None, with_last=with_last)
        yield Q(thread=stretch.thread_id, checkpoint_id__in=ids)
        if is_met:
            return
        with_last = False


def _within(ways: Sequence[Q]) -> Q:
    # Subgraphs write between the steps that they run in, so theirs are among a stretch's.
    found = Q(pk__in=[])
    for way in ways:
        found |= way
    return found


def _calls(ways: Sequence[Q]) -> Iterator[tuple[str, int, int]]:
    rows: Any = ToolExecution.objects.filter(_within(ways), calls__gt=0)
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for name, status in rows.order_by("started_at", "pk").values_list("name", "status"):
        ran[name] += 1
        failed[name] += status == ToolExecution.Status.FAILED
    yield from ((name, times, failed[name]) for name, times in ran.items())


def other_than(thread: Thread) -> Point | None:
    """Return what to put beside a thread's head when nobody said: what it was forked from, its newest fork, or the
    branch that was left last."""
    tree = history.tree(thread.pk, limit=2)
    if tree.origin:
        return _head(tree.origin.thread_id)
    newest = Thread.objects.filter(ancestor=thread).order_by("-created_at").values_list("pk", flat=True).first()
    if newest:
        return _head(newest)
    left = [branch for branch in tree.branches if not branch.is_head]
    return Point(thread.pk, left[0].last) if left else None


def _head(thread_id: str) -> Point | None:
    steps = history.timeline(thread_id, limit=1).steps
    return steps[0].point if steps else None
