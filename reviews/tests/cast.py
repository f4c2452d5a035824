"""The people of every test story, and the agent they look after. Nothing here runs a graph: outcomes are filed by hand.

``ann`` and ``ben`` review the support agent, ``olga`` operates it, ``aude`` audits it, ``otto`` reviews another team's
agent and must see nothing of this one, ``root`` administers the desk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.auth.models import Group, User
from langgraph.checkpoint.base import empty_checkpoint

from agents import runs
from agents.checkpointer import DjangoSaver
from agents.models import Agent, Run, Thread, ToolPermit
from agents.outcome import Ask, Call, CallKey, Effect, Outcome, Sibling, canonical_bytes
from reviews.decisions import Invalid, Receipt, record_decisions
from reviews.dialects import Verdict
from reviews.intake import record_outcome
from reviews.models import Decision, Grant, Interrupt, Role

PASSWORD = "correct horse battery"
SUBMIT = "submit-1"  # what names one submit of a form
ALL = ("approve", "edit", "reject", "respond")
APPROVE = Verdict("approve")
REJECT = Verdict("reject", message="Not like this.")
Status = Literal["interrupted", "success", "error", "cancelled"]

PAY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "urgent": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "memo": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["amount"],
}


@dataclass(frozen=True)
class Cast:
    ann: User
    ben: User
    olga: User
    aude: User
    otto: User
    root: User
    agent: Agent
    other: Agent  # of otto's team
    thread: Thread


def gather() -> Cast:
    """Create everybody, the two agents, and one idle thread."""
    agent = Agent.objects.create(name="support", title="Support", version="2.4.1")
    other = Agent.objects.create(name="billing", title="Billing", version="1.0")
    people = {
        name: User.objects.create_user(name, password=PASSWORD) for name in ("ann", "ben", "olga", "aude", "otto")
    }
    _team("support reviewers", Role.REVIEWER, agent, people["ann"], people["ben"])
    _team("support operators", Role.OPERATOR, agent, people["olga"])
    _team("support auditors", Role.AUDITOR, agent, people["aude"])
    _team("billing reviewers", Role.REVIEWER, other, people["otto"])
    root = User.objects.create_superuser("root", password=PASSWORD)
    return Cast(**people, root=root, agent=agent, other=other, thread=new_thread("Broken lamp, order 10482"))


def _team(name: str, role: Role, agent: Agent, *members: User) -> None:
    group = Group.objects.create(name=name)
    group.user_set.add(*members)
    Grant.objects.create(group=group, agent=agent, role=role)


def new_thread(title: str = "", *, agent: str = "support") -> Thread:
    return Thread.objects.get(pk=runs.create_thread(agent, title=title, author="olga"))


# --------------------------------------------------------------------------------------------------- what an agent asks


def hitl(*calls: tuple[str, dict[str, Any]], allowed: Sequence[str] = ALL, policy: Any = None) -> dict[str, Any]:
    """Return the value of a batched pause. ``policy``: tool -> allowed decisions, where they differ."""
    policies = {name: list(allowed) for name, _ in calls} | (policy or {})
    return {
        "action_requests": [{"name": name, "args": args, "description": f"Call {name}"} for name, args in calls],
        "review_configs": [{"action_name": name, "allowed_decisions": list(policies[name])} for name, _ in calls],
    }


def ask(
    value: Any,
    *,
    interrupt_id: str = "a" * 32,
    namespace: str = "",
    kind: Literal["interrupt", "breakpoint", "execution", "call"] = "interrupt",
    response_schema: dict[str, Any] | None = None,
    calls: Sequence[Call] = (),
    siblings: Sequence[Sibling] = (),
    node: str = "HumanInTheLoopMiddleware.after_model",
) -> Ask:
    """Return the Ask of ``value``, as the runner would hand it over."""
    return Ask(
        kind=kind,
        interrupt_id=interrupt_id,
        namespace=namespace,
        task_id="task-1",
        checkpoint_id="checkpoint-1",
        value=canonical_bytes(value),
        node=node,
        response_schema=response_schema,
        calls=tuple(calls),
        siblings=tuple(siblings),
    )


def ask_calls(*calls: tuple[str, dict[str, Any]], schema: Any = None, message: str = "ai-1", **more: Any) -> Ask:
    """Return the Ask of a batched pause whose calls were matched to the AI message ``message``."""
    allowed, policy = more.pop("allowed", ALL), more.pop("policy", None)
    matched = [
        Call(name, args, CallKey(message, f"call_{position}"), schema) for position, (name, args) in enumerate(calls)
    ]
    return ask(hitl(*calls, allowed=allowed, policy=policy), calls=matched, **more)


def file_outcome(thread: Thread, *asks: Ask, status: Status | None = None, **more: Any) -> list[Interrupt]:
    """Claim the thread's next run (a new one if none is due), and file that it ended with ``asks`` waiting.

    ``more``: further fields of the Outcome. Returns the newly filed interrupts.
    """
    return record_outcome(outcome_of(thread, *asks, status=status, **more))


def outcome_of(thread: Thread, *asks: Ask, status: Status | None = None, **more: Any) -> Outcome:
    lease = runs.claim(thread.pk, "worker")
    if lease is None:
        # A message would be held while the thread waits for people; a replay is not.
        waits = Thread.objects.get(pk=thread.pk).waits
        runs.enqueue(thread.pk, kind="replay" if waits else "input", payload={"text": "Hello"}, author="olga")
        lease = runs.claim(thread.pk, "worker")
    assert lease is not None
    ended = status or ("interrupted" if asks else "success")
    return Outcome(thread.pk, lease.run_id, lease.token, ended, head="checkpoint-1", asks=asks, **more)


def store_checkpoint(thread: Thread) -> str:
    """Store an empty checkpoint as the thread's head, as a saver would. Returns its id."""
    checkpoint = empty_checkpoint()
    config: Any = {"configurable": {"thread_id": thread.pk, "checkpoint_ns": ""}}
    DjangoSaver().put(config, checkpoint, {"source": "input", "step": -1, "parents": {}}, {})
    return checkpoint["id"]


def effect(row: Interrupt, state: Any, *, position: int = 0, args: Any = None, **more: Any) -> Effect:
    """Return what the runner would tell of one decided call."""
    written = None if args is None else canonical_bytes(args)
    return Effect(row.interrupt_id, row.namespace, position, state, args=written, **more)


# ------------------------------------------------------------------------------------------------------- what people do


def decide(user: User, row: Interrupt, *verdicts: Verdict, token: str = SUBMIT, **changed: Any) -> Receipt:
    """Decide as a form would that was made on ``row``. ``changed``: version or digest of an older form."""
    shown: dict[str, Any] = {"version": row.version, "digest": row.digest} | changed
    return record_decisions(user, row.pk, submit_token=token, verdicts=verdicts, **shown)


# ---------------------------------------------------------------------------------------------------- what then is so


def codes(error: Invalid) -> set[tuple[int | None, str, str]]:
    """Return (position, field, code) of each problem."""
    return {(problem.position, problem.field, problem.code) for problem in error.problems}


def assert_untouched(row: Interrupt) -> None:
    """Nothing was decided, nothing will be resumed."""
    row.refresh_from_db()
    assert row.status == "open"
    assert not Decision.objects.exists()
    assert not Run.objects.filter(kind="resume").exists()
    assert not ToolPermit.objects.exists()
