"""Name -> graph. Builds the agents we know, attaches the saver, installs the ledger, and says what each can promise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from django.db.models.functions import Now
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode

from agents import toolnode
from agents.checkpointer import DjangoSaver
from agents.hooks import BothNeeded, Mode, needs_of
from agents.manifest import FILE, Unreadable, manifest
from agents.memory import DjangoStore
from agents.models import Agent
from agents.outcome import digest
from agents.streams.transformers import Transformer, needs_v3, redacts, transformers_of, trusting


class UnknownAgent(LookupError):
    """No agent of this name is registered here."""


class UnusableAgent(RuntimeError):
    """The agent is known, but its graph cannot be built or run. The message says why."""


@dataclass(frozen=True)
class Registered:
    """An agent that can be run. ``schemas``: tool name -> JSON Schema of its arguments, injected ones left out."""

    name: str
    title: str
    graph: Any
    mode: Mode = "async"  # how it is driven: "async" (astream) or "sync" (stream in a thread)
    mode_reason: str = ""  # why in sync
    description: str = ""
    version: str = ""
    shape: str = ""  # digest of what its code is made of: other code, other shape
    guarantee: str = "once"
    guarantee_reason: str = ""
    schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    tools_node: str = ""  # name of the graph's own ToolNode: as which open calls can be settled
    stops_inside: bool = False  # a subgraph has a static breakpoint
    transformers: tuple[Transformer, ...] = ()  # of its streams, in the order of passing

    @property
    def streams(self) -> str:
        """Return the protocol it is streamed by: "v3" for agents with transformers of their own, else "v2"."""
        return "v3" if needs_v3(self.transformers) else "v2"

    @property
    def redacts(self) -> str:
        """Say whether its live text may be less than what is stored: "no", "yes" or "maybe"."""
        return redacts(self.transformers)

    @property
    def trusting(self) -> bool:
        """Say whether its streams may tell what its states hold."""
        return trusting(self.transformers)


@dataclass(frozen=True)
class _Known:
    title: str
    build: Callable[[], Any]
    description: str = ""
    version: str = ""


_lock = threading.RLock()
_built: dict[str, Registered] = {}
_overrides: dict[str, _Known] = {}


def get(name: str) -> Registered:
    """Return a registered agent, built once a process. Raises UnknownAgent, UnusableAgent."""
    with _lock:
        if name not in _built:
            _built[name] = _register(name, _known(name))
        return _built[name]


def build_all() -> None:
    """Build each agent now, so that nobody's first run waits for it. One that is unusable says so when it is got."""
    for name in names():
        with suppress(UnknownAgent, UnusableAgent):
            get(name)


def names() -> list[str]:
    from agents.catalog import ENTRIES

    listed = manifest()
    return sorted({*ENTRIES, *listed.graphs, *_overrides, *([FILE] if _file_problems() else [])})


def _file_problems() -> list[str]:
    """Return what is wrong with langgraph.json itself, names that are taken included."""
    from agents.catalog import ENTRIES

    listed = manifest()
    taken = sorted(ENTRIES.keys() & listed.graphs.keys())
    told = [f"graphs.{name}: an agent that comes along has this name. Rename it in langgraph.json." for name in taken]
    return [*listed.problems, *told]


def sync() -> None:
    """Bring the Agent rows up to date with the registry.

    Rows of agents that are gone stay, inactive: threads point at them.
    """
    for name in names():
        Agent.objects.update_or_create(name=name, defaults=_row(name))
    Agent.objects.exclude(name__in=names()).filter(name=FILE, threads=None).delete()  # it never was an agent
    Agent.objects.exclude(name__in=names()).update(is_active=False, problem="This agent is not registered any more.")


def _row(name: str) -> dict[str, Any]:
    known = _known(name)
    row: dict[str, Any] = {
        "title": known.title,
        "description": known.description,
        "version": known.version,
        "is_active": True,
        "problem": "",
        "updated_at": Now(),
    }
    try:
        agent = get(name)
    except UnusableAgent as error:
        return {**row, "problem": str(error)}
    return {
        **row,
        "shape": agent.shape,
        "guarantee": agent.guarantee,
        "guarantee_reason": agent.guarantee_reason,
        "mode_reason": agent.mode_reason,
        "tools_node": agent.tools_node,
        "transformers": [one.row() for one in agent.transformers],
        "redacts": agent.redacts,
    }


@contextmanager
def override(name: str, build: Callable[[], Any], *, title: str = "") -> Iterator[None]:
    """Register a graph under a name for the time of a test, with its Agent row."""
    with _lock:
        _overrides[name] = _Known(title=title or name, build=build)
        _built.pop(name, None)
    try:
        Agent.objects.update_or_create(name=name, defaults=_row(name))
        yield
    finally:
        with _lock:
            _overrides.pop(name, None)
            _built.pop(name, None)


def _known(name: str) -> _Known:
    from agents.catalog import ENTRIES

    if name in _overrides:
        return _overrides[name]
    if name == FILE and (problems := _file_problems()):
        return _Known(title="langgraph.json", build=_raising(" ".join(problems)))
    if name not in ENTRIES and (listed := manifest().graphs.get(name)):
        return _Known(title=_titled(name), build=listed.build, description=listed.description)
    if name not in ENTRIES:
        raise UnknownAgent(f"No agent named {name!r} is registered. Known: {', '.join(names()) or 'none'}.")
    entry = ENTRIES[name]
    return _Known(title=entry.title, build=entry.build, description=entry.description, version=entry.version)


def _raising(problem: str) -> Callable[[], Any]:
    def build() -> Any:
        raise Unreadable(problem)

    return build


def _titled(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:] or name


def _register(name: str, known: _Known) -> Registered:
    try:
        toolnode.install()
        built = known.build()
        graph = built.copy(update={"checkpointer": DjangoSaver(), "store": built.store or DjangoStore()})
        nodes, needs = list(tool_nodes(graph)), needs_of(graph)
        return Registered(
            name=name,
            title=known.title,
            graph=graph,
            mode=needs.mode,
            mode_reason=needs.reason,
            description=known.description,
            version=known.version,
            shape=_shape(graph, nodes),
            schemas=_schemas(nodes),
            tools_node=_tools_node(graph),
            stops_inside=_stops_inside(graph),
            transformers=transformers_of(graph),
            **_guarantee(nodes),
        )
    except Unreadable as error:
        raise UnusableAgent(str(error)) from error
    except BothNeeded as error:
        raise UnusableAgent(f"The graph of {name!r} cannot be run: {error}") from error
    except (Exception, SystemExit) as error:
        raise UnusableAgent(f"The graph of {name!r} cannot be built: {type(error).__name__}: {error}") from error


def _guarantee(nodes: list[ToolNode]) -> dict[str, str]:
    if nodes:
        return {"guarantee": "once", "guarantee_reason": ""}
    reason = (
        "This graph has no ToolNode that the ledger can reach. What its nodes do themselves may happen again after a"
        " crash: a node runs again from its top. Tools in a ToolNode (create_agent makes one) run once."
    )
    return {"guarantee": "at least once", "guarantee_reason": reason}


def tool_nodes(graph: Any) -> Iterator[ToolNode]:
    """Yield each ToolNode of a graph and its subgraphs, once."""
    seen: set[int] = set()
    for one in (graph, *(sub for _, sub in graph.get_subgraphs(recurse=True))):
        for node in one.nodes.values():
            bound = node.bound
            if isinstance(bound, ToolNode) and id(bound) not in seen:
                seen.add(id(bound))
                yield bound


def _tools_node(graph: Any) -> str:
    return next((name for name, node in graph.nodes.items() if isinstance(node.bound, ToolNode)), "")


def _stops_inside(graph: Any) -> bool:
    subs = [sub for _, sub in graph.get_subgraphs(recurse=True)]
    return any(sub.interrupt_before_nodes or sub.interrupt_after_nodes for sub in subs)


def _shape(graph: Any, nodes: list[ToolNode]) -> str:
    """Return a digest of the graphs' nodes, state and stops, and of the tools with their schemas."""
    graphs = [("", graph), *graph.get_subgraphs(recurse=True)]
    made_of = {
        where: {
            "nodes": sorted(one.nodes),
            "state": sorted(one.channels),
            "before": sorted(one.interrupt_before_nodes),
            "after": sorted(one.interrupt_after_nodes),
        }
        for where, one in graphs
    }
    return digest({"graphs": made_of, "tools": _schemas(nodes)})


def _schemas(nodes: list[ToolNode]) -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {}
    for node in nodes:
        for name, tool in node.tools_by_name.items():
            schemas.setdefault(name, _schema(tool))
    return schemas


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema: Any = tool.tool_call_schema  # a dict for MCP tools, else a pydantic model
    if isinstance(schema, dict):
        return schema
    found: dict[str, Any] = schema.model_json_schema()
    # LangChain copies the fields of the tool's own model, and forgets that it forbids others.
    if getattr(tool.args_schema, "model_config", {}).get("extra") == "forbid":
        found["additionalProperties"] = False
    return found
