"""Static breakpoints, which stop a graph without an interrupt: found at the head, asked about like everything else.

One inside a subgraph stops its parent's task with nothing written. LangGraph goes on past it with whatever is done next
on the thread, the answer to another question too; so while one is not passed, it is the only thing that is asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agents.asks import last_ai
from agents.marks import NODES, START
from agents.outcome import Ask, canonical_bytes
from agents.registry import Registered
from agents.values import Point, nodes_before

_MOST = 4  # checkpoint ids that one id names; more are hashed


@dataclass(frozen=True)
class Stop:
    """One graph that stands at a static breakpoint. ``inside``: names of the nodes around it, outermost first."""

    point: Point
    next: tuple[str, ...]
    messages: Sequence[Any]
    inside: tuple[str, ...] = ()


def breakpoint_ask(agent: Registered, thread_id: str, snapshot: Any, *, asking: bool) -> Ask | None:
    """Return the question of the breakpoints that the head stands at and has not passed.

    ``snapshot``: LangGraph's, of the head; ``asking``: something waits there, so the graph itself was not stopped.
    """
    stops = list(_stops(agent, thread_id, snapshot, asking=asking))
    if not stops:
        return None
    next_nodes = [name for stop in stops for name in stop.next]
    calls = [call for stop in stops for call in _named_calls(stop.messages)]
    inside = sorted({" / ".join(stop.inside) for stop in stops if stop.inside})
    value = {"next": next_nodes, "calls": calls} | ({"inside": inside} if inside else {})
    return Ask(
        kind="breakpoint",
        interrupt_id=f"breakpoint:{_named([stop.point.checkpoint_id for stop in stops])}",
        namespace=stops[0].point.namespace if len(stops) == 1 else "",
        task_id="",
        checkpoint_id=snapshot.config["configurable"]["checkpoint_id"],
        node=", ".join(name for stop in stops for name in stop.inside[:1] or stop.next),
        value=canonical_bytes(value),
    )


def _named(ids: Sequence[str]) -> str:
    if len(ids) <= _MOST:
        return "+".join(ids)
    return hashlib.sha256("+".join(ids).encode()).hexdigest()


def _stops(agent: Registered, thread_id: str, snapshot: Any, *, asking: bool) -> Iterator[Stop]:
    own = None if asking else _stop(agent.graph, thread_id, snapshot, agent.graph)
    if own is not None:
        yield own
    elif agent.stops_inside and _due(snapshot):
        config = {"configurable": {"thread_id": thread_id}}
        yield from _inner(agent.graph, thread_id, agent.graph.get_state(config, subgraphs=True), ())


def _inner(graph: Any, thread_id: str, snapshot: Any, inside: tuple[str, ...]) -> Iterator[Stop]:
    """Yield the breakpoints of subgraphs whose task is still due, and of subgraphs of these."""
    for task in snapshot.tasks:
        if task.result is not None or task.error or not hasattr(task.state, "tasks"):
            continue
        around = (*inside, task.name)
        sub = next((found for _, found in graph.get_subgraphs(namespace=NODES.join(around), recurse=True)), None)
        stop = sub and _stop(sub, thread_id, task.state, graph, around)
        if stop:
            yield stop
        else:
            yield from _inner(graph, thread_id, task.state, around)


def _stop(graph: Any, thread_id: str, snapshot: Any, root: Any, inside: tuple[str, ...] = ()) -> Stop | None:
    due, where = _due(snapshot), snapshot.config["configurable"]
    if not due:  # a subgraph that has not begun has no checkpoint either
        return None
    point = Point(thread_id, where["checkpoint_id"], where.get("checkpoint_ns", ""))
    if not stops_at(graph, point, due):
        return None
    saved = root.checkpointer.get_tuple(point.config)
    return None if saved is None or passed(saved.checkpoint) else Stop(point, due, messages_of(snapshot.values), inside)


def _due(snapshot: Any) -> tuple[str, ...]:
    return tuple(task.name for task in snapshot.tasks if task.result is None and not task.error)


def passed(checkpoint: Any) -> bool:
    """LangGraph notes at each continue which versions it has seen; without a newer one it would not stop again."""
    seen = checkpoint["versions_seen"].get("__interrupt__", {})
    versions = checkpoint["channel_versions"].items()
    return all(channel in seen and not version > seen[channel] for channel, version in versions)


def stops_at(graph: Any, point: Point, next_nodes: Sequence[str]) -> bool:
    """Tell whether a static breakpoint stops the graph at a checkpoint: before what is next, or after what ran."""
    if _is_named(graph.interrupt_before_nodes, next_nodes):
        return True
    # Not by LangGraph's parent: a copy (a fork, a rewind) has another one than the checkpoint that it repeats.
    return bool(graph.interrupt_after_nodes) and _is_named(graph.interrupt_after_nodes, nodes_before(point))


def _is_named(named: Any, nodes: Sequence[str]) -> bool:
    return any(node != START and (named == "*" or node in named) for node in nodes)


# -------------------------------------------------------------------------------------------------- messages of a state


def messages_of(values: Any) -> list[Any]:
    """Return the messages of a state, whatever its schema; [] for a graph without them."""
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    return list(messages) if isinstance(messages, list | tuple) else []


def open_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the tool calls of the last AI message that have no tool message yet."""
    message = last_ai(messages)
    if not isinstance(message, AIMessage):
        return []
    later = messages[next(at for at, one in enumerate(messages) if one is message) :]  # call ids come again each turn
    answered = {one.tool_call_id for one in later if isinstance(one, ToolMessage)}
    return [dict(call) for call in message.tool_calls if call["id"] not in answered]


def _named_calls(messages: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": call["name"], "args": call["args"]} for call in open_calls(messages)]
