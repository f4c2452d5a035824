"""The gate itself: ask what was asked before, judge, run the tool at most once, record."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt

from agents import connections
from agents.ledger import records
from agents.ledger.attempts import Attempt, Entry, Step, attempt_of, entry, interrupts, is_ours
from agents.ledger.judging import judge

# Async handlers in flight. The runner sets it and awaits them all before it leaves the loop: shield alone does not
# help, because LangGraph closes the loop when a sibling raises.
in_flight: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("in_flight", default=None)

# Those of them whose tool is a coroutine: they can be ended in the middle. A tool in a thread cannot.
_endable: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

# Whether people ended the run. The runner sets it where there is no task to cancel: what has not begun then never does.
ended: ContextVar[Callable[[], bool]] = ContextVar("ended", default=lambda: False)

# The execution a tool runs in: its id is the idempotency key that a tool may hand on.
current_execution: ContextVar[str] = ContextVar("current_execution", default="")


class Ended(GraphBubbleUp):
    """People ended the run before this tool began."""


def guard(request: Any, execute: Callable[[Any], Any]) -> Any:
    """Judge one call, run it at most once, record it. The sync wrapper around a ToolNode's ``execute``.

    Raises Ended where people ended the run.
    """
    if request.tool is None or not is_ours(request.runtime):
        return execute(request)
    if ended.get()():
        raise Ended("People ended the run before this tool began.")
    attempt = attempt_of(request)
    step = _ask_and_judge(attempt)
    if step.act != "run":
        return _message(attempt, step)
    mark = current_execution.set(str(attempt.execution_id))
    asked_before, got = interrupts(request), Entry(request.tool)
    entered = entry.set(got)
    try:
        result = execute(_with_args(request, step))
    except GraphBubbleUp:
        connections.run(records.pause, attempt)
        raise
    except BaseException as error:
        connections.run(records.fail, attempt, error, refused=got.refused)
        raise
    finally:
        entry.reset(entered)
        current_execution.reset(mark)
    took = interrupts(request) - asked_before
    connections.run(records.finish, attempt, result, interrupts=took, refused=got.refused)
    return result


async def aguard(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do what :func:`guard` does for async tools. Once judged, the tool runs to its end even if its task is cancelled.

    Judging belongs to the shielded part: a cancellation right after it would leave a start that never was one.
    """
    if request.tool is None or not is_ours(request.runtime):
        return await execute(request)
    task = asyncio.ensure_future(_arun(attempt_of(request), request, execute))
    if (tasks := in_flight.get()) is not None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if getattr(request.tool, "coroutine", None) is not None:
        _endable.add(task)
    return await asyncio.shield(task)


def cancel_async(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """End those of ``tasks`` that can be ended. Their executions stay `started`: nobody knows what they did."""
    for task in tasks:
        if task in _endable:
            task.cancel()


async def _arun(attempt: Attempt, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
    step = await _aask_and_judge(attempt)
    if step.act != "run":
        return _message(attempt, step)
    current_execution.set(str(attempt.execution_id))  # this task has a context of its own
    asked_before, got = interrupts(request), Entry(request.tool)
    entry.set(got)
    try:
        result = await execute(_with_args(request, step))
    except GraphBubbleUp:
        await connections.arun(records.pause, attempt)
        raise
    except asyncio.CancelledError:
        raise  # a person ended it: its outcome is unknown, and that is what `started` by another token says
    except BaseException as error:
        await connections.arun(records.fail, attempt, error, refused=got.refused)
        raise
    took = interrupts(request) - asked_before
    await connections.arun(records.finish, attempt, result, interrupts=took, refused=got.refused)
    return result


def _with_args(request: Any, step: Step) -> Any:
    if step.args is None:
        return request
    return request.override(tool_call={**request.tool_call, "args": step.args})


def _message(attempt: Attempt, step: Step) -> Any:
    if step.act == "give back":
        # LangGraph hands answers out by counting a task's interrupts: skipped ones would give this answer to a sibling.
        for _ in range(step.interrupts):
            interrupt({"type": "answered before", "name": attempt.name})
        return step.result
    return ToolMessage(content=step.text, name=attempt.name, tool_call_id=attempt.key.tool_call_id, status="error")


# ------------------------------------------------------------------------------------------------------------ questions


def _ask_and_judge(attempt: Attempt) -> Step:
    asked: tuple[str, ...] = ()
    step = connections.run(judge, attempt, asked, None)
    while step.act == "ask":
        answer = _replay(attempt, step.questions[len(asked) :])  # raises GraphInterrupt where no answer is there yet
        asked = step.questions
        step = connections.run(judge, attempt, asked, answer)
    return step


async def _aask_and_judge(attempt: Attempt) -> Step:
    asked: tuple[str, ...] = ()
    step = await connections.arun(judge, attempt, asked, None)
    while step.act == "ask":
        answer = _replay(attempt, step.questions[len(asked) :])
        asked = step.questions
        step = await connections.arun(judge, attempt, asked, answer)
    return step


def _replay(attempt: Attempt, questions: Sequence[str]) -> Any:
    """Ask again what was asked before, in the same order: LangGraph hands answers out by position.

    Returns the last one.
    """
    answer = None
    for question in questions:
        answer = interrupt(_value(attempt, question), response_schema=_schema(question))
    return answer


def _value(attempt: Attempt, question: str) -> dict[str, Any]:
    call = {"tool_call_id": attempt.key.tool_call_id, "name": attempt.name, "args": attempt.args}
    if question == "unknown":
        return {"type": "outcome_unknown", "execution": str(attempt.execution_id), **call}
    words = "This call was decided elsewhere (before a fork, a rewind or a replay). Nothing runs here on that decision."
    return {"type": "tool_approval", **call, "description": words}


def _schema(question: str) -> dict[str, Any]:
    verdicts = ("approve", "reject", "respond") if question == "unknown" else ("approve", "edit", "reject", "respond")
    kinds = {verdict: {"type": "object", "properties": {"type": {"const": verdict}}} for verdict in verdicts}
    return {"$defs": kinds, "oneOf": [{"$ref": f"#/$defs/{verdict}"} for verdict in verdicts]}
