"""What tests read of a thread: its checkpoints, its messages, everything that is stored of it."""

from __future__ import annotations

from typing import Any

from agents import history, registry
from agents.checkpointer import DjangoSaver
from agents.head import read_head
from agents.models import (
    Checkpoint,
    CheckpointPiece,
    CheckpointWrite,
    LedgerIncident,
    Run,
    Thread,
    ToolCall,
    ToolExecution,
    ToolPermit,
)
from agents.outcome import Ask


def ids(thread_id: str, namespace: str = "") -> list[str]:
    """All checkpoint ids, newest first."""
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns=namespace).order_by("-pk")
    return list(rows.values_list("checkpoint_id", flat=True))


def first_at(thread_id: str, node: str) -> str:
    """The oldest checkpoint at which a node is due."""
    page = history.timeline(thread_id, limit=200)
    return next(one.point.checkpoint_id for one in reversed(page.steps) if node in one.next)


def messages(thread_id: str) -> list[Any]:
    saved = DjangoSaver().get_tuple({"configurable": {"thread_id": thread_id}})
    assert saved is not None
    return list(saved.checkpoint["channel_values"]["messages"])


def asks(thread_id: str) -> tuple[Ask, ...]:
    """What waits at the head now."""
    return read_head(registry.get(Thread.objects.get(pk=thread_id).agent_id), thread_id, "").asks


def everything(thread_id: str) -> dict[str, list[str]]:
    """All that is stored of a thread, but for its own row."""
    tables: tuple[Any, ...] = (
        Checkpoint, CheckpointWrite, CheckpointPiece, Run, ToolCall, ToolPermit, ToolExecution, LedgerIncident
    )  # fmt: skip
    return {model.__name__: sorted(map(_told, model.objects.filter(thread_id=thread_id).values())) for model in tables}


def _told(row: dict[str, Any]) -> str:
    return repr({key: bytes(value) if isinstance(value, memoryview) else value for key, value in row.items()})


def answered(thread_id: str) -> set[str]:
    """The ids of all questions that were answered in a thread."""
    payloads: list[Any] = list(Run.objects.filter(thread_id=thread_id, kind="resume").values_list("payload", flat=True))
    return {payload["interrupt_id"] for payload in payloads}
