"""What the timeline shows of a checkpoint, read from it once, when it is stored: a page of history loads no values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.types import _DeltaSnapshot

NODES = "|"  # between the names of nodes; LangGraph reserves it, so no name holds it
START = "__start__"
_SENDS = "__pregel_tasks"
_BRANCH, _JOIN = "branch:to:", "join:"


class Marks(NamedTuple):
    """``next_nodes``: names of what runs next, joined by NODES; a node with three tasks stands there three times.

    ``messages``: how many, None where a DeltaChannel keeps them as writes. ``outer_id``: in a subgraph's namespace, the
    checkpoint of the enclosing graph whose next step it runs in.
    """

    next_nodes: str = ""
    messages: int | None = None
    outer_id: str = ""


NO_MARKS = Marks()


def marks_of(checkpoint: Mapping[str, Any], metadata: Mapping[str, Any], *, ns: str) -> Marks:
    """Return the marks of a checkpoint as LangGraph hands it to a saver."""
    values = checkpoint["channel_values"]
    parents = metadata.get("parents")
    outer = parents.get(outer_namespace(ns), "") if ns and isinstance(parents, Mapping) else ""
    return Marks(NODES.join(next_of(values)), _count(values, checkpoint["channel_versions"]), str(outer))


def outer_namespace(ns: str) -> str:
    """Return the namespace of the graph around one. A number counts the graphs that one task called."""
    outer, _, last = ns.rpartition(NODES)
    return outer_namespace(outer) if last.isdigit() else outer


def _count(values: Mapping[str, Any], versions: Mapping[str, Any]) -> int | None:
    messages = values.get("messages")
    if isinstance(messages, _DeltaSnapshot):
        messages = messages.value
    if isinstance(messages, list | tuple):
        return len(messages)
    return None if "messages" in versions else 0


def next_of(values: Mapping[str, Any]) -> list[str]:
    """Return the nodes that run next, by the channels that trigger them; no graph is asked."""
    sends = values.get(_SENDS) or ()
    pushed = [str(send.node) for send in sends if hasattr(send, "node")]
    return [*pushed, *sorted(_pulled(values))]


def _pulled(values: Mapping[str, Any]) -> Iterator[str]:
    # These channels have a value only right after the step that wrote them.
    for channel, value in values.items():
        if channel == START:
            yield START
        elif channel.startswith(_BRANCH) and _is_due(value):
            yield channel.removeprefix(_BRANCH)
        elif channel.startswith(_JOIN):
            waited_for, _, node = channel.removeprefix(_JOIN).rpartition(":")
            if _have_all_come(value, waited_for):
                yield node


def _is_due(value: Any) -> bool:
    """A deferred node's channel holds (value, whether all other work is done)."""
    return value[1] is True if isinstance(value, list | tuple) and len(value) == 2 else True


def _have_all_come(value: Any, waited_for: str) -> bool:
    """A joining node's channel holds the names that have come; deferred, with whether all other work is done."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], bool):
        return value[1] and _have_all_come(value[0], waited_for)
    # By length: a name may hold the plus sign that joins them, and only awaited names ever come.
    return isinstance(value, set | frozenset | list) and len("+".join(value)) == len(waited_for)
