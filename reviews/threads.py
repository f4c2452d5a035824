"""What an operator does to a thread: start it, write to it, take a message back, replay a stuck head. All is logged."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents import runs
from agents.models import Run, Thread
from reviews import audit, live, tasks
from reviews.audit import Kind, On
from reviews.chain import Fact
from reviews.people import roles_of

LONGEST_MESSAGE = 100_000  # characters
TITLE = 80  # characters of the first message that name a thread


class Refused(Exception):
    """Nothing was done; the message says why, for the person who asked."""


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
def send_message(user: Any, thread: Thread, *, text: str, submit_token: str) -> str:
    """Line up a message and return its run's id. While a question is open it is held, not sent."""
    _check(text)
    before = Run.objects.filter(thread=thread, author=user.get_username(), submit_token=submit_token)
    if submit_token and (first := before.first()):
        return str(first.pk)
    run_id = _enqueue(user, thread, kind="input", payload={"text": text}, submit_token=submit_token)
    _log(Kind.MESSAGE_SENT, user, thread, run=run_id, secrets={"message": text})
    return run_id


@transaction.atomic
def cancel_message(user: Any, thread: Thread, run_id: str) -> None:
    """Take a queued message back. Raises Refused when it has started, or is none of this thread."""
    own = Run.objects.filter(thread=thread, pk=run_id).exists()
    if not own or not runs.cancel(run_id, author=user.get_username()):
        raise Refused("This message cannot be taken back: it has been sent, or was taken back before.")
    _log(Kind.MESSAGE_CANCELLED, user, thread, run=run_id)
    live.publish_on_commit(f"thread-{thread.pk}", agent=thread.agent_id)


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
    own = Run.objects.filter(thread=thread, pk=run_id).exists()
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
    tasks.wake_on_commit(thread.pk)
    live.publish_on_commit("threads", f"thread-{thread.pk}", agent=thread.agent_id)
    return run_id


def _log(kind: Kind, user: Any, thread: Thread, *, secrets: dict[str, Any] | None = None, **facts: Fact) -> None:
    role = next(iter(roles_of(user, thread.agent_id)), "")
    audit.append(kind, on=On(thread=thread, facts=facts), user=user, role=role, secrets=secrets)
