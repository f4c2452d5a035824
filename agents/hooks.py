"""Can a graph run on a loop, or only in a thread? Found out from its code, at registration.

LangChain fills the missing half of a middleware's wrap hook with one that raises NotImplementedError when it is called,
so an agent whose hooks are sync only would fail at its first model call or tool call. Tools, nodes and hooks that are
async only fail in the same way when the graph runs in sync.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain.agents.middleware import AgentMiddleware
from langchain_core.runnables import RunnableSequence
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as OneTextTool
from langgraph._internal._runnable import RunnableCallable
from langgraph.prebuilt import ToolNode

Mode = Literal["async", "sync"]

WRAPS = (("wrap_tool_call", "awrap_tool_call"), ("wrap_model_call", "awrap_model_call"))


class BothNeeded(ValueError):
    """One part of the graph runs in sync only, another on a loop only. The message names both."""


@dataclass(frozen=True)
class Needs:
    """What of a graph can run in one way only, by name: ``sync`` not on a loop, ``loop`` not in sync."""

    sync: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()

    @property
    def mode(self) -> Mode:
        """Return how the graph is driven. Raises BothNeeded."""
        if self.sync and self.loop:
            raise BothNeeded(
                f"{self.sync[0]} has no async version, and {self.loop[0]} has no sync version, so the graph runs in"
                " neither way. Give one of them its other half."
            )
        return "sync" if self.sync else "async"

    @property
    def reason(self) -> str:
        """Say why the graph is driven in sync; "" where it is not."""
        if not self.sync:
            return ""
        return f"Runs in a thread of its own, because it has no async version of {', '.join(self.sync)}."


def needs_of(graph: Any) -> Needs:
    """Look at every node of a graph and of its subgraphs. What a node builds when it runs cannot be seen."""
    sync: dict[str, None] = {}
    loop: dict[str, None] = {}
    for one in (graph, *(sub for _, sub in graph.get_subgraphs(recurse=True))):
        for name, node in one.nodes.items():
            found = _of_node(name, node.bound)
            sync |= dict.fromkeys(found.sync)
            loop |= dict.fromkeys(found.loop)
    return Needs(tuple(sync), tuple(loop))


def _of_node(name: str, bound: Any) -> Needs:
    wraps = list(_of_middlewares(_middlewares([bound])))
    loop = [hook for half, hook in wraps if half == "loop"]
    sync = [hook for half, hook in wraps if half == "sync"]
    if isinstance(bound, ToolNode):
        loop += [f"the tool {tool.name}" for tool in bound.tools_by_name.values() if _is_async_only(tool)]
        if bound._wrap_tool_call and not bound._awrap_tool_call:
            sync.append(f"wrap_tool_call of the node {name}")
        if bound._awrap_tool_call and not bound._wrap_tool_call:
            loop.append(f"awrap_tool_call of the node {name}")
    elif any(step.func is None for step in _steps(bound)):
        loop.append(f"the node {name}")
    return Needs(tuple(sync), tuple(loop))


def _of_middlewares(middlewares: Iterable[AgentMiddleware[Any, Any, Any]]) -> Iterator[tuple[str, str]]:
    """Yield ("sync" or "loop", hook) for each wrap hook that is there in one half only."""
    for one in middlewares:
        for sync, loop in WRAPS:
            has_sync, has_loop = _has(one, sync), _has(one, loop)
            if has_sync and not has_loop:
                yield "sync", f"{one.name}.{sync}"
            if has_loop and not has_sync:
                yield "loop", f"{one.name}.{loop}"


def _has(middleware: AgentMiddleware[Any, Any, Any], hook: str) -> bool:
    return getattr(type(middleware), hook) is not getattr(AgentMiddleware, hook)


def _is_async_only(tool: BaseTool) -> bool:
    return isinstance(tool, StructuredTool | OneTextTool) and tool.func is None


def _steps(bound: Any) -> list[RunnableCallable]:
    steps: Sequence[Any] = bound.steps if isinstance(bound, RunnableSequence) else [bound]
    return [step for step in steps if isinstance(step, RunnableCallable)]


def _middlewares(begin: Sequence[Any]) -> list[AgentMiddleware[Any, Any, Any]]:
    """Return the middlewares whose hooks these callables lead to.

    ``create_agent`` keeps no list of them: each hook is a bound method, below tracing and composing closures.
    """
    seen: dict[int, Any] = {}
    found: dict[int, AgentMiddleware[Any, Any, Any]] = {}
    waiting = list(begin)
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        owner = getattr(one, "__self__", None) if inspect.ismethod(one) else None
        if isinstance(owner, AgentMiddleware):
            found[id(owner)] = owner
        waiting.extend(_within(one))
    return list(found.values())


def _within(one: Any) -> Iterator[Any]:
    """Yield the callables that this one calls, as far as its closure shows. Other objects are not looked into."""
    if isinstance(one, ToolNode):
        yield from (one._wrap_tool_call, one._awrap_tool_call)
    elif isinstance(one, RunnableSequence):
        yield from one.steps
    elif isinstance(one, RunnableCallable):
        yield from (one.func, one.afunc)
    elif isinstance(one, functools.partial):
        yield from (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, list | tuple):
        yield from one
    elif inspect.ismethod(one):
        yield one.__func__
    elif inspect.isfunction(one):
        yield getattr(one, "__wrapped__", None)
        yield from (cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # an empty cell raises
    except ValueError:
        return False
    return True
