"""What an operator does to a thread: start it, write to it, order what waits, stop a run, repair. All is logged."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction

from agents import queue, runs
from agents.models import Run, Thread
from agents.queue import Lined, Message
from reviews import audit, intake, live, tasks
from reviews.audit import Kind, On
from reviews.chain import Fact
from reviews.models import Interrupt
from reviews.people import roles_of

LONGEST_MESSAGE = 100_000  # characters
TITLE = 80  # characters of the first message that name a thread
OVER = (Interrupt.Status.APPLIED, Interrupt.Status.WITHDRAWN)


class Refused(Exception):
    """Nothing was done; the message says why, for the person who asked. ``code``: that of the queue, "" for others."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@transaction.atomic
def start_thread(user: Any, agent_name: str, *, text: str, submit_token: str) -> str:
    """Create a thread with its first message and return its id; the same submit token gets the first thread again."""
    _check(text)
    first = Run.objects.filter(author=user.get_username(), submit_token=submit_token, kind=Run.Kind.INPUT).first()
    if submit_token and first is not None:
        return first.thread_id
    title = " ".join(text.split())[:TITLE]
    thread_id = runs.create_thread(agent_name, title=title, author=user.get_username())
    thread = Thread.objects.select_related("agent").get(pk=thread_id)
    _enqueue(user, thread, kind="input", payload={"text": text}, submit_token=submit_token)
    _log(Kind.THREAD_STARTED, user, thread)
    return thread_id


@transaction.atomic
def send_message(
    user: Any, thread: Thread, *, text: str, submit_token: str, strategy: str = "", follow_ups: Sequence[str] = ()
) -> str:
    """Line up a message, with those that are to follow it, and return its run's id.

    While a question is open it is held, not sent. ``strategy``: what it does to a run under way, the agent's own when
    none is given. Raises Refused.
    """
    return _send(user, thread, [Message(text, follow_ups)], submit_token=submit_token, strategy=strategy)


@transaction.atomic
def send_several(user: Any, thread: Thread, *, lines: str, submit_token: str, strategy: str = "") -> str:
    """Line up several messages, one a line, and return the first one's run id. Raises Refused: then none is."""
    texts = [line.strip() for line in lines.splitlines() if line.strip()]
    return _send(user, thread, [Message(text) for text in texts], submit_token=submit_token, strategy=strategy)


@transaction.atomic
def send_anyway(user: Any, thread: Thread, *, text: str, submit_token: str) -> str:
    """Withdraw the open questions of a thread, and let what waits go out, then this message. Returns its run's id.

    Each call that was asked about gets an error result. Raises Refused: where an answer is on its way, among others.
    """
    _check(text)
    withdraw = _open_ids(thread, otherwise="The message goes out after it, as it is.")
    lined = _lined(
        queue.send_anyway,
        thread.pk,
        text,
        author=user.get_username(),
        withdraw=withdraw,
        submit_token=submit_token[:64],
    )
    if not lined.again:
        reason = f"Withdrawn by {user.get_username()}, who sent a message instead."
        intake.withdraw_open(thread, reason=reason, user=user, role=_role(user, thread))
        _log(Kind.SENT_ANYWAY, user, thread, run=lined.run_ids[0], count=len(withdraw), secrets={"message": text})
        _tell(thread)
    return lined.run_ids[0]


@transaction.atomic
def end_unanswered(user: Any, thread: Thread, *, submit_token: str) -> str:
    """Withdraw the open questions of a thread and end the agent's turn, with no answer. Returns a run's id.

    Each open call gets an error result: that is another act than an answer, and than an empty one. Raises Refused.
    """
    withdraw = _open_ids(thread, otherwise="Nothing is left to end.")
    before = Run.objects.filter(thread=thread, author=user.get_username(), submit_token=submit_token[:64]).first()
    if submit_token and before is not None:
        return str(before.pk)
    try:
        run_id = queue.end_unanswered(
            thread.pk, author=user.get_username(), withdraw=withdraw, submit_token=submit_token[:64]
        )
    except queue.Refused as refusal:
        raise Refused(str(refusal), refusal.code) from refusal
    reason = f"Ended by {user.get_username()} without an answer."
    intake.withdraw_open(thread, reason=reason, user=user, role=_role(user, thread))
    _log(Kind.RUN_STOPPED, user, thread, run=run_id, code="unanswered", count=len(withdraw))
    _tell(thread)
    return run_id


def _open_ids(thread: Thread, *, otherwise: str) -> list[str]:
    """Lock a thread and its questions, and return the ids of the open ones. Raises Refused where one is decided."""
    # The order of locks is thread, interrupt, log.
    Thread.objects.select_for_update().get(pk=thread.pk)
    live_ones = Interrupt.objects.select_for_update().filter(thread=thread).exclude(status__in=OVER)
    if any(row.status == Interrupt.Status.DECIDED for row in live_ones):
        raise Refused(f"A decision is on its way. {otherwise}", "decided")
    return [row.interrupt_id for row in live_ones]


def _send(user: Any, thread: Thread, messages: Sequence[Message], *, submit_token: str, strategy: str) -> str:
    if not messages:
        raise Refused("A message needs some words.")
    for text in [one for message in messages for one in (message.text, *message.follow_ups)]:
        _check(text)
    lined = _lined(
        queue.send,
        thread.pk,
        messages,
        author=user.get_username(),
        submit_token=submit_token[:56],
        strategy=strategy if strategy in queue.STRATEGIES else "",
    )
    if not lined.again:
        if lined.stopped:
            _log(Kind.RUN_STOPPED, user, thread, run=lined.stopped, code=lined.strategy)
        texts = [one for message in messages for one in (message.text, *message.follow_ups)]
        for run_id, text in zip(lined.run_ids, texts, strict=True):
            _log(Kind.MESSAGE_SENT, user, thread, run=run_id, code=lined.strategy, secrets={"message": text})
        _tell(thread)
    return lined.run_ids[0]


def _lined(verb: Callable[..., Lined], *args: Any, **named: Any) -> Lined:
    try:
        return verb(*args, **named)
    except queue.Refused as refusal:
        raise Refused(str(refusal), refusal.code) from refusal


@transaction.atomic
def cancel_message(user: Any, thread: Thread, run_id: str) -> None:
    """Take a queued message back. Raises Refused when it has started, or is none of this thread."""
    own = Run.objects.filter(thread=thread, pk=run_id).exists()
    if not own or not runs.cancel(run_id, author=user.get_username()):
        raise Refused("This message cannot be taken back: it has been sent, or was taken back before.")
    _log(Kind.MESSAGE_CANCELLED, user, thread, run=run_id)
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)


@transaction.atomic
def clear_queue(user: Any, thread: Thread) -> int:
    """Take all waiting messages back. Returns how many; what has begun goes on."""
    run_ids = queue.clear(thread.pk, author=user.get_username())
    for run_id in run_ids:
        _log(Kind.MESSAGE_CANCELLED, user, thread, run=run_id)
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)
    return len(run_ids)


@transaction.atomic
def move_message(user: Any, thread: Thread, run_id: str, *, past: str) -> None:
    """Let a waiting message change places with its neighbour. Raises Refused when they are none any more."""
    if not (_is_id(run_id) and _is_id(past)) or not queue.move(thread.pk, run_id, past=past):
        raise Refused("The queue has changed meanwhile. Nothing was moved.")
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)


@transaction.atomic
def retry_run(user: Any, thread: Thread, run_id: str, *, submit_token: str) -> str:
    """Try again what failed: the steps that did not end, or, where nothing was stored, the message. Returns a run's id.

    Steps that ended keep their results. Raises Refused when the run did not fail, or others came after it.
    """
    Thread.objects.select_for_update().get(pk=thread.pk)
    run = thread.runs.filter(pk=run_id, status=Run.Status.ERROR).first() if _is_id(run_id) else None
    newer = thread.runs.exclude(pk=run_id).filter(finished_at__gt=run.finished_at) if run else thread.runs.none()
    if run is None or newer.exists():
        raise Refused("Only the run that failed last can be tried again.")
    if thread.runs.filter(status__in=Run.ACTIVE).exclude(kind=Run.Kind.INPUT).exists():
        raise Refused("It is being tried again already.")
    began = runs.has_landed(str(run.pk))
    kind, payload = (Run.Kind.REPLAY, {"retry": True}) if began or run.kind != "input" else (run.kind, run.payload)
    new_id = _enqueue(user, thread, kind=kind, payload=payload, submit_token=submit_token)
    _log(Kind.REPLAYED, user, thread, run=new_id, code="retry")
    return new_id


@transaction.atomic
def look_again(user: Any, thread: Thread, *, submit_token: str) -> str:
    """Let a worker read the head of a thread and file what it finds; nothing runs. Returns the run's id.

    The repair of a question that was lost, or that is shown although the agent has gone on.
    """
    run_id = _enqueue(user, thread, kind=Run.Kind.REPLAY, payload={"look": True}, submit_token=submit_token)
    _log(Kind.REPLAYED, user, thread, run=run_id, code="look")
    return run_id


@transaction.atomic
def go_on(user: Any, thread: Thread, *, submit_token: str) -> str:
    """Let the agent go on from its head, as after a stop: what was approved runs. Returns the run's id.

    Raises Refused while something else is under way.
    """
    Thread.objects.select_for_update().get(pk=thread.pk)
    if thread.runs.filter(status__in=Run.ACTIVE).exclude(kind=Run.Kind.INPUT).exists():
        raise Refused("Something is under way already.")
    run_id = _enqueue(user, thread, kind=Run.Kind.REPLAY, payload={"retry": True}, submit_token=submit_token)
    _log(Kind.REPLAYED, user, thread, run=run_id, code="go on")
    return run_id


@transaction.atomic
def replay_head(user: Any, thread: Thread, *, submit_token: str) -> None:
    """Run the head of a stuck thread again, so that it asks afresh. Raises Refused."""
    if not Thread.objects.select_for_update().filter(pk=thread.pk, stuck=True).exists():
        raise Refused("This thread is not stuck, so there is nothing to replay.")
    if Run.objects.filter(thread=thread, kind=Run.Kind.REPLAY, status__in=Run.ACTIVE).exists():
        raise Refused("Its head is being replayed already.")
    run_id = _enqueue(user, thread, kind="replay", payload=None, submit_token=submit_token)
    _log(Kind.REPLAYED, user, thread, run=run_id)


@transaction.atomic
def stop_run(user: Any, thread: Thread, run_id: str, *, now: bool) -> str:
    """Ask the worker of a run to stop, before its next step or in the middle of it. Returns in words what to expect.

    Raises Refused when the run does not run. The worker hears of it within a second.
    """
    how = "cancel" if now else "drain"
    own = _is_id(run_id) and Run.objects.filter(thread=thread, pk=run_id).exists()
    if not own or not runs.request_stop(run_id, how):
        raise Refused("There is nothing to stop: this run has ended, or has not begun.")
    _log(Kind.RUN_STOPPED, user, thread, run=run_id, code=how)
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)
    if not now:
        return "It stops before its next step. What it has begun is finished first."
    if tools := runs.tools_under_way(run_id):
        return (
            f"{', '.join(tools)} has begun. If it cannot be ended in the middle, the run is cancelled when it returns,"
            " and nothing else begins on this thread before that."
        )
    return "It is ended now."


def _check(text: str) -> None:
    if not text.strip():
        raise Refused("A message needs some words.")
    if len(text) > LONGEST_MESSAGE:
        raise Refused(f"This message has {len(text)} characters; {LONGEST_MESSAGE} is the most.")
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise Refused("This message holds signs that are no text (NUL, or half a character).")


def _enqueue(user: Any, thread: Thread, *, kind: str, payload: Any, submit_token: str) -> str:
    run_id = runs.enqueue(
        thread.pk, kind=kind, payload=payload, author=user.get_username(), submit_token=submit_token[:64]
    )
    _tell(thread)
    return run_id


def _tell(thread: Thread) -> None:
    tasks.wake_on_commit(thread.pk)
    live.publish_on_commit("threads", f"thread-{thread.pk}", agent=thread.agent_id)


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _role(user: Any, thread: Thread) -> str:
    return next(iter(roles_of(user, thread.agent_id)), "")


def _log(kind: Kind, user: Any, thread: Thread, *, secrets: dict[str, Any] | None = None, **facts: Fact) -> None:
    on = On(thread=thread, facts=facts)
    audit.append(kind, on=on, user=user, role=_role(user, thread), secrets=secrets)
