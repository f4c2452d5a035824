"""Start again from a checkpoint: in a new thread (a fork), or in the same one (a rewind). What happened stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from agents import copies, registry, runs, starts, values
from agents.models import Run, Thread
from agents.starts import GraphChanged, Start, updates_of
from agents.values import Point, Stored


def fork(
    thread_id: str,
    checkpoint_id: str = "",
    *,
    author: str,
    name: str = "",
    note: str = "",
    values: Mapping[str, Any] | None = None,
    as_node: str = "",
    message: str = "",
    go_on: bool = True,
    submit_token: str = "",
) -> str:
    """Copy a checkpoint (the last committed one when none is named) into a new thread. Returns the new thread's id.

    With ``go_on`` the fork's first run is lined up: it goes on from there, after the edit or the message. Without,
    only rows are copied. One transaction; joins the caller's. The same submit token gives the first fork again.
    Raises UnknownThread, UnknownCheckpoint, Unfit, GraphChanged, NeedsCode; UnknownAgent or UnusableAgent where the
    fork should go on and its agent cannot.
    """
    with transaction.atomic():
        source = _thread(thread_id, lock=bool(submit_token))  # a fork that is sent twice waits for the first
        if submit_token and (first := forked_by(thread_id, author=author, submit_token=submit_token)):
            return first
        stored = _stored(thread_id, checkpoint_id)
        start = Start(values or {}, as_node, message)
        goes_on = go_on and (start.changes or bool(stored.next))
        if goes_on:
            _check(source, stored, start)
        target = _copy(source, stored.point, author=author, name=name, note=note, submit_token=submit_token)
        if goes_on:
            _enqueue(target, start.payload(), author=author, like=stored, submit_token=submit_token)
    return target


def rewind(
    thread_id: str,
    checkpoint_id: str,
    *,
    author: str,
    values: Mapping[str, Any] | None = None,
    as_node: str = "",
    message: str = "",
    submit_token: str = "",
) -> str:
    """Line up a run that goes on from an earlier checkpoint of the same thread, as a branch. Returns the run's id.

    It goes before waiting messages. What the head asks then is gone: the desk withdraws it when the run ends.
    Joins the caller's transaction. Raises what :func:`fork` raises.
    """
    with transaction.atomic():
        thread = _thread(thread_id)
        stored = _stored(thread_id, checkpoint_id)
        start = Start(values or {}, as_node, message)
        _check(thread, stored, start)
        payload = start.payload(stored.point.checkpoint_id)
        return _enqueue(thread_id, payload, author=author, like=stored, submit_token=submit_token)


def replay_head(thread_id: str, *, author: str, submit_token: str = "") -> str:
    """Line up a run that takes a thread's last step again and asks afresh. Returns the run's id. Raises as fork."""
    with transaction.atomic():
        thread = _thread(thread_id)
        stored = _stored(thread_id, "")
        _check(thread, stored, Start())
        return _enqueue(thread_id, {}, author=author, like=stored, submit_token=submit_token)


def forked_by(thread_id: str, *, author: str, submit_token: str) -> str | None:
    """Return the fork that a submit of this token has made already, whether anything runs in it or not."""
    earlier = Thread.objects.filter(ancestor_id=thread_id, author=author, fork_token=submit_token)
    return earlier.values_list("pk", flat=True).first() if submit_token else None


def check(thread_id: str, checkpoint_id: str, start: Start) -> None:
    """Raise what :func:`fork` would for this start, and write nothing."""
    _check(_thread(thread_id), _stored(thread_id, checkpoint_id), start)


def state_schema(thread_id: str) -> dict[str, Any]:
    """Return a JSON Schema of the values of a thread's agent that an edit may set.

    Raises UnknownThread, UnknownAgent, UnusableAgent.
    """
    return starts.state_schema(registry.get(_thread(thread_id).agent_id).graph)


# ---------------------------------------------------------------------------------------------------------------- parts


def _thread(thread_id: str, *, lock: bool = False) -> Thread:
    threads = Thread.objects.select_for_update() if lock else Thread.objects.all()
    thread = threads.filter(pk=thread_id).first()
    if thread is None:
        raise runs.UnknownThread(f"There is no thread {thread_id}.")
    return thread


def _stored(thread_id: str, checkpoint_id: str) -> Stored:
    return values.read(Point(thread_id, checkpoint_id or values.head_of(thread_id)))


def _check(thread: Thread, stored: Stored, start: Start) -> None:
    graph = registry.get(thread.agent_id).graph
    updates_of(graph, stored, start)
    if stored.missing and not start.changes:
        raise GraphChanged(stored.missing)


def _copy(source: Thread, point: Point, *, author: str, name: str, note: str, submit_token: str) -> str:
    graph = values.graph_of(source.pk)
    copied = copies.copies_of(point, graph)
    title = name.strip() or f"Fork of {source.title}".strip()
    target = Thread.objects.create(
        agent_id=source.agent_id,
        title=title[:200],
        note=note,
        author=author,
        fork_token=submit_token,
        ancestor=source,
        ancestor_checkpoint=point.checkpoint_id,
        head=copied[-1].checkpoint["id"],
        created_at=Now(),
    )
    saver = copies.saver_of(graph)
    for copy in copied:
        copies.put(copy, saver, thread_id=target.pk)
    return target.pk


def _enqueue(thread_id: str, payload: dict[str, Any], *, author: str, like: Stored, submit_token: str) -> str:
    return runs.enqueue(
        thread_id,
        kind=Run.Kind.REPLAY,
        payload=payload,
        author=author,
        submit_token=submit_token,
        context=_context(like.point),
    )


def _context(point: Point) -> Any:
    """Return the context that the graph ran with: LangGraph does not keep it."""
    latest = Run.objects.filter(thread_id=point.thread_id, context__isnull=False).order_by("-position")
    return latest.values_list("context", flat=True).first()
