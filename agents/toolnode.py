"""Where the ledger sits: around the execution of every ToolNode of this process. The one place that knows
LangGraph's privates.

On the class, not on nodes: an agent that is built inside a tool has a ToolNode which no walk over the graph finds.
What runs without the runner's mark (another program, a test of a graph) passes through.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import threading
from contextvars import ContextVar
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode

from agents import ledger

LANGGRAPH = "1.2.24"

# Events of the calls that share a task, by (thread, task): set by the runner for one drive, shared by all its contexts.
turns: ContextVar[dict[tuple[str, str], dict[str, Any]] | None] = ContextVar("turns", default=None)


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
    """Let calls that share a task run one after the other, in call order.

    ``create_agent`` gives each call a task. A bare ToolNode runs all calls in one, in parallel, and LangGraph hands
    answers out by counting the task's interrupts: with two tools that ask, the quicker one would get the other's
    answer.
    """
    run_one, arun_one = ToolNode._run_one, ToolNode._arun_one

    def in_turn(node: ToolNode, call: Any, input_type: Any, runtime: Any) -> Any:
        before, done = _turn(call, input_type, runtime, threading.Event)
        if before:
            before.wait()
        try:
            return run_one(node, call, input_type, runtime)
        finally:
            if done:
                done.set()

    async def ain_turn(node: ToolNode, call: Any, input_type: Any, runtime: Any) -> Any:
        before, done = _turn(call, input_type, runtime, asyncio.Event)
        if before:
            await before.wait()
        try:
            return await arun_one(node, call, input_type, runtime)
        finally:
            if done:
                done.set()

    ToolNode._run_one = in_turn  # type: ignore[method-assign,assignment]
    ToolNode._arun_one = ain_turn  # type: ignore[method-assign,assignment]


def _turn(call: Any, input_type: Any, runtime: Any, event: Any) -> tuple[Any, Any]:
    """Return (event to wait for, event to set) of one call; None where there is nothing to wait for or nobody waits."""
    shared = turns.get()
    info = runtime.execution_info
    if shared is None or input_type == "tool_calls" or info is None:
        return None, None
    ids = ledger.call_ids(runtime.state, call["id"])
    events = shared.setdefault((str(info.thread_id), info.task_id), {})
    position = ids.index(call["id"]) if call["id"] in ids else 0
    before = events.setdefault(ids[position - 1], event()) if position else None
    return before, events.setdefault(call["id"], event())
