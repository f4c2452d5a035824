"""What waits on a thread: messages are lined up by LangGraph's multitask strategies, taken back, and put into order.

| strategy | while a run is under way |
|---|---|
| ``enqueue`` | the message waits its turn |
| ``reject`` | it is refused |
| ``interrupt`` | the run stops before its next step and keeps what it did; the message goes next |
| ``rollback`` | the run is ended now and what it stored is deleted; the message goes next |

A rollback is refused when the run ran a tool that cannot be taken back, or acts on a decision. Every verb changes
rows by comparing, in one transaction, with the thread locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min
from django.db.models.functions import Now

from agents import runs
from agents.models import Run, Thread

STRATEGIES = ("enqueue", "reject", "interrupt", "rollback")
WARN_ABOVE = 10  # waiting messages: more than people keep in mind


class Refused(Exception):
    """Nothing was lined up, and the message says why. ``code``: full, busy, rollback, not asked, decided, no tools."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Message:
    """What somebody sends, and what is to follow it as soon as its run exists."""

    text: str
    follow_ups: Sequence[str] = ()


@dataclass(frozen=True)
class Lined:
    """``run_ids``: of the messages and their follow-ups, in order. ``place`` of the first among ``waiting`` ones.

    ``stopped``: the run that was asked to stop for it. ``again``: it had been lined up before by the same submit.
    """

    run_ids: tuple[str, ...]
    place: int
    waiting: int
    strategy: str
    stopped: str = ""
    again: bool = False


def waiting(thread_id: str) -> Any:
    """Return the messages that wait on a thread, in the order in which they go out."""
    return runs.queue(thread_id).filter(kind=Run.Kind.INPUT)


@transaction.atomic
def send(
    thread_id: str,
    messages: Sequence[Message],
    *,
    author: str,
    submit_token: str = "",
    strategy: str = "",
    context: Any = None,
) -> Lined:
    """Line up one message or several. The same submit token lines up nothing twice. Raises Refused, UnknownThread."""
    thread = _locked(thread_id)
    chosen = strategy or thread.agent.multitask
    if chosen not in STRATEGIES:
        raise ValueError(f"There is no strategy {chosen!r}.")
    if submit_token and (before := _sent_before(thread, author, submit_token)):
        return _lined(thread, before, chosen, again=True)
    _check_room(thread, sum(1 + len(message.follow_ups) for message in messages))
    stopped = _make_way(thread, chosen, author=author)
    run_ids = _line_up(thread, messages, author=author, submit_token=submit_token, front=bool(stopped), context=context)
    return _lined(thread, run_ids, chosen, stopped=stopped)


@transaction.atomic
def send_anyway(thread_id: str, text: str, *, author: str, withdraw: Sequence[str], submit_token: str = "") -> Lined:
    """Line up a message although questions are open: first a replay that withdraws these, then what waits, then this.

    ``withdraw``: LangGraph's ids of the open questions. The replay leaves no call without a result. Raises Refused.
    """
    thread = _locked(thread_id)
    if submit_token and (before := _sent_before(thread, author, submit_token)):
        return _lined(thread, before, "enqueue", again=True)
    _check_withdrawal(thread)
    _check_room(thread, 1)
    start = {"withdraw": list(withdraw)}
    runs.enqueue(thread_id, kind=Run.Kind.REPLAY, payload=start, author=author)
    run_ids = _line_up(thread, [Message(text)], author=author, submit_token=submit_token, front=False, context=None)
    return _lined(thread, run_ids, "enqueue")


@transaction.atomic
def end_unanswered(thread_id: str, *, author: str, withdraw: Sequence[str], submit_token: str = "") -> str:
    """Line up a replay that withdraws the open questions and ends the turn; what waits goes out after it.

    Each open call gets an error result. Returns the run's id, the first one's for a token seen before. Raises Refused.
    """
    thread = _locked(thread_id)
    if submit_token and (before := _sent_before(thread, author, submit_token)):
        return before[0]
    _check_withdrawal(thread)
    start = {"withdraw": list(withdraw), "unanswered": True}
    return runs.enqueue(thread_id, kind=Run.Kind.REPLAY, payload=start, author=author, submit_token=submit_token)


def _check_withdrawal(thread: Thread) -> None:
    if not thread.waits:
        raise Refused("not asked", "No question is open, so there is nothing to withdraw.")
    if not thread.agent.tools_node:
        raise Refused("no tools", "This agent has no tools node, so its open calls cannot be given a result.")
    if Run.objects.filter(thread=thread, status__in=Run.ACTIVE).exclude(kind=Run.Kind.INPUT).exists():
        raise Refused("decided", "An answer, or another change of this thread, is on its way. Wait until it is done.")


def _locked(thread_id: str) -> Thread:
    """Lock a thread until the transaction ends, and return it as it is now."""
    if not Thread.objects.filter(pk=thread_id).update(updated_at=Now()):
        raise runs.UnknownThread(f"There is no thread {thread_id}.")
    return Thread.objects.select_related("agent").get(pk=thread_id)


def _check_room(thread: Thread, more: int) -> None:
    now = waiting(thread.pk).count()
    if now + more > settings.QUEUE_LIMIT:
        raise Refused("full", f"{now} messages wait on this thread already, and {settings.QUEUE_LIMIT} is the most.")


def _make_way(thread: Thread, strategy: str, *, author: str) -> str:
    """Do to the run under way what the strategy asks for. Returns the id of the run that is to stop, "" for none."""
    active = Run.objects.filter(thread=thread, status__in=Run.ACTIVE)
    if strategy == "reject" and (thread.waits or active.exists()):
        raise Refused("busy", "The agent is at work or waits for people, and takes no message before it is done.")
    running = active.filter(status=Run.Status.RUNNING).first()
    if strategy not in ("interrupt", "rollback") or running is None:
        return ""
    run_id = str(running.pk)
    if strategy == "rollback":
        if reason := runs.why_no_rollback(run_id):
            raise Refused("rollback", f"The run cannot be rolled back: {reason}")
        runs.enqueue(thread.pk, kind=Run.Kind.REPLAY, payload={"rollback": run_id}, author=author)
    runs.request_stop(run_id, "cancel" if strategy == "rollback" else "drain")
    return run_id


# --------------------------------------------------------------------------------------------------------------- rows


def _line_up(
    thread: Thread, messages: Sequence[Message], *, author: str, submit_token: str, front: bool, context: Any
) -> list[str]:
    texts = [(message.text, at == 0) for message in messages for at, message in enumerate(_chain(message))]
    position = _front(thread, len(texts)) if front else None
    run_ids: list[str] = []
    first = ""
    for number, (text, leads) in enumerate(texts):
        run_id = runs.enqueue(
            thread.pk,
            kind=Run.Kind.INPUT,
            payload={"text": text},
            author=author,
            submit_token=_token(submit_token, number),
            context=context,
            position=None if position is None else position + number,
            follows=None if leads else first,
        )
        first = run_id if leads else first
        run_ids.append(run_id)
    return run_ids


def _chain(message: Message) -> list[Message]:
    return [message, *(Message(text) for text in message.follow_ups)]


def _front(thread: Thread, count: int) -> int:
    """Return the first of ``count`` positions before everything that waits."""
    least = waiting(thread.pk).aggregate(least=Min("position"))["least"]
    return (1 if least is None else least) - count


def _token(submit_token: str, number: int) -> str:
    """Name each message of a submit: the first by its token, so that one message is what it was before."""
    return f"{submit_token[:56]}:{number}" if submit_token and number else submit_token


def _sent_before(thread: Thread, author: str, submit_token: str) -> list[str]:
    own = Run.objects.filter(thread=thread, author=author)
    first = own.filter(submit_token=submit_token).first()
    if first is None:
        return []
    others = own.filter(submit_token__startswith=f"{submit_token[:56]}:").order_by("position")
    return [str(first.pk), *(str(pk) for pk in others.values_list("pk", flat=True))]


def _lined(thread: Thread, run_ids: Sequence[str], strategy: str, *, stopped: str = "", again: bool = False) -> Lined:
    order = [str(pk) for pk in waiting(thread.pk).values_list("pk", flat=True)]
    place = order.index(run_ids[0]) + 1 if run_ids[0] in order else 0
    return Lined(tuple(run_ids), place, len(order), strategy, stopped, again)


# -------------------------------------------------------------------------------------------------- take back, move


@transaction.atomic
def clear(thread_id: str, *, author: str) -> list[str]:
    """Take every waiting message back. Returns their runs, in order; what has begun goes on."""
    _locked(thread_id)
    run_ids = [str(pk) for pk in waiting(thread_id).values_list("pk", flat=True)]
    return [run_id for run_id in run_ids if runs.cancel(run_id, author=author)]


@transaction.atomic
def move(thread_id: str, run_id: str, *, past: str) -> bool:
    """Let a waiting message and its neighbour ``past`` change places.

    False when they are no neighbours any more: one has begun, was taken back, or somebody else has moved it.
    """
    _locked(thread_id)
    order = [(str(pk), position) for pk, position in waiting(thread_id).values_list("pk", "position")]
    places = {pk: at for at, (pk, _) in enumerate(order)}
    if run_id not in places or past not in places or abs(places[run_id] - places[past]) != 1:
        return False
    mine, other = order[places[run_id]][1], order[places[past]][1]
    pending = Run.objects.filter(thread_id=thread_id, status=Run.Status.PENDING)
    moved = pending.filter(pk=run_id, position=mine).update(position=other)
    moved += pending.filter(pk=past, position=other).update(position=mine)
    if moved != 2:
        raise RuntimeError(f"The queue of {thread_id} changed although its thread is locked.")
    return True
