"""May this call run? Looks the call up in its thread and the thread's ancestors, and stores what it decides.

Never asked: pass. Asked here, with an unused permit for exactly this name and these arguments: run. Asked here and
rejected, answered, or with other arguments: refuse. Asked here or in an ancestor without a usable permit: ask.
Started by a worker that never said how it ended: run again where that does no harm, else ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.db import transaction
from django.db.models import Q
from langchain_core.messages import ToolMessage

from agents.compiled import Compiled, CompiledUpdate
from agents.ledger import records
from agents.ledger.attempts import Attempt, Step
from agents.models import Checkpoint, Thread, ToolCall, ToolExecution, ToolPermit
from agents.outcome import digest

# The first three lock what they find, inside the transaction of `judge`.
_THREAD = Compiled(lambda pk: Thread.objects.select_for_update().only("token", "ancestor_id").filter(pk=pk))
_EXECUTION = Compiled(lambda pk: ToolExecution.objects.select_for_update().filter(pk=pk))
_PERMIT = Compiled(
    lambda thread, message, call, execution: (
        ToolPermit.objects.select_for_update()
        .filter(
            Q(execution__isnull=True) | Q(execution=execution),
            thread=thread,
            message_id=message,
            tool_call_id=call,
            void=False,
        )
        .order_by("-pk")[:1]
    )
)
_BIND = CompiledUpdate(lambda pk, execution: (ToolPermit.objects.filter(pk=pk), {"execution": execution}))
_ASKED = Compiled(
    lambda threads, message, call: ToolCall.objects.filter(
        thread__any_of=threads, message_id=message, tool_call_id=call
    ).values_list("pk", flat=True)[:1]
)


def judge(attempt: Attempt, questions: Sequence[str], answer: Any) -> Step:
    """Decide what happens to one call, and store it, in one transaction.

    ``questions``: of the ledger's own, those that this run of the task asked so far; ``answer``: to the last of them.
    Where more were asked before, the step is to ask them again.
    """
    with transaction.atomic():
        thread = _THREAD.first(attempt.thread_id)
        if (late := _late(attempt, thread)) is not None:
            return late
        row = _EXECUTION.first(attempt.execution_id)
        if row is not None and (asked := tuple(row.questions)) != tuple(questions):
            return Step("ask", questions=asked)
        if row is not None and row.status == ToolExecution.Status.FINISHED:
            return Step("give back", result=records.result_of(row), interrupts=row.interrupts)
        if row is not None and _is_unknown(attempt, row):
            return _judge_unknown(attempt, row, questions, answer)
        if questions:
            return _judge_answer(attempt, row, answer)
        return _judge_call(attempt, row, thread.lineage() if thread else [attempt.thread_id])


def _late(attempt: Attempt, thread: Thread | None) -> Step | None:
    """Refuse a worker whose lease is over: somebody else may be running this very call."""
    if thread is None or thread.token == attempt.token:
        return None
    records.incident(attempt, "stale token", {"token": attempt.token, "current": thread.token})
    return Step("refuse", text=f"{attempt.name} was not run: another worker has taken over this thread.")


def _judge_call(attempt: Attempt, row: ToolExecution | None, lineage: Sequence[str]) -> Step:
    if not _ASKED(lineage, attempt.key.message_id, attempt.key.tool_call_id):
        return records.start(attempt, row)
    permit = _usable_permit(attempt)
    if permit is None:
        return records.ask(attempt, row, "permit")
    return _use(attempt, row, permit)


def _judge_answer(attempt: Attempt, row: ToolExecution | None, answer: Any) -> Step:
    """The ledger asked and was answered. The answer counts only with the permit that the desk stored beside it."""
    verdict = answer.get("type") if isinstance(answer, dict) else None
    permit = _usable_permit(attempt)
    if permit is None or permit.verdict != verdict:
        records.incident(attempt, "answer without a permit", {"answer": verdict})
        return Step("refuse", text=f"{attempt.name} was not run: nobody permitted it here.")
    match verdict:
        case "approve":
            return _use(attempt, row, permit)
        case "edit":
            edited = (answer.get("edited_action") or {}).get("args")
            return _use(attempt, row, permit, args=edited)
        case "respond":
            return _settle(attempt, row, permit, str(answer.get("message", "")), status="success")
        case _:
            return _settle(attempt, row, permit, _rejected(attempt, answer.get("message")), status="error")


def _rejected(attempt: Attempt, reason: Any) -> str:
    told = f" with reason: {reason}" if reason else ""
    return f"A reviewer rejected the tool call for `{attempt.name}`{told}. The tool was not executed."


def _usable_permit(attempt: Attempt) -> ToolPermit | None:
    """Return the newest permit for this call in this thread that no other execution has used."""
    return _PERMIT.first(attempt.thread_id, attempt.key.message_id, attempt.key.tool_call_id, attempt.execution_id)


def _use(
    attempt: Attempt, row: ToolExecution | None, permit: ToolPermit, *, args: dict[str, Any] | None = None
) -> Step:
    would_run = attempt.digest if args is None else digest({"name": attempt.name, "args": args})
    if permit.verdict not in ("approve", "edit"):
        records.incident(attempt, "rejected call", {"verdict": permit.verdict})
        return Step("refuse", text=f"{attempt.name} was not run: a reviewer decided {permit.verdict}.")
    if permit.digest != would_run:
        records.incident(attempt, "digest differs", {"permitted": permit.digest, "would run": would_run})
        return Step("refuse", text=f"{attempt.name} was not run: its arguments are not those that were approved.")
    _bind(attempt, permit)
    return records.start(attempt, row, args=args)


def _bind(attempt: Attempt, permit: ToolPermit) -> None:
    _BIND(permit.pk, attempt.execution_id)


def _settle(
    attempt: Attempt, row: ToolExecution | None, permit: ToolPermit, text: str, *, status: Literal["success", "error"]
) -> Step:
    """Store an answer given in the tool's place as the result; the tool never runs."""
    _bind(attempt, permit)
    message = ToolMessage(content=text, name=attempt.name, tool_call_id=attempt.key.tool_call_id, status=status)
    records.put(attempt, row, ToolExecution.Status.STARTED, entered=0)
    records.finish(attempt, message)
    return Step("give back", result=message)


# -------------------------------------------------------------------------------------------------------------- unknown


def _is_unknown(attempt: Attempt, row: ToolExecution) -> bool:
    """Started by a worker that never said how it ended."""
    return row.status == ToolExecution.Status.STARTED and row.token != attempt.token


def _judge_unknown(attempt: Attempt, row: ToolExecution, questions: Sequence[str], answer: Any) -> Step:
    args = row.args if row.digest != attempt.digest else None
    if attempt.idempotent or _has_inner_agent(attempt):
        return records.start(attempt, row, args=args)
    if questions and questions[-1] == "unknown":
        return _judge_unknown_answer(attempt, row, answer, args)
    if row.was_paused:
        # Another interrupt would receive the answer that was meant for the tool's own question.
        records.incident(attempt, "outcome unknown", {"execution": str(row.pk)})
        return Step(
            "refuse", text=f"{attempt.name} was not run again: nobody knows whether it ran before its worker died."
        )
    return records.ask(attempt, row, "unknown")


def _judge_unknown_answer(attempt: Attempt, row: ToolExecution, answer: Any, args: dict[str, Any] | None) -> Step:
    verdict = answer.get("type") if isinstance(answer, dict) else None
    permit = ToolPermit.objects.filter(
        thread_id=attempt.thread_id, run_id=attempt.run_id, verdict=verdict or "", execution__isnull=True
    ).last()
    if permit is None:
        records.incident(attempt, "answer without a permit", {"answer": verdict})
        return Step("refuse", text=f"{attempt.name} was not run again: nobody permitted it.")
    _bind(attempt, permit)
    match verdict:
        case "approve":
            return records.start(attempt, row, args=args)
        case "respond":
            message = str(answer.get("message", ""))
            return _record(attempt, message, status="success")
        case _:
            reason = answer.get("message") or "its worker stopped before it ran"
            return _record(attempt, f"{attempt.name} did not run: {reason}.", status="error")


def _record(attempt: Attempt, text: str, *, status: Literal["success", "error"]) -> Step:
    message = ToolMessage(content=text, name=attempt.name, tool_call_id=attempt.key.tool_call_id, status=status)
    ToolExecution.objects.filter(pk=attempt.execution_id).update(token=attempt.token, run_id=attempt.run_id)
    records.finish(attempt, message)
    return Step("give back", result=message)


def _has_inner_agent(attempt: Attempt) -> bool:
    """An agent inside the tool left checkpoints: run it again without asking, its inner calls are judged one by one."""
    inner = Q(ns__endswith=f":{attempt.task_id}") | Q(ns__contains=f":{attempt.task_id}|")
    return Checkpoint.objects.filter(inner, thread_id=attempt.thread_id).exists()
