"""What the catalog's tools and middleware have in common."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.tools import ToolRuntime
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel

from agents import demo

Answer = ToolMessage | Command[Any]


def demo_tool(schema: type[BaseModel], *, idempotent: bool = False) -> Callable[[Callable[..., str]], BaseTool]:
    """Turn a function into a tool with typed arguments, whose refusals reach the model as error results.

    ``idempotent``: a second call by the same execution changes nothing, so the desk may repeat it after a crash.
    """

    def wrap(function: Callable[..., str]) -> BaseTool:
        @functools.wraps(function)
        def refusing(*args: Any, **kwargs: Any) -> str:
            try:
                return function(*args, **kwargs)
            except demo.Refused as problem:
                raise ToolException(str(problem)) from problem

        made = tool(args_schema=schema)(refusing)
        made.metadata = {"idempotent": idempotent}
        made.handle_tool_error = True
        return made

    return wrap


def origin(runtime: ToolRuntime[Any, Any] | Runtime[Any]) -> demo.Origin:
    """Say which execution this is; the tool call's id where it is a tool that runs."""
    execution = runtime.execution_info
    return demo.Origin(
        tool_call_id=getattr(runtime, "tool_call_id", None) or "",
        thread_id=(execution.thread_id if execution else None) or "",
        task_id=(execution.task_id if execution else None) or "",
    )


class CountedState(AgentState[Any]):
    """The state of an agent whose model calls are counted."""

    model_calls: NotRequired[int]


class CallCounter(AgentMiddleware[AgentState[Any], Any, Any]):
    """Counts in the agent's state how often its model was asked."""

    state_schema = CountedState

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        counted = cast(CountedState, state)
        return {"model_calls": counted.get("model_calls", 0) + 1}

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        return self.before_model(state, runtime)


class ToolTimer(AgentMiddleware[AgentState[Any], Any, Any]):
    """Times each tool and tells it on the stream's custom channel, in milliseconds.

    Listed after HumanInTheLoopMiddleware, so that the time people took does not count. A tool that pauses says nothing.
    """

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        start = time.monotonic()
        answer = handler(request)
        self._tell(request, start)
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        start = time.monotonic()
        answer = await handler(request)
        self._tell(request, start)
        return answer

    def _tell(self, request: ToolCallRequest, start: float) -> None:
        took = round((time.monotonic() - start) * 1000)
        request.runtime.stream_writer({"timed": request.tool_call["name"], "milliseconds": took})
