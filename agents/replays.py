"""How a replay begins: once, in one transaction, under its run's mark. Afterwards it is a run like any other.

It continues its thread from a checkpoint, as a branch that becomes the head. What was permitted before and is not used
yet is void from there on, so no call runs on a decision that people were told had no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from langchain_core.messages import HumanMessage

from agents import copies, values
from agents.models import Checkpoint, CheckpointWrite, Run, Thread, ToolPermit
from agents.outcome import Ask
from agents.registry import Registered
from agents.starts import GraphChanged, Start, Update, closing, message_update, updates_of
from agents.values import Point, Stored

NODE = "as_node"  # in a checkpoint's metadata: as which node an update was written


def begin(agent: Registered, thread_id: str, payload: Mapping[str, Any] | None, *, mark: Mapping[str, Any]) -> str:
    """Write what a replay starts from, and return its checkpoint id: there the graph goes on.

    All or nothing. Raises UnknownCheckpoint, Unfit, GraphChanged, and what the graph's own update raises.
    """
    given = payload or {}
    start = Start.of(given)
    with transaction.atomic():
        point = Point(thread_id, given.get("checkpoint_id") or values.head_of(thread_id))
        stored = values.read(point)
        if stored.missing and not start.changes:
            raise GraphChanged(stored.missing)
        ToolPermit.objects.filter(thread_id=thread_id, execution__isnull=True, void=False).update(void=True)
        return _written(agent, stored, start, mark)


def _written(agent: Registered, stored: Stored, start: Start, mark: Mapping[str, Any]) -> str:
    """An update at the head would leave its writes there, as if its tasks had ended: so the head is copied first.

    An older checkpoint takes the update as it is: what its subgraphs remember is then looked for before it.
    """
    graph, point = agent.graph, stored.point
    begun = _is_untouched(stored)
    if not begun and (not start.changes or _is_head(point)):
        point = Point(point.thread_id, _copied(graph, point, mark))
    for update in updates_of(graph, stored, start):
        point = _updated(graph, point, update, mark)
    if start.message.strip():
        thread = Thread.objects.get(pk=point.thread_id)
        now = values.read(point)
        told = HumanMessage(content=start.message, id=str(mark["run"]))
        messages = [*closing(thread, now.values.get("messages") or []), told]
        point = _updated(graph, point, message_update(now, messages), mark)
    return point.checkpoint_id


def _is_untouched(stored: Stored) -> bool:
    """Tell whether this is the head, written for nobody but us: a fork's own copy, on which nothing has happened."""
    source = stored.saved.metadata.get("source")
    return source in ("fork", "update") and not stored.saved.pending_writes and _is_head(stored.point)


def _is_head(point: Point) -> bool:
    return values.head_of(point.thread_id) == point.checkpoint_id


def _copied(graph: Any, point: Point, mark: Mapping[str, Any]) -> str:
    saver = copies.saver_of(graph)
    copy = copies.copy_of(point, graph, saver, later=1)
    return copies.put(copy, saver, thread_id=point.thread_id, parent_id=point.checkpoint_id, mark=mark)


def _updated(graph: Any, point: Point, update: Update, mark: Mapping[str, Any]) -> Point:
    config = point.config
    config["configurable"]["__countersign"] = dict(mark)
    config["metadata"] = {NODE: update.as_node}
    written = graph.update_state(config, update.values or None, as_node=update.as_node)
    return Point(point.thread_id, written["configurable"]["checkpoint_id"])


def is_at_its_start(thread_id: str, run_id: str, checkpoint_id: str) -> bool:
    """Tell whether a replay's head is still what it began with.

    Then the graph must be sent there by name, so that its subgraphs look for their memory before it.
    """
    mine = {"thread_id": thread_id, "ns": "", "checkpoint_id": checkpoint_id}
    row = Checkpoint.objects.filter(**mine, run_id=run_id).values_list("metadata", flat=True).first()
    began = row is not None and row.get("source") in ("fork", "update")
    return began and not CheckpointWrite.objects.filter(**mine).exists()


def left_behind(thread_id: str, asks: tuple[Ask, ...]) -> tuple[tuple[str, str], ...]:
    """Return (namespace, interrupt id) of the answers of earlier runs that a replay has left behind.

    Whether an answer had shown its effect before is for the desk to know: those stay as they are.
    """
    closed = Run.objects.filter(thread_id=thread_id, kind=Run.Kind.RESUME).exclude(status__in=Run.ACTIVE)
    pending = {ask.interrupt_id for ask in asks}
    payloads: list[Any] = list(closed.order_by("position").values_list("payload", flat=True))
    keys = [(one.get("namespace", ""), one["interrupt_id"]) for one in payloads if one and "interrupt_id" in one]
    return tuple(dict.fromkeys(key for key in keys if key[1] not in pending))
