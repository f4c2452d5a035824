"""One checkpoint as it stood: its conversation, its other values, what it waited for and what would run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.pregel._task_status import read_task_statuses
from xxhash import xxh3_128_hexdigest

from agents import stored as rows
from agents import values
from agents.conversation import views
from agents.head import messages_of
from agents.marks import NODES, outer_namespace
from agents.models import Checkpoint, CheckpointWrite
from agents.outcome import Asked, Snapshot
from agents.values import Point, Stored, is_internal, shown_bytes

_PULLED, _PUSHED = "~__pregel_pull, ", "~__pregel_push, "


def state_at(thread_id: str, checkpoint_id: str = "", namespace: str = "") -> Snapshot:
    """Return a checkpoint as it stood, the newest when none is named. Raises UnknownCheckpoint.

    Needs no graph, but for DeltaChannels (else ``unread`` names them). What is no plain data is shown as data.
    """
    stored = values.read(Point(thread_id, checkpoint_id or values.head_of(thread_id, namespace), namespace))
    row = Checkpoint.objects.defer("blob", "spans").get(
        thread_id=thread_id, ns=namespace, checkpoint_id=stored.point.checkpoint_id
    )
    others = {name: value for name, value in stored.values.items() if name != "messages" and not is_internal(name)}
    metadata: Mapping[str, Any] = stored.saved.metadata
    return Snapshot(
        thread_id=thread_id,
        checkpoint_id=row.checkpoint_id,
        messages=views(messages_of(stored.values)),
        values=shown_bytes(others),
        next=stored.next,
        namespace=namespace,
        parent_id=row.parent_id,
        run_id=row.run_id,
        step=metadata.get("step"),
        source=str(metadata.get("source", "")),
        at=row.created_at,
        asked=asked_at(stored),
        metadata=shown_bytes(metadata),
        is_head=_is_head(stored.point),
        missing=stored.missing,
        unread=stored.unread,
    )


def raw_state(thread_id: str, checkpoint_id: str, namespace: str = "") -> bytes:
    """Return everything that is stored of a checkpoint, as canonical JSON: for a download. Raises UnknownCheckpoint."""
    stored = values.read(Point(thread_id, checkpoint_id, namespace))
    writes = [
        {"task": task_id, "channel": channel, "value": value}
        for task_id, channel, value in stored.saved.pending_writes or []
    ]
    checkpoint = {**stored.saved.checkpoint, "channel_values": stored.values}
    return shown_bytes({"checkpoint": checkpoint, "metadata": stored.saved.metadata, "writes": writes})


def _is_head(point: Point) -> bool:
    return rows.head(point.thread_id, point.namespace) == point.checkpoint_id


# ------------------------------------------------------------------------------------------------------------ questions


def asked_at(stored: Stored) -> tuple[Asked, ...]:
    """Return the questions that were raised at a checkpoint, and what became of them."""
    nodes = _nodes(stored)
    live = _is_live(stored.point)
    answers = _answers(stored.saved.pending_writes or [])
    around = f"{stored.point.namespace}{NODES}" if stored.point.namespace else ""
    found: list[Asked] = []
    for task_id, status in read_task_statuses(stored.saved.pending_writes or []).items():
        node = nodes.get(task_id, "")
        inner = _asked_inside(stored.point, f"{around}{node}:{task_id}") if status.interrupts and node else {}
        for one in status.interrupts:
            if deeper := inner.get(one.id):
                found.append(replace(deeper, state="answered") if status.finished else deeper)
                continue
            given = answers.get(task_id, [])
            answered = status.finished or one.id in slots(f"{around}{node}:{task_id}", len(given))
            found.append(
                Asked(
                    interrupt_id=one.id,
                    namespace=stored.point.namespace,
                    task_id=task_id,
                    node=node,
                    value=shown_bytes(one.value),
                    state="answered" if answered else "open" if live and status.error is None else "ignored",
                    answers=tuple(shown_bytes(answer) for answer in given),
                )
            )
    return tuple(sorted(found, key=lambda one: (one.node, one.interrupt_id)))


def slots(task: str, given: int) -> set[str]:
    """Return the ids of the questions that a task's first answers were given to, as LangGraph names them."""
    return {xxh3_128_hexdigest((f"{task}{NODES}{slot}" if slot else task).encode()) for slot in range(given)}


def _answers(writes: Sequence[Any]) -> dict[str, list[Any]]:
    given = {task_id: value for task_id, channel, value in writes if channel == "__resume__"}
    return {task_id: list(value) if isinstance(value, list | tuple) else [value] for task_id, value in given.items()}


def _nodes(stored: Stored) -> dict[str, str]:
    """Map the tasks that wrote something at a checkpoint to their nodes."""
    sends = stored.saved.checkpoint["channel_values"].get("__pregel_tasks") or ()
    point = stored.point
    rows = CheckpointWrite.objects.filter(
        thread_id=point.thread_id, ns=point.namespace, checkpoint_id=point.checkpoint_id
    )
    return {
        task_id: node_of(path, [getattr(send, "node", "") for send in sends])
        for task_id, path in rows.values_list("task_id", "task_path").distinct()
    }


def node_of(task_path: str, sends: Sequence[str]) -> str:
    """Return the name of the node that a task ran. ``sends``: nodes of the checkpoint's sends, in order."""
    if task_path.startswith(_PULLED):
        return task_path.removeprefix(_PULLED)
    if task_path.startswith(_PUSHED):
        number = task_path.removeprefix(_PUSHED).partition(",")[0]
        return sends[int(number)] if number.isdigit() and int(number) < len(sends) else ""
    return ""


def _asked_inside(point: Point, task: str) -> dict[str, Asked]:
    """Return, by id, what was asked in the graphs that a task ran: there stands who really asked."""
    inside = Checkpoint.objects.filter(thread_id=point.thread_id, outer_id=point.checkpoint_id).exclude(outer_id="")
    namespaces = inside.values_list("ns", flat=True).distinct()
    # A task that calls several graphs numbers the namespaces of all but the first.
    mine = [ns for ns in namespaces if ns == task or ns.startswith(f"{task}{NODES}")]
    raised = CheckpointWrite.objects.filter(thread_id=point.thread_id, ns__in=mine, channel="__interrupt__")
    points = [Point(point.thread_id, *key) for key in raised.values_list("checkpoint_id", "ns").distinct()]
    return {one.interrupt_id: one for inner in points for one in asked_at(values.read(inner))}


def _is_live(point: Point) -> bool:
    """Tell whether a checkpoint is where its thread stands: the newest, in each of the namespaces around it too."""
    return all(_is_head(one) for one in _outwards(point))


def _outwards(point: Point) -> Iterator[Point]:
    yield point
    while point.namespace:
        ids = Checkpoint.objects.filter(
            thread_id=point.thread_id, ns=point.namespace, checkpoint_id=point.checkpoint_id
        ).values_list("outer_id", flat=True)
        point = Point(point.thread_id, ids.first() or "", outer_namespace(point.namespace))
        yield point
