"""Who wants to run what: one call as it stands right before the tool, read from LangGraph's request."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agents.models import run_of
from agents.outcome import CallKey, digest

NAMESPACE = uuid.UUID("6f7c1f0e-6d5b-4a53-9a2e-6b0f0f3f7f11")  # of execution ids: UUID5 of their key


@dataclass(frozen=True)
class Attempt:
    """One call as it stands right before the tool: who asks to run what, under which token."""

    thread_id: str
    namespace: str
    checkpoint_id: str
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
    questions: tuple[str, ...] = ()  # of the ledger's own, in order: all that were asked, and the one to ask now


@dataclass
class Entry:
    """How far one call got into its tool. A tool whose arguments do not fit its own schema refuses them and never runs.

    ``state`` stays "unknown" for a tool that looks at its arguments by itself: it counts as one that ran.
    """

    tool: Any
    state: Literal["unknown", "accepted", "refused"] = "unknown"

    @property
    def refused(self) -> bool:
        return self.state == "refused"


# Set by the gate for one call. Shared by all contexts below it: a sync tool runs in a thread with a copy.
entry: ContextVar[Entry | None] = ContextVar("entry", default=None)


def checked(tool: Any, check: Callable[[], Any]) -> Any:
    """Let a tool check its arguments, and keep how that ended, where this is the call that the gate let through."""
    now = entry.get()
    if now is None or now.tool is not tool or now.state != "unknown":  # a tool that calls tools, or itself
        return check()
    now.state = "refused"
    parsed = check()
    now.state = "accepted"
    return parsed


def is_ours(runtime: Any) -> bool:
    """Tell by the runtime of a call whether the desk's runner runs this graph."""
    return run_of(runtime.config)[1] is not None


def attempt_of(request: Any) -> Attempt:
    """Read from a ToolCallRequest who wants to run what."""
    runtime, call = request.runtime, request.tool_call
    configurable = runtime.config.get("configurable", {})
    run_id, token = run_of(runtime.config)
    info = runtime.execution_info
    own = info.checkpoint_ns if info else configurable.get("checkpoint_ns", "")
    parent, _, last = own.rpartition("|")
    message = message_of(request.state, call["id"])
    metadata = getattr(request.tool, "metadata", None) or {}
    return Attempt(
        thread_id=str(configurable.get("thread_id", "")),
        namespace=parent,
        checkpoint_id=(info.checkpoint_id if info else "") or "",
        task_id=last.partition(":")[2],
        key=CallKey(message.id or "" if message else "", call["id"] or ""),
        run_id=run_id,
        token=token or 0,
        name=call["name"],
        args=call["args"],
        idempotent=metadata.get("idempotent") is True,
    )


def message_of(state: Any, tool_call_id: str) -> AIMessage | None:
    messages = state if isinstance(state, list) else _get(state, "messages") or []
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(call["id"] == tool_call_id for call in message.tool_calls):
            return message
    return None


def _get(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, dict) else getattr(state, name, None)


def interrupts(request: Any) -> int:
    """Count the interrupts of the task so far.

    LangGraph has no public name for it: the counter is an itertools.count.
    """
    counter = request.runtime.config["configurable"]["__pregel_scratchpad"].interrupt_counter._counter
    return 0 if counter is None else int(repr(counter.__self__)[len("count(") : -1])
