"""What ran, written down: started before the tool; finished, failed or paused after it; under its worker's token."""

from __future__ import annotations

import logging
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from agents.checkpointer import StrictSerializer
from agents.compiled import CompiledUpdate, insert
from agents.ledger.attempts import Attempt, Step
from agents.models import LedgerIncident, ToolExecution
from agents.outcome import digest

log = logging.getLogger(__name__)

SUMMARY = 4_000  # characters of a result that are kept as text for people

_serde = StrictSerializer()


def ask(attempt: Attempt, row: ToolExecution | None, question: str) -> Step:
    if row is None:
        put(attempt, None, ToolExecution.Status.ASKED, entered=0, questions=[question])
        return Step("ask", questions=(question,))
    ToolExecution.objects.filter(pk=row.pk).update(questions=[*row.questions, question])
    return Step("ask", questions=(*row.questions, question))


def start(attempt: Attempt, row: ToolExecution | None, *, args: dict[str, Any] | None = None) -> Step:
    put(attempt, row, ToolExecution.Status.STARTED, entered=1, args=args)
    return Step("run", args=args)


def put(
    attempt: Attempt,
    row: ToolExecution | None,
    status: str,
    *,
    entered: int,
    args: dict[str, Any] | None = None,
    questions: list[str] | None = None,
) -> None:
    """Write an execution down. ``row``: what stands there; its thread is locked, so nobody else writes one."""
    runs_with = attempt.args if args is None else args
    state = {
        "run_id": attempt.run_id,
        "token": attempt.token,
        "args": runs_with,
        "digest": digest({"name": attempt.name, "args": runs_with}),
        "status": status,
        "started_at": Now(),
    }
    named = {
        "thread_id": attempt.thread_id,
        "namespace": attempt.namespace,
        "checkpoint_id": attempt.checkpoint_id,
        "task_id": attempt.task_id,
        "message_id": attempt.key.message_id,
        "tool_call_id": attempt.key.tool_call_id,
        "name": attempt.name,
        "idempotent": attempt.idempotent,
    }
    first = {**named, **state, "calls": entered, "questions": questions or []}
    if row is None:
        insert([ToolExecution(pk=attempt.execution_id, **first)])
    else:
        ToolExecution.objects.filter(pk=row.pk).update(**state, calls=F("calls") + entered)


def close(attempt: Attempt, **changes: Any) -> None:
    """Close an execution that this token started. A late worker changes nothing."""
    mine = ToolExecution.objects.filter(
        pk=attempt.execution_id, status=ToolExecution.Status.STARTED, token=attempt.token
    )
    _expect(attempt, mine.update(finished_at=Now(), **changes))


def _expect(attempt: Attempt, closed: int) -> None:
    if not closed:
        log.warning("a late result was not recorded", extra={"execution": str(attempt.execution_id)})


def _finishing(**more: Any) -> CompiledUpdate:
    return CompiledUpdate(
        lambda pk, token, kind, blob, summary, is_error, interrupts: (
            ToolExecution.objects.filter(pk=pk, status=ToolExecution.Status.STARTED, token=token),
            {
                "status": ToolExecution.Status.FINISHED,
                "finished_at": Now(),
                "result_type": kind,
                "result": blob,
                "summary": summary,
                "is_error": is_error,
                "interrupts": interrupts,
                **more,
            },
        )
    )


_NOT_ENTERED = {"refused": True, "calls": F("calls") - 1}
_FINISH = _finishing()
_FINISH_REFUSED = _finishing(**_NOT_ENTERED)


def finish(attempt: Attempt, result: Any, *, interrupts: int = 0, refused: bool = False) -> None:
    """Keep a result. ``refused``: the tool refused the arguments, so it was counted as begun and never was."""
    kind, blob = _serde.dumps_typed(result)
    is_error, summary = getattr(result, "status", "") == "error", summary_of(result)[:SUMMARY]
    write = _FINISH_REFUSED if refused else _FINISH
    _expect(attempt, write(attempt.execution_id, attempt.token, kind, blob, summary, is_error, interrupts))


def result_of(row: ToolExecution) -> Any:
    """Return what a finished execution gave back, as the tool gave it: a tool message, or a Command."""
    return _serde.loads_typed((row.result_type, bytes(row.result or b"")))


def fail(attempt: Attempt, error: BaseException, *, refused: bool = False) -> None:
    close(
        attempt,
        status=ToolExecution.Status.FAILED,
        summary=summary_of(f"{type(error).__name__}: {error}")[:SUMMARY],
        is_error=True,
        **(_NOT_ENTERED if refused else {}),
    )


def pause(attempt: Attempt) -> None:
    close(attempt, status=ToolExecution.Status.PAUSED, was_paused=True)


def summary_of(result: Any) -> str:
    """Return the text of a tool's result, for people. NUL is made visible: PostgreSQL has no text that holds it."""
    content = getattr(result, "content", result)
    text = content if isinstance(content, str) else str(content)
    return text.replace("\x00", "\u2400").encode("utf-8", "backslashreplace").decode("utf-8")


def incident(attempt: Attempt, kind: str, detail: dict[str, Any]) -> None:
    LedgerIncident.objects.create(
        thread_id=attempt.thread_id,
        run_id=attempt.run_id,
        message_id=attempt.key.message_id,
        tool_call_id=attempt.key.tool_call_id,
        kind=kind,
        detail={**detail, "name": attempt.name, "args": attempt.args},
    )
