"""A checkpoint written again under a fresh id: into another thread (a fork), or on top of itself (a rewind).

Task and interrupt ids are hashes of the checkpoint id, so they are new too, and no answer that was given to the
original fits. The copy has no pending writes; what a DeltaChannel keeps in the writes of ancestors, it holds itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from agents import values
from agents.checkpointer import DjangoSaver
from agents.models import Checkpoint as CheckpointModel
from agents.values import Point, UnknownCheckpoint

_COUNTERS = "counters_since_delta_snapshot"  # of what a copy holds whole


class NeedsCode(RuntimeError):
    """Values of this checkpoint can only be rebuilt by the agent's code, and it is not here."""


@dataclass(frozen=True)
class Copy:
    namespace: str
    checkpoint: Checkpoint
    metadata: dict[str, Any]


def saver_of(graph: Any) -> BaseCheckpointSaver[int]:
    """Return the saver as the graph itself uses it: it knows the types of the graph's own state."""
    if graph is None:
        return DjangoSaver()
    return cast("BaseCheckpointSaver[int]", graph._state_checkpointer({"configurable": {}}))


def copies_of(point: Point, graph: Any) -> list[Copy]:
    """Return what a fork from ``point`` begins with. Raises UnknownCheckpoint, NeedsCode.

    Memories of subgraphs come first: they look for them before the id of the graph's own checkpoint.
    """
    saver = saver_of(graph)
    found = [(one, subgraph) for one, subgraph in _memories(point, graph)]
    return [copy_of(one, subgraph, saver) for one, subgraph in [*found, (point, graph)]]


def copy_of(point: Point, graph: Any, saver: BaseCheckpointSaver[int], *, later: int = 0) -> Copy:
    """Return one checkpoint under a fresh id, ``later`` steps further on. Raises UnknownCheckpoint, NeedsCode."""
    saved = saver.get_tuple(values.checked(point).config)
    if saved is None:
        raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint {point.checkpoint_id}.")
    step = int(saved.metadata.get("step", -1)) + later
    kept = {key: value for key, value in saved.metadata.items() if key not in ("run_id", "as_node", _COUNTERS)}
    checkpoint: Checkpoint = {
        **saved.checkpoint,
        "id": str(uuid6(clock_seq=step)),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": _whole(saved, graph, saver),
    }
    return Copy(point.namespace, checkpoint, {**kept, "source": "fork", "step": step, "parents": {}})


def _whole(saved: CheckpointTuple, graph: Any, saver: BaseCheckpointSaver[int]) -> dict[str, Any]:
    elsewhere = values.kept_as_writes(saved, graph)
    if elsewhere and graph is None:
        raise NeedsCode(f"Only the agent's code can rebuild {', '.join(elsewhere)}, and it is not here.")
    rebuilt = values.rebuilt(graph, saved, elsewhere, saver=saver)
    return {**saved.checkpoint["channel_values"], **{name: _DeltaSnapshot(value) for name, value in rebuilt.items()}}


def _memories(point: Point, graph: Any) -> Iterator[tuple[Point, Any]]:
    """Yield where subgraphs that remember (``checkpointer=True``) stood before a checkpoint's next step, and which."""
    for name, subgraph in graph.get_subgraphs(recurse=True) if graph is not None else ():
        if subgraph.checkpointer is True:
            rows = CheckpointModel.objects.filter(
                thread_id=point.thread_id, ns=name, pk__lt=values.order_of(point) or 0
            )
            newest = rows.order_by("-pk").values_list("checkpoint_id", flat=True).first()
            if newest:
                yield Point(point.thread_id, newest, name), subgraph


def put(
    copy: Copy,
    saver: BaseCheckpointSaver[int],
    *,
    thread_id: str,
    parent_id: str = "",
    mark: Mapping[str, Any] | None = None,
) -> str:
    """Store a copy. Returns its id. Raises Fenced."""
    names: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": copy.namespace}
    names |= {"checkpoint_id": parent_id} if parent_id else {}
    names |= {"__countersign": mark} if mark else {}
    versions = copy.checkpoint["channel_versions"]
    saver.put({"configurable": names}, copy.checkpoint, cast(Any, copy.metadata), versions)
    return copy.checkpoint["id"]
