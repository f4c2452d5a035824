"""What a fork, a rewind or a replay will do again, said before anybody does it. Read from the record, not guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import OuterRef, Subquery
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from agents import copies, registry, runs, values
from agents.afterwards import Afterwards, Question, afterwards
from agents.asks import asked_calls
from agents.branches import descent
from agents.breakpoints import passed, stops_at
from agents.conversation import text_of
from agents.head import messages_of, read_head
from agents.marks import NODES, next_of
from agents.models import Checkpoint, CheckpointWrite, Thread, ToolPermit
from agents.outcome import Ask, as_plain
from agents.registry import Registered
from agents.starts import Start, closing, message_update, updates_of
from agents.states import node_of
from agents.values import Point, Stored, graph_of

Kind = Literal["fork", "rewind", "replay head"]
_LISTED = 50  # answers that stand, newest first


@dataclass(frozen=True)
class CallLine:
    """Calls of one tool. ``idempotent``: it says that running again does no harm."""

    name: str
    count: int
    idempotent: bool


@dataclass(frozen=True)
class NodeLine:
    """A node that runs again. ``why``: it comes next; it is part of a ``graph`` inside a node or tool; it had finished
    beside others that were still asking."""

    name: str
    count: int
    why: Literal["next", "subgraph", "sibling"]
    graph: str = ""


@dataclass(frozen=True)
class Standing:
    """An answer that stands in the messages, or went into the values, and stays."""

    name: str  # of the tool, or the node that asked
    verdict: str  # approve, edit, reject, respond; "answer" for a question without a tool call
    text: str = ""
    checkpoint_id: str = ""


@dataclass(frozen=True)
class SafetySheet:
    """``runs``: calls that run again before anybody is asked; ``asks``: what is asked then; ``later``: calls of the
    record after that, which come again if it is answered in the same way. ``hides``: open questions that go.

    ``known``: False where what follows was never done before (an edit, a message, a step that was not taken yet):
    then only ``nodes`` and ``asks`` of the next step are told. ``missing``: due nodes that the code no longer has.
    """

    kind: Kind
    point: Point
    runs: tuple[CallLine, ...] = ()
    asks: tuple[Question, ...] = ()
    later: tuple[CallLine, ...] = ()
    nodes: tuple[NodeLine, ...] = ()
    hides: tuple[Ask, ...] = ()
    stands: tuple[Standing, ...] = ()
    fails: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    known: bool = True
    cut: bool = False

    @property
    def ledger_asks(self) -> tuple[Question, ...]:
        return tuple(one for one in self.asks if one.who == "ledger")

    @property
    def next_nodes(self) -> tuple[str, ...]:
        """Names of the nodes that come next, where no more than that is known."""
        return tuple(line.name for line in self.nodes if line.why == "next")

    @property
    def harmful(self) -> tuple[CallLine, ...]:
        """Calls that run again unasked although their tool does not say that this does no harm."""
        return tuple(one for one in self.runs if not one.idempotent)


def safety_sheet(
    thread_id: str,
    checkpoint_id: str = "",
    *,
    kind: Kind = "fork",
    values: Mapping[str, Any] | None = None,
    as_node: str = "",
    message: str = "",
) -> SafetySheet:
    """Return what will happen. Raises UnknownThread, UnknownCheckpoint, UnknownAgent, UnusableAgent, Unfit."""
    thread = Thread.objects.select_related("ancestor").filter(pk=thread_id).first()
    if thread is None:
        raise runs.UnknownThread(f"There is no thread {thread_id}.")
    agent = registry.get(thread.agent_id)
    stored = _stored(thread_id, checkpoint_id)
    start = Start(values or {}, as_node, message)
    found = _after_change(agent, thread, stored, start) if start.changes else _after(agent, stored)
    tools = _idempotent(agent)
    return SafetySheet(
        kind=kind,
        point=stored.point,
        runs=_lines(found.runs, tools),
        asks=tuple(found.asks),
        later=_lines(found.later, tools),
        nodes=_nodes(found.nodes),
        hides=() if kind == "fork" else read_head(agent, thread_id, "").asks,
        stands=tuple(_standing(thread, stored)),
        fails=tuple(dict.fromkeys(found.failed)),
        missing=() if start.changes else stored.missing,
        known=found.known,
        cut=found.cut,
    )


def _stored(thread_id: str, checkpoint_id: str) -> Stored:
    return values.read(Point(thread_id, checkpoint_id or values.head_of(thread_id)))


def _idempotent(agent: Registered) -> Mapping[str, bool]:
    return {
        name: (tool.metadata or {}).get("idempotent") is True
        for node in registry.tool_nodes(agent.graph)
        for name, tool in node.tools_by_name.items()
    }


def _lines(names: Iterable[str], idempotent: Mapping[str, bool]) -> tuple[CallLine, ...]:
    return tuple(CallLine(name, count, idempotent.get(name, False)) for name, count in sorted(Counter(names).items()))


def _nodes(found: Iterable[tuple[str, str, Any]]) -> tuple[NodeLine, ...]:
    """Merge nodes; a namespace is told without the ids of its tasks."""
    named = Counter((node, why, _without_ids(namespace)) for node, namespace, why in found)
    return tuple(NodeLine(node, count, why, graph) for (node, why, graph), count in named.items())


def _without_ids(namespace: str) -> str:
    return NODES.join(part.partition(":")[0] for part in namespace.split(NODES) if not part.isdigit())


# -------------------------------------------------------------------------------------------------------- what follows


def _after(agent: Registered, stored: Stored) -> Afterwards:
    if stored.missing:
        return Afterwards()

    def stops(point: Point, due: tuple[str, ...], first: bool) -> bool:
        if first and passed(stored.saved.checkpoint):
            return False
        if not point.namespace:
            return stops_at(agent.graph, point, due)
        inner = graph_of(point.thread_id, point.namespace) if agent.stops_inside else None
        return inner is not None and stops_at(inner, point, due)

    found = afterwards(stored.point, stops=stops)
    if not found.known and not found.nodes:
        found.nodes += [(node, "", "next") for node in stored.next]
    return found


class _Aside(InMemorySaver):
    """Goes on counting versions from those it is given; by itself it makes texts, which no number is compared with."""

    get_next_version = BaseCheckpointSaver.get_next_version


def _after_change(agent: Registered, thread: Thread, stored: Stored, start: Start) -> Afterwards:
    """Make the change in memory, and tell the next step. What follows an edit or a message was never done before."""
    graph = agent.graph.copy(update={"checkpointer": _Aside()})
    saver = copies.saver_of(agent.graph)
    copy = copies.copy_of(stored.point, agent.graph, saver)
    names = {"thread_id": stored.point.thread_id, "checkpoint_ns": ""}
    config = graph.checkpointer.put(
        {"configurable": names}, copy.checkpoint, copy.metadata, {**copy.checkpoint["channel_versions"]}
    )
    for update in updates_of(agent.graph, stored, start):
        config = graph.update_state(config, update.values or None, as_node=update.as_node)
    if start.message.strip():
        told = [*closing(thread, messages_of(stored.values)), ("human", start.message)]
        update = message_update(stored, told)
        config = graph.update_state(config, update.values, as_node=update.as_node)
    due = next_of(graph.checkpointer.get_tuple(config).checkpoint["channel_values"])
    return Afterwards(nodes=[(node, "", "next") for node in due], known=not due)


# ---------------------------------------------------------------------------------------------------------- what stands


def _standing(thread: Thread, stored: Stored) -> Iterator[Standing]:
    yield from _standing_calls(thread, messages_of(stored.values))
    yield from _standing_answers(stored.point)


def _standing_calls(thread: Thread, messages: Sequence[Any]) -> Iterator[Standing]:
    """Yield the decided calls whose result is among the messages."""
    permits = ToolPermit.objects.filter(thread_id__in=thread.lineage()).exclude(tool_call_id="").order_by("pk")
    verdicts = {(one.message_id, one.tool_call_id): one.verdict for one in permits.defer("args")}
    made: dict[str, tuple[str, str]] = {}  # call id -> (message id, name): ids come again each turn
    for message in messages:
        if isinstance(message, AIMessage):
            made |= {call["id"] or "": (message.id or "", call["name"]) for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in made:
            message_id, name = made[message.tool_call_id]
            if verdict := verdicts.get((message_id, message.tool_call_id)):
                yield Standing(name, verdict, text_of(message))


def _standing_answers(point: Point) -> Iterator[Standing]:
    """Yield the answered questions without a tool call on the way to a checkpoint, newest first."""
    left = _LISTED
    for stretch in descent(point):
        rows = CheckpointWrite.objects.filter(
            thread_id=stretch.thread_id, ns="", channel="__interrupt__", checkpoint_id__in=stretch.checkpoint_ids()
        ).exclude(thread_id=point.thread_id, checkpoint_id=point.checkpoint_id)
        written = Checkpoint.objects.filter(
            thread_id=OuterRef("thread_id"), ns=OuterRef("ns"), checkpoint_id=OuterRef("checkpoint_id")
        )
        for row in rows.order_by(Subquery(written.values("pk")).desc(), "task_id")[:left]:
            left -= 1
            yield from _answered(row)


def _answered(write: CheckpointWrite) -> Iterator[Standing]:
    ended = CheckpointWrite.objects.filter(
        thread_id=write.thread_id, ns="", checkpoint_id=write.checkpoint_id, task_id=write.task_id
    ).exclude(channel__in=("__interrupt__", "__resume__", "__error__", "__error_source_node__"))
    asked = values.loaded(write.type, write.blob)
    about_calls = any(asked_calls(as_plain(one.value)) for one in asked)
    if not about_calls and ended.exists():
        yield Standing(node_of(write.task_path, ()), "answer", checkpoint_id=write.checkpoint_id)
