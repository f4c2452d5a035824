"""Drive agents from the shell, as the desk does but without a reviewer in the world: claim, advance, finish, answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agents import runner, runs
from agents.models import Run, Thread
from agents.outcome import Ask, CallPermit, Outcome, Permit, canonical_bytes, digest, from_canonical


def start(agent_name: str, say: str, *, author: str = "olga") -> str:
    """Open a thread and line up its first message. Returns the thread's id."""
    thread_id = runs.create_thread(agent_name, author=author)
    runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload={"text": say}, author=author)
    return thread_id


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread brings about."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def step(thread_id: str, *, worker: str = "shell") -> Outcome:
    """Claim and advance the next run of a thread, and close it."""
    lease = runs.claim(thread_id, worker)
    assert lease is not None, "nothing was due"
    outcome = runner.advance(lease, emit=lambda event: None)
    assert runs.finish(outcome)
    return outcome


def answer(thread_id: str, ask: Ask, value: Any, verdicts: list[str], *, edits: dict[int, Any] | None = None) -> str:
    """Line up the answer to one ask as the desk would: with permits for the calls that the ask names.

    Returns the run's id.
    """
    edits = edits or {}
    calls = [_call_permit(ask, position, verdict, edits.get(position)) for position, verdict in enumerate(verdicts)]
    permit = Permit(ask.interrupt_id, ask.namespace, ask.digest, canonical_bytes(value), tuple(calls))
    payload = {
        "interrupt_id": permit.interrupt_id,
        "namespace": permit.namespace,
        "digest": permit.digest,
        "answer": from_canonical(permit.answer),
    }
    return runs.enqueue(thread_id, kind=Run.Kind.RESUME, payload=payload, permits=[permit], author="ann")


def _call_permit(ask: Ask, position: int, verdict: Any, edited: Any) -> CallPermit:
    if not ask.calls:
        return CallPermit(verdict, None, "interrupt", None, "", position)
    call = ask.calls[position]
    may_run = {"name": call.name, "args": call.args if edited is None else edited}
    runs_it = verdict in ("approve", "edit")
    return CallPermit(
        verdict=verdict,
        key=call.key,
        name=call.name,
        args=canonical_bytes(may_run["args"]) if runs_it else None,
        digest=digest(may_run) if runs_it else "",
        position=position,
    )


def decisions(*verdicts: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": list(verdicts)}


def thread(thread_id: str) -> Thread:
    return Thread.objects.get(pk=thread_id)
