"""What one checkpoint holds, read as data. A graph's code is asked only for what its DeltaChannels keep as writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.pregel._checkpoint import channels_from_checkpoint

from agents import registry, stored
from agents.checkpointer import DjangoSaver
from agents.compiled import Compiled
from agents.marks import NODES, START, next_of
from agents.models import Checkpoint, Thread
from agents.outcome import TAG, NotCanonical, as_plain, canonical_bytes
from agents.statements import select

_saver = DjangoSaver()
_ID = re.compile(r"[0-9A-Fa-f-]{1,64}")


class UnknownCheckpoint(LookupError):
    """There is no such checkpoint in this thread: the id is malformed, of another thread, or of nothing."""


@dataclass(frozen=True)
class Point:
    """Names one checkpoint for good. ``namespace``: "" for the thread's own graph."""

    thread_id: str
    checkpoint_id: str
    namespace: str = ""

    @property
    def config(self) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint_id,
            }
        }


@dataclass(frozen=True)
class Stored:
    """A checkpoint as it stands in the database. ``unread``: channels that only the graph's code could rebuild."""

    point: Point
    saved: CheckpointTuple
    values: Mapping[str, Any]
    unread: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())  # nodes due next that the graph's code does not have

    @property
    def next(self) -> tuple[str, ...]:
        return tuple(next_of(self.saved.checkpoint["channel_values"]))


def checked(point: Point) -> Point:
    """Return ``point`` if its parts can be looked up at all. Raises UnknownCheckpoint."""
    texts = (point.thread_id, point.namespace)
    if not _ID.fullmatch(point.checkpoint_id) or any("\0" in text or not _is_text(text) for text in texts):
        raise UnknownCheckpoint(f"There is no checkpoint {point.checkpoint_id!r}.")
    return point


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no database takes
        return False
    return True


def read(point: Point) -> Stored:
    """Read one checkpoint. Raises UnknownCheckpoint."""
    saved = _saver.get_tuple(checked(point).config)
    if saved is None:
        raise UnknownCheckpoint(f"Thread {point.thread_id} has no checkpoint {point.checkpoint_id}.")
    return _stored(point, saved)


def read_head(thread_id: str) -> Stored:
    """Read the newest checkpoint. Raises UnknownCheckpoint for a thread without any."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    saved = _saver.get_tuple(config) if _is_text(thread_id) and "\0" not in thread_id else None
    if saved is None:
        raise UnknownCheckpoint(f"Thread {thread_id} has no checkpoint yet.")
    return _stored(Point(thread_id, saved.config["configurable"]["checkpoint_id"]), saved)


def _stored(point: Point, saved: CheckpointTuple) -> Stored:
    graph = graph_of(point.thread_id, point.namespace)
    values = {name: unwrapped(value) for name, value in saved.checkpoint["channel_values"].items()}
    elsewhere = kept_as_writes(saved, graph)
    whole = rebuilt(graph, saved, elsewhere, saver=_saver) if graph is not None else {}
    unread = tuple(elsewhere) if graph is None else ()
    return Stored(point, saved, {**values, **whole}, unread, _missing(graph, saved))


def head_of(thread_id: str, namespace: str = "") -> str:
    """Return the id of the newest checkpoint. Raises UnknownCheckpoint for a thread without any."""
    newest = stored.head(thread_id, namespace) if _is_text(thread_id) and "\0" not in thread_id else None
    if newest is None:
        raise UnknownCheckpoint(f"Thread {thread_id} has no checkpoint yet.")
    return newest


def order_of(point: Point) -> int | None:
    """Return a checkpoint's place in the order of writing, which runs through all namespaces; None if it is gone."""
    sql = "select id from agents_checkpoint where thread_id = %s and ns = %s and checkpoint_id = %s"
    rows = select(sql, [point.thread_id, point.namespace, point.checkpoint_id])
    return rows[0][0] if rows else None


_AGENT = Compiled(lambda thread: Thread.objects.filter(pk=thread).values_list("agent_id", flat=True))


def graph_of(thread_id: str, namespace: str = "") -> Any:
    """Return the graph that runs in a namespace of a thread; None where its code is not here, or cannot be reached."""
    try:
        graph = registry.get(_AGENT.first(thread_id) or "").graph
    except (registry.UnknownAgent, registry.UnusableAgent):
        return None
    if not namespace:
        return graph
    parts = [part.partition(":")[0] for part in namespace.split(NODES) if not part.isdigit()]
    return next((sub for _, sub in graph.get_subgraphs(namespace=NODES.join(parts), recurse=True)), None)


def unwrapped(value: Any) -> Any:
    return value.value if isinstance(value, _DeltaSnapshot) else value


def kept_as_writes(saved: CheckpointTuple, graph: Any) -> list[str]:
    """Return the channels whose value is not in the checkpoint but in the writes of its ancestors."""
    stored = saved.checkpoint["channel_values"]
    versions = saved.checkpoint["channel_versions"]
    names = list(saved.metadata.get("counters_since_delta_snapshot") or ())
    if graph is not None:
        names = [name for name, channel in graph.channels.items() if isinstance(channel, DeltaChannel)]
    return [name for name in names if name in versions and name not in stored]


def rebuilt(
    graph: Any, saved: CheckpointTuple, names: Sequence[str], *, saver: BaseCheckpointSaver[int]
) -> dict[str, Any]:
    """Return the values of such channels, folded from the writes by the graph's own reducers."""
    if not names:
        return {}
    specs = {name: graph.channels[name] for name in names}
    channels, _ = channels_from_checkpoint(specs, saved.checkpoint, saver=saver, config=saved.config)
    return {name: channel.get() for name, channel in channels.items() if channel.is_available()}


def _missing(graph: Any, saved: CheckpointTuple) -> tuple[str, ...]:
    if graph is None:
        return ()
    due = next_of(saved.checkpoint["channel_values"])
    return tuple(sorted({name for name in due if name not in graph.nodes and name != START}))


# --------------------------------------------------------------------------------------------------------------- nodes


def nodes_before(point: Point) -> tuple[str, ...]:
    """Return the nodes that ran to make a checkpoint: START for an input, those of the original for a copy.

    () where nobody knows: an update by another client.
    """
    row = _row(point)
    if row is None:
        return ()
    match row["metadata"].get("source"):
        case "input":
            return (START,)
        case "loop":
            parent = _row(Point(point.thread_id, row["parent_id"], point.namespace))
            return tuple(dict.fromkeys(parent["next_nodes"].split(NODES))) if parent and parent["next_nodes"] else ()
        case "update":
            node = row["metadata"].get("as_node")
            return (str(node),) if node else ()
        case "fork":
            original = original_of(point)
            return nodes_before(original) if original else ()
    return ()


def _row(point: Point) -> Any:
    rows = Checkpoint.objects.filter(thread_id=point.thread_id, ns=point.namespace, checkpoint_id=point.checkpoint_id)
    return rows.values("parent_id", "metadata", "next_nodes").first()


def original_of(point: Point) -> Point | None:
    """Return the checkpoint that this one is a copy of; None for one that is no copy."""
    row = _row(point)
    if row is None or row["metadata"].get("source") != "fork":
        return None
    if row["parent_id"]:
        return Point(point.thread_id, row["parent_id"], point.namespace)
    thread = Thread.objects.filter(pk=point.thread_id).values("ancestor_id", "ancestor_checkpoint").first()
    if thread is None or not thread["ancestor_id"] or point.namespace:
        return None
    return Point(thread["ancestor_id"], thread["ancestor_checkpoint"])


def loaded(kind: str, blob: bytes | memoryview) -> list[Any]:
    """Return what a write of a channel that holds lists holds: interrupts, answers."""
    value = _saver.serde.loads_typed((kind, bytes(blob)))
    return list(value) if isinstance(value, list | tuple) else [value]


def is_internal(channel: str) -> bool:
    """Tell LangGraph's own channels from those of the state."""
    return channel.startswith(("branch:", "join:")) or (channel.startswith("__") and channel != "__root__")


# ------------------------------------------------------------------------------------------------------------- for show


def shown_bytes(value: Any) -> bytes:
    """Return the canonical form of any value; what cannot be written down exactly stands there as words about it."""
    try:
        return canonical_bytes(value)
    except NotCanonical:
        return canonical_bytes(_shown(value, 0))


def _shown(value: Any, depth: int) -> Any:
    try:
        canonical_bytes(value)
    except NotCanonical as error:
        plain = as_plain(value)
        if error.code == "too_deep" and depth > 20:
            return {"unreadable": str(error)}
        if isinstance(plain, Mapping):
            return {str(key) if key == TAG else key: _shown(item, depth + 1) for key, item in plain.items()}
        if isinstance(plain, list | tuple | set | frozenset):
            return [_shown(item, depth + 1) for item in plain]
        return {"unreadable": str(error)}
    return value
