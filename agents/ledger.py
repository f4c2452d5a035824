"""The last gate before a tool, and the record of what ran, once.

``toolnode.install`` puts :func:`guard` innermost around the execution of every ToolNode, so what is judged here is what
would run: after edits, after every middleware. A call that people were asked about runs only with a permit for exactly
this name and these arguments, and one permit serves one execution. To refuse is to return an error message, never to
raise: an exception would cancel the sibling calls in the middle of their tools.

An execution is keyed (thread, namespace, task, call). A crash, a retry and a second resume keep the task id; a fork, a
rewind and a replay change it, and then it is another execution that needs a permit of its own.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from langchain_core.messages import AIMessage, ToolMessage

from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt

from agents import connections
from agents.checkpointer import StrictSerializer
from agents.models import Checkpoint, LedgerIncident, Thread, ToolCall, ToolExecution, ToolPermit, run_of
from agents.outcome import CallKey, digest

log = logging.getLogger(__name__)

NAMESPACE = uuid.UUID("6f7c1f0e-6d5b-4a53-9a2e-6b0f0f3f7f11")  # of execution ids: UUID5 of their key
SUMMARY = 4_000  # characters of a result that are kept as text for people

_serde = StrictSerializer()

# Async handlers in flight. The runner sets it and awaits them all before it leaves the loop: shield alone does not help,
# because LangGraph closes the loop when a sibling raises.
in_flight: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("in_flight", default=None)

# The execution a tool runs in: its id is the idempotency key that a tool may hand on.
current_execution: ContextVar[str] = ContextVar("current_execution", default="")


@dataclass(frozen=True)
class Attempt:
    """One call as it stands right before the tool: who asks to run what, under which token."""

    thread_id: str
    namespace: str
    task_id: str
    key: CallKey
    run_id: str
    token: int
    name: str
    args: dict[str, Any]
    idempotent: bool

    @property
    def execution_id(self) -> uuid.UUID:
        parts = (self.thread_id, self.namespace, self.task_id, self.key.message_id, self.key.tool_call_id)
        return uuid.uuid5(NAMESPACE, "\x1f".join(parts))

    @property
    def digest(self) -> str:
        return digest({"name": self.name, "args": self.args})


@dataclass(frozen=True)
class Step:
    """What the ledger says: run it (perhaps with other arguments), give back, refuse, or ask people first."""

    act: Literal["run", "give back", "refuse", "ask"]
    args: dict[str, Any] | None = None
    result: Any = None
    interrupts: int = 0  # answers that the tool took, which a given-back result must count again
    text: str = ""
    question: str = ""


# ----------------------------------------------------------------------------------------------------------------- guard


def guard(request: Any, execute: Callable[[Any], Any]) -> Any:
    """Judge one call, run it at most once, record it. The sync wrapper around a ToolNode's ``execute``."""
    if request.tool is None or not _is_ours(request):
        return execute(request)
    attempt = attempt_of(request)
    step = _ask_and_judge(attempt, connections.run(_questions, attempt))
    if step.act != "run":
        return _message(attempt, step)
    mark = current_execution.set(str(attempt.execution_id))
    asked_before = _interrupts(request)
    try:
        result = execute(_with_args(request, step))
    except GraphBubbleUp:
        connections.run(_pause, attempt)
        raise
    except BaseException as error:
        connections.run(_fail, attempt, error)
        raise
    finally:
        current_execution.reset(mark)
    connections.run(_finish, attempt, result, interrupts=_interrupts(request) - asked_before)
    return result


async def aguard(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do what :func:`guard` does for async tools. Once judged, the tool runs to its end even if its task is cancelled.

    Judging belongs to the shielded part: a cancellation right after it would leave a start that never was one.
    """
    if request.tool is None or not _is_ours(request):
        return await execute(request)
    task = asyncio.ensure_future(_arun(attempt_of(request), request, execute))
    if (tasks := in_flight.get()) is not None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    return await asyncio.shield(task)


async def _arun(attempt: Attempt, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
    step = await _aask_and_judge(attempt, await connections.arun(_questions, attempt))
    if step.act != "run":
        return _message(attempt, step)
    current_execution.set(str(attempt.execution_id))  # this task has a context of its own
    asked_before = _interrupts(request)
    try:
        result = await execute(_with_args(request, step))
    except GraphBubbleUp:
        await connections.arun(_pause, attempt)
        raise
    except BaseException as error:
        await connections.arun(_fail, attempt, error)
        raise
    await connections.arun(_finish, attempt, result, interrupts=_interrupts(request) - asked_before)
    return result


def _interrupts(request: Any) -> int:
    """Count the interrupts of the task so far. LangGraph has no public name for it: the counter is an itertools.count."""
    counter = request.runtime.config["configurable"]["__pregel_scratchpad"].interrupt_counter._counter
    return 0 if counter is None else int(repr(counter.__self__)[len("count(") : -1])


def _is_ours(request: Any) -> bool:
    """Tell whether the desk's runner runs this graph. (Without a tool of that name the ToolNode says so, and nothing runs.)"""
    return run_of(request.runtime.config)[1] is not None


def attempt_of(request: Any) -> Attempt:
    """Read from a ToolCallRequest who wants to run what."""
    runtime, call = request.runtime, request.tool_call
    configurable = runtime.config.get("configurable", {})
    run_id, token = run_of(runtime.config)
    own = runtime.execution_info.checkpoint_ns if runtime.execution_info else configurable.get("checkpoint_ns", "")
    parent, _, last = own.rpartition("|")
    message = _message_of(request.state, call["id"])
    metadata = getattr(request.tool, "metadata", None) or {}
    return Attempt(
        thread_id=str(configurable.get("thread_id", "")),
        namespace=parent,
        task_id=last.partition(":")[2],
        key=CallKey(message.id or "" if message else "", call["id"] or ""),
        run_id=run_id,
        token=token or 0,
        name=call["name"],
        args=call["args"],
        idempotent=metadata.get("idempotent") is True,
    )


def _message_of(state: Any, tool_call_id: str) -> AIMessage | None:
    messages = state if isinstance(state, list) else _get(state, "messages") or []
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(call["id"] == tool_call_id for call in message.tool_calls):
            return message
    return None


def call_ids(state: Any, tool_call_id: str) -> list[str]:
    """Return the ids of all calls of the message that made this call, in order; [] when it is not found."""
    message = _message_of(state, tool_call_id)
    return [call["id"] or "" for call in message.tool_calls] if message else []


def _get(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, dict) else getattr(state, name, None)


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


# ------------------------------------------------------------------------------------------------------------- questions


def _ask_and_judge(attempt: Attempt, questions: list[str]) -> Step:
    answer = _replay(attempt, questions)
    step = connections.run(judge, attempt, questions, answer)
    while step.act == "ask":
        questions = [*questions, step.question]
        answer = _replay(attempt, questions[-1:])  # raises GraphInterrupt, unless the answer is there already
        step = connections.run(judge, attempt, questions, answer)
    return step


async def _aask_and_judge(attempt: Attempt, questions: list[str]) -> Step:
    answer = _replay(attempt, questions)
    step = await connections.arun(judge, attempt, questions, answer)
    while step.act == "ask":
        questions = [*questions, step.question]
        answer = _replay(attempt, questions[-1:])
        step = await connections.arun(judge, attempt, questions, answer)
    return step


def _replay(attempt: Attempt, questions: list[str]) -> Any:
    """Ask again what was asked before, in the same order: LangGraph hands answers out by position. Returns the last one."""
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


def _questions(attempt: Attempt) -> list[str]:
    row = ToolExecution.objects.filter(pk=attempt.execution_id).values_list("questions", flat=True).first()
    return list(row or [])


# ----------------------------------------------------------------------------------------------------------------- judge


def judge(attempt: Attempt, questions: list[str], answer: Any) -> Step:
    """Decide what happens to one call, and store it, in one transaction. ``answer``: to the last of ``questions``."""
    with transaction.atomic():
        if (late := _late(attempt)) is not None:
            return late
        row = ToolExecution.objects.select_for_update().filter(pk=attempt.execution_id).first()
        if row is not None and row.status == ToolExecution.Status.FINISHED:
            result = _serde.loads_typed((row.result_type, bytes(row.result or b"")))
            return Step("give back", result=result, interrupts=row.interrupts)
        if row is not None and _is_unknown(attempt, row):
            return _judge_unknown(attempt, row, questions, answer)
        if questions:
            return _judge_answer(attempt, answer)
        return _judge_call(attempt)


def _late(attempt: Attempt) -> Step | None:
    """Refuse a worker whose lease is over: somebody else may be running this very call."""
    now = Thread.objects.select_for_update().filter(pk=attempt.thread_id).values_list("token", flat=True).first()
    if now is None or now == attempt.token:
        return None
    _incident(attempt, "stale token", {"token": attempt.token, "current": now})
    return Step("refuse", text=f"{attempt.name} was not run: another worker has taken over this thread.")


def _judge_call(attempt: Attempt) -> Step:
    lineage = _lineage(attempt.thread_id)
    asked = set(
        ToolCall.objects.filter(
            thread_id__in=lineage, message_id=attempt.key.message_id, tool_call_id=attempt.key.tool_call_id
        ).values_list("thread_id", flat=True)
    )
    if not asked:
        return _start(attempt)
    permit = _usable_permit(attempt)
    if permit is None:
        return _ask(attempt, "permit")
    return _use(attempt, permit)


def _judge_answer(attempt: Attempt, answer: Any) -> Step:
    """The ledger asked and was answered. The answer counts only with the permit that the desk stored beside it."""
    verdict = answer.get("type") if isinstance(answer, dict) else None
    permit = _usable_permit(attempt)
    if permit is None or permit.verdict != verdict:
        _incident(attempt, "answer without a permit", {"answer": verdict})
        return Step("refuse", text=f"{attempt.name} was not run: nobody permitted it here.")
    match verdict:
        case "approve":
            return _use(attempt, permit)
        case "edit":
            edited = (answer.get("edited_action") or {}).get("args")
            return _use(attempt, permit, args=edited)
        case "respond":
            return _settle(attempt, permit, str(answer.get("message", "")), status="success")
        case _:
            return _settle(attempt, permit, _rejected(attempt, answer.get("message")), status="error")


def _rejected(attempt: Attempt, reason: Any) -> str:
    told = f" with reason: {reason}" if reason else ""
    return f"A reviewer rejected the tool call for `{attempt.name}`{told}. The tool was not executed."


def _usable_permit(attempt: Attempt) -> ToolPermit | None:
    """Return the newest permit for this call in this thread that no other execution has used."""
    mine = Q(execution__isnull=True) | Q(execution=attempt.execution_id)
    return (
        ToolPermit.objects.select_for_update()
        .filter(
            mine,
            thread_id=attempt.thread_id,
            message_id=attempt.key.message_id,
            tool_call_id=attempt.key.tool_call_id,
        )
        .order_by("-pk")
        .first()
    )


def _use(attempt: Attempt, permit: ToolPermit, *, args: dict[str, Any] | None = None) -> Step:
    would_run = attempt.digest if args is None else digest({"name": attempt.name, "args": args})
    if permit.verdict not in ("approve", "edit"):
        _incident(attempt, "rejected call", {"verdict": permit.verdict})
        return Step("refuse", text=f"{attempt.name} was not run: a reviewer decided {permit.verdict}.")
    if permit.digest != would_run:
        _incident(attempt, "digest differs", {"permitted": permit.digest, "would run": would_run})
        return Step("refuse", text=f"{attempt.name} was not run: its arguments are not those that were approved.")
    _bind(attempt, permit)
    return _start(attempt, args=args)


def _bind(attempt: Attempt, permit: ToolPermit) -> None:
    ToolPermit.objects.filter(pk=permit.pk).update(execution=attempt.execution_id)


def _settle(attempt: Attempt, permit: ToolPermit, text: str, *, status: Literal["success", "error"]) -> Step:
    """Store an answer given in the tool's place as the result; the tool never runs."""
    _bind(attempt, permit)
    message = ToolMessage(
        content=text, name=attempt.name, tool_call_id=attempt.key.tool_call_id, status=status
    )
    _put(attempt, ToolExecution.Status.STARTED, entered=0)
    _finish(attempt, message)
    return Step("give back", result=message)


def _lineage(thread_id: str) -> list[str]:
    thread = Thread.objects.select_related("ancestor").filter(pk=thread_id).first()
    return thread.lineage() if thread else [thread_id]


# --------------------------------------------------------------------------------------------------------------- unknown


def _is_unknown(attempt: Attempt, row: ToolExecution) -> bool:
    """Started by a worker that never said how it ended."""
    return row.status == ToolExecution.Status.STARTED and row.token != (attempt.token)


def _judge_unknown(attempt: Attempt, row: ToolExecution, questions: list[str], answer: Any) -> Step:
    args = row.args if row.digest != attempt.digest else None
    if attempt.idempotent or _has_inner_agent(attempt):
        return _start(attempt, args=args)
    if questions[-1:] == ["unknown"]:
        return _judge_unknown_answer(attempt, answer, args)
    if row.was_paused:
        # Another interrupt would receive the answer that was meant for the tool's own question.
        _incident(attempt, "outcome unknown", {"execution": str(row.pk)})
        return Step("refuse", text=f"{attempt.name} was not run again: nobody knows whether it ran before its worker died.")
    return _ask(attempt, "unknown")


def _judge_unknown_answer(attempt: Attempt, answer: Any, args: dict[str, Any] | None) -> Step:
    verdict = answer.get("type") if isinstance(answer, dict) else None
    permit = ToolPermit.objects.filter(
        thread_id=attempt.thread_id, run_id=_uuid(attempt.run_id), verdict=verdict or "", execution__isnull=True
    ).last()
    if permit is None:
        _incident(attempt, "answer without a permit", {"answer": verdict})
        return Step("refuse", text=f"{attempt.name} was not run again: nobody permitted it.")
    _bind(attempt, permit)
    match verdict:
        case "approve":
            return _start(attempt, args=args)
        case "respond":
            message = str(answer.get("message", ""))
            return _record(attempt, message, status="success")
        case _:
            reason = answer.get("message") or "its worker stopped before it ran"
            return _record(attempt, f"{attempt.name} did not run: {reason}.", status="error")


def _record(attempt: Attempt, text: str, *, status: Literal["success", "error"]) -> Step:
    message = ToolMessage(content=text, name=attempt.name, tool_call_id=attempt.key.tool_call_id, status=status)
    ToolExecution.objects.filter(pk=attempt.execution_id).update(
        token=attempt.token, run_id=attempt.run_id
    )
    _finish(attempt, message)
    return Step("give back", result=message)


def _uuid(text: str) -> uuid.UUID | None:
    return uuid.UUID(text) if text else None


def _has_inner_agent(attempt: Attempt) -> bool:
    """An agent inside the tool left checkpoints: run it again without asking, its inner calls are judged one by one."""
    inner = Q(ns__endswith=f":{attempt.task_id}") | Q(ns__contains=f":{attempt.task_id}|")
    return Checkpoint.objects.filter(inner, thread_id=attempt.thread_id).exists()


# ---------------------------------------------------------------------------------------------------------------- record


def _ask(attempt: Attempt, question: str) -> Step:
    row = ToolExecution.objects.filter(pk=attempt.execution_id).first()
    if row is None:
        _put(attempt, ToolExecution.Status.ASKED, entered=0, questions=[question])
    else:
        ToolExecution.objects.filter(pk=row.pk).update(questions=[*row.questions, question])
    return Step("ask", question=question)


def _start(attempt: Attempt, *, args: dict[str, Any] | None = None) -> Step:
    _put(attempt, ToolExecution.Status.STARTED, entered=1, args=args)
    return Step("run", args=args)


def _put(
    attempt: Attempt,
    status: str,
    *,
    entered: int,
    args: dict[str, Any] | None = None,
    questions: list[str] | None = None,
) -> None:
    runs_with = attempt.args if args is None else args
    row, created = ToolExecution.objects.get_or_create(
        pk=attempt.execution_id,
        defaults={
            "thread_id": attempt.thread_id,
            "namespace": attempt.namespace,
            "task_id": attempt.task_id,
            "message_id": attempt.key.message_id,
            "tool_call_id": attempt.key.tool_call_id,
            "run_id": attempt.run_id,
            "token": attempt.token,
            "name": attempt.name,
            "args": runs_with,
            "digest": digest({"name": attempt.name, "args": runs_with}),
            "status": status,
            "calls": entered,
            "questions": questions or [],
            "started_at": Now(),
        },
    )
    if not created:
        ToolExecution.objects.filter(pk=row.pk).update(
            status=status,
            token=attempt.token,
            run_id=attempt.run_id,
            args=runs_with,
            digest=digest({"name": attempt.name, "args": runs_with}),
            calls=F("calls") + entered,
            started_at=Now(),
        )


def _close(attempt: Attempt, **changes: Any) -> None:
    """Close an execution that this token started. A late worker changes nothing."""
    mine = ToolExecution.objects.filter(
        pk=attempt.execution_id, status=ToolExecution.Status.STARTED, token=attempt.token
    )
    if not mine.update(finished_at=Now(), **changes):
        log.warning("a late result was not recorded", extra={"execution": str(attempt.execution_id)})


def _finish(attempt: Attempt, result: Any, *, interrupts: int = 0) -> None:
    kind, blob = _serde.dumps_typed(result)
    _close(
        attempt,
        status=ToolExecution.Status.FINISHED,
        result_type=kind,
        result=blob,
        summary=summary_of(result)[:SUMMARY],
        is_error=getattr(result, "status", "") == "error",
        interrupts=interrupts,
    )


def _fail(attempt: Attempt, error: BaseException) -> None:
    _close(attempt, status=ToolExecution.Status.FAILED, summary=summary_of(f"{type(error).__name__}: {error}")[:SUMMARY], is_error=True)


def _pause(attempt: Attempt) -> None:
    _close(attempt, status=ToolExecution.Status.PAUSED, was_paused=True)


def summary_of(result: Any) -> str:
    """Return the text of a tool's result, for people. NUL is made visible: PostgreSQL has no text that holds it."""
    content = getattr(result, "content", result)
    text = content if isinstance(content, str) else str(content)
    return text.replace("\x00", "\u2400").encode("utf-8", "backslashreplace").decode("utf-8")


def _incident(attempt: Attempt, kind: str, detail: dict[str, Any]) -> None:
    LedgerIncident.objects.create(
        thread_id=attempt.thread_id,
        run_id=attempt.run_id,
        message_id=attempt.key.message_id,
        tool_call_id=attempt.key.tool_call_id,
        kind=kind,
        detail={**detail, "name": attempt.name, "args": attempt.args},
    )
