"""Where the ledger sits: around the execution of every ToolNode of this process. The one place that knows
LangGraph's privates.

On the class, not on nodes: an agent that is built inside a tool has a ToolNode which no walk over the graph finds.
What runs without the runner's mark (another program, a test of a graph) passes through.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode

from agents import ledger

LANGGRAPH = "1.2.24"

# The calls that the ToolNode at hand was given: shared by the contexts in which they run.
_visit: ContextVar[_Visit | None] = ContextVar("visit", default=None)


class WrongVersion(RuntimeError):
    """Another LangGraph is installed than the one the ledger was made and tested for."""


def install() -> None:
    """Put the ledger innermost around each tool, under all wrappers, once a process. Raises WrongVersion."""
    installed = importlib.metadata.version("langgraph")
    if installed != LANGGRAPH:
        raise WrongVersion(
            f"The ledger is made for langgraph {LANGGRAPH}, but {installed} is installed. Install {LANGGRAPH}."
        )
    if getattr(ToolNode, "_countersign_ledger", False):
        return
    _guard_tools()
    _notice_refusals()
    _keep_turns()
    ToolNode._countersign_ledger = True  # type: ignore[attr-defined]


def _guard_tools() -> None:
    execute, aexecute = ToolNode._execute_tool_sync, ToolNode._execute_tool_async

    def guarded(node: ToolNode, request: Any, input_type: Any, config: Any) -> Any:
        return ledger.guard(request, lambda inner: execute(node, inner, input_type, config))

    async def aguarded(node: ToolNode, request: Any, input_type: Any, config: Any) -> Any:
        return await ledger.aguard(request, lambda inner: aexecute(node, inner, input_type, config))

    ToolNode._execute_tool_sync = guarded  # type: ignore[method-assign,assignment]
    ToolNode._execute_tool_async = aguarded  # type: ignore[method-assign,assignment]


def _notice_refusals() -> None:
    """Let the ledger know whether a tool took its arguments: LangGraph makes the same error message of a tool that
    refused them, and never ran, and of one that ran and failed."""
    check = BaseTool._to_args_and_kwargs

    def checked(tool: BaseTool, tool_input: Any, tool_call_id: str | None) -> Any:
        return ledger.checked(tool, lambda: check(tool, tool_input, tool_call_id))

    BaseTool._to_args_and_kwargs = checked  # type: ignore[method-assign,assignment]


def _keep_turns() -> None:
    """Let the calls of one visit run in turn (``_Visit``)."""
    parse, run_one, arun_one = ToolNode._parse_input, ToolNode._run_one, ToolNode._arun_one

    def visited(node: ToolNode, value: Any) -> Any:
        calls, input_type = parse(node, value)
        _visit.set(_Visit(calls))  # before LangGraph copies the context for each call
        return calls, input_type

    def in_turn(node: ToolNode, call: Any, input_type: Any, runtime: Any) -> Any:
        visit = _visit_of(call, runtime)
        if visit is None:
            return run_one(node, call, input_type, runtime)
        before, done = visit.place(call, threading.Event)
        if before:
            before.wait()
        with visit.turn(done):
            return run_one(node, call, input_type, runtime)

    async def ain_turn(node: ToolNode, call: Any, input_type: Any, runtime: Any) -> Any:
        visit = _visit_of(call, runtime)
        if visit is None:
            return await arun_one(node, call, input_type, runtime)
        before, done = visit.place(call, asyncio.Event)
        if before:
            await before.wait()
        with visit.turn(done):
            return await arun_one(node, call, input_type, runtime)

    ToolNode._parse_input = visited  # type: ignore[method-assign,assignment]
    ToolNode._run_one = in_turn  # type: ignore[method-assign,assignment]
    ToolNode._arun_one = ain_turn  # type: ignore[method-assign,assignment]


def _visit_of(call: Any, runtime: Any) -> _Visit | None:
    """Return the visit with which a call came; None for one that is not the runner's, or that a node made up itself."""
    visit = _visit.get()
    return visit if visit is not None and visit.brought(call) and ledger.is_ours(runtime) else None


class _Visit:
    """The calls that a graph brings to a ToolNode at one time. They run in call order, until one of them raises.

    ``create_agent`` gives each call a task. A bare ToolNode runs all calls in one, in parallel, and LangGraph hands
    answers out by counting the task's interrupts: with two tools that ask, the quicker one would get the other's
    answer. Once one has raised, the node is over and takes its calls again from the first: a call that began now would
    act behind a run that has ended, and an event loop that closes would break it off in the middle.
    """

    def __init__(self, calls: Sequence[Any]) -> None:
        self._calls = calls
        self._over = False
        self._events: list[Any] = []  # one a call: set when it has ended, or need not begin
        self._lock = threading.Lock()

    def brought(self, call: Any) -> bool:
        return any(one is call for one in self._calls)

    def place(self, call: Any, event: type[Any]) -> tuple[Any, Any]:
        """Return (event to wait for, event to set) of one call; the first waits for None."""
        with self._lock:
            self._events = self._events or [event() for _ in self._calls]
        position = next(n for n, one in enumerate(self._calls) if one is call)
        return self._events[position - 1] if position else None, self._events[position]

    @contextmanager
    def turn(self, done: Any) -> Iterator[None]:
        """Run one call. Raises GraphBubbleUp where an earlier one raised, which is what LangGraph tells of the node."""
        if self._over:
            raise GraphBubbleUp("An earlier call of this node has ended it.")
        try:
            yield
        except BaseException:
            self._over = True
            for event in self._events:  # also of those that LangGraph takes back before they begin
                event.set()
            raise
        done.set()
