"""The decision service: the only writer of Decision.

``record_decisions`` is durable when it returns: decisions, the resume run with its permits and the audit entry are one
transaction. The broker is no part of it. One decision is taken on an interrupt; who comes later is told who was first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from agents import runs
from agents.compiled import Compiled, CompiledDelete, CompiledUpdate, attach, insert
from agents.models import Run
from agents.outcome import CallKey, CallPermit, Permit, canonical_bytes
from agents.outcome import digest as digest_of
from reviews import audit, dialects, live
from reviews.audit import CallFacts, Kind, On, may_run, words_of
from reviews.dialects import TOOL_DIALECTS, UNSET, VERDICTS, Problem, Proposal, Verdict
from reviews.dialects.answering import is_blank
from reviews.models import Action, AuditEntry, Decision, Draft, Interrupt, Role, forget_rights, names_for
from reviews.people import roles_of
from reviews.strict_json import same
from reviews.tasks import wake_on_commit
from reviews.verdict_checks import find_problems, is_forged

log = logging.getLogger(__name__)

OPEN, DECIDED, APPLIED, WITHDRAWN = Interrupt.Status


class NotVisible(LookupError):
    """There is no such interrupt for this person, whether or not it exists: 404."""


class NotAllowed(Exception):
    """The person may see the interrupt and not decide it: 403."""


class Invalid(Exception):
    """Something is wrong with the verdicts; nothing was recorded: 422. ``problems`` say what and where."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


class AlreadyDecided(Exception):
    """Somebody was faster; nothing was recorded: 409. ``decisions`` and ``verdicts`` in the order of the actions."""

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(f"{interrupt.decided_by} decided this.")
        self.interrupt = interrupt
        self.by = interrupt.decided_by.get_username() if interrupt.decided_by else ""
        self.at = interrupt.decided_at
        self.decisions = tuple(decisions_of(interrupt))
        self.verdicts = tuple(decision.verdict for decision in self.decisions)


class Stale(Exception):
    """The form was made on another question than the one that waits now; nothing was recorded: 409.

    ``reason``: ``withdrawn``, ``version`` or ``digest``. ``current``: the newest version of the question. ``changed``:
    what differs from what was shown, ``tool.argument``, or the tool's name where the call as a whole is another.
    """

    def __init__(self, reason: str, *, seen: Interrupt) -> None:
        super().__init__(seen.withdrawn_reason or "The question is not the one that was shown.")
        self.reason = reason
        self.seen = seen
        self.current = newest_of(seen)
        self.changed = changes(seen, self.current)


@dataclass(frozen=True)
class Receipt:
    """What was recorded. The same submit gets an equal one again, whatever has happened since."""

    interrupt_id: int
    by: str
    at: datetime
    verdicts: tuple[str, ...]
    run_id: str  # carries the answer
    entry: int  # number in the audit log


_SEEN = Compiled(
    lambda pk, agents: Interrupt.objects.select_related("thread", "agent", "decided_by").filter(
        pk=pk, agent__any_of=agents
    )
)
_ACTIONS = Compiled(lambda interrupt: Action.objects.filter(interrupt=interrupt))
_TAKE = CompiledUpdate(
    lambda pk, user, agents, version, digest, submit_token, run: (
        Interrupt.objects.filter(agent__any_of=agents, pk=pk, status=OPEN, version=version, digest=digest),
        {"status": DECIDED, "decided_at": Now(), "decided_by": user, "submit_token": submit_token, "resume": run},
    )
)
_FORGET_DRAFTS = CompiledDelete(lambda user, row: Draft.objects.filter(user=user, action__interrupt=row))
_DECIDED_AT: Compiled[Any] = Compiled(lambda pk: Interrupt.objects.filter(pk=pk).values_list("decided_at", flat=True))


class _LostRace(Exception):
    """Rolls the transaction back."""


def record_decisions(
    user: Any,
    interrupt_id: int,
    *,
    version: int,
    digest: str,
    submit_token: str,
    verdicts: Sequence[Verdict],
    signed_in: str = "",
) -> Receipt:
    """Take one verdict for each action of an interrupt, in order, or none at all.

    ``version`` and ``digest`` are those of the interrupt that was shown; ``submit_token`` names this submit of a form;
    ``signed_in`` says how, for the log. Raises NotVisible, NotAllowed, AlreadyDecided, Stale, Invalid.
    """
    attempt = _Attempt(user, version=version, digest=digest, submit_token=submit_token, signed_in=signed_in)
    row = attempt.look(interrupt_id)
    if first := attempt.settled(row):
        return first
    proposal = attempt.checked(row, verdicts)
    try:
        with transaction.atomic():
            receipt = attempt.take(row, proposal, verdicts)
        log.info("decided", extra={"interrupt": row.pk, "on_thread": row.thread_id, "run": receipt.run_id})
        return receipt
    except _LostRace:
        if first := attempt.settled(attempt.look(interrupt_id)):
            return first
        raise RuntimeError(f"Interrupt {interrupt_id} is open as shown, and yet was not taken.") from None


class _Attempt:
    """One person's submit of a form."""

    def __init__(self, user: Any, *, version: int, digest: str, submit_token: str, signed_in: str) -> None:
        self.user = user
        self.version = version
        self.digest = digest
        self.submit_token = submit_token
        self.signed_in = signed_in

    # -------------------------------------------------------------------------------------------------------- before

    def look(self, interrupt_id: int) -> Interrupt:
        """Return the interrupt. Raises NotVisible, NotAllowed."""
        row = _SEEN.first(interrupt_id, names_for(self.user))
        if row is None:
            raise NotVisible(f"There is no interrupt {interrupt_id}.")
        attach(row, "actions", _ACTIONS(row.pk))
        if row.agent_id not in names_for(self.user, Role.REVIEWER):
            self._log(Kind.REFUSED, row, code="no right")
            raise NotAllowed(f"{self.user.get_username()} may not decide for {row.agent_id}.")
        return row

    def settled(self, row: Interrupt) -> Receipt | None:
        """Return this submit's own receipt, or None while the question is open as it was shown.

        Raises AlreadyDecided, Stale.
        """
        if self.submit_token and (row.decided_by_id, row.submit_token) == (self.user.pk, self.submit_token):
            return receipt_of(row)
        if row.status in (DECIDED, APPLIED):
            raise AlreadyDecided(row)
        if reason := self._staleness(row):
            self._log(Kind.STALE, row, code=reason)
            raise Stale(reason, seen=row)
        return None

    def _staleness(self, row: Interrupt) -> str:
        if row.status == WITHDRAWN:
            return "withdrawn"
        if row.version != self.version:
            return "version"
        return "digest" if row.digest != self.digest else ""

    def checked(self, row: Interrupt, verdicts: Sequence[Verdict]) -> Proposal:
        """Return what is decided on. Raises Invalid; a forged attempt is logged with its actor."""
        problems, proposal = find_problems(row, verdicts, submit_token=self.submit_token)
        if forged := [problem for problem in problems if is_forged(problem)]:
            self._log_forged(row, forged, verdicts)
        if problems or proposal is None:
            raise Invalid(problems)
        return proposal

    # --------------------------------------------------------------------------------------------------------- taking

    def take(self, row: Interrupt, proposal: Proposal, verdicts: Sequence[Verdict]) -> Receipt:
        """Record everything in the caller's transaction. Raises _LostRace."""
        decisions = self._made(row, proposal.dialect, verdicts)
        # Locks the thread, which comes first in the order of locks; whoever files an outcome holds it too.
        run_id = self._enqueue(row, dialects.answer(proposal, verdicts), decisions)
        forget_rights()  # what was true when the page was read may have been taken away
        deciding = self.user.pk, names_for(self.user, Role.REVIEWER)
        if not _TAKE(row.pk, *deciding, self.version, self.digest, self.submit_token, run_id):
            raise _LostRace
        role = self._role(row)
        for decision in decisions:
            decision.role = role
        insert(decisions)
        _FORGET_DRAFTS(self.user.pk, row.pk)
        entry = self._log_decided(row, decisions, run_id, role)
        wake_on_commit(row.thread_id)
        names = ("inbox", f"inbox-{row.pk}", f"interrupt-{row.pk}", f"thread-{row.thread_id}")
        live.publish_on_commit(*names, agent=row.agent_id)
        [at] = _DECIDED_AT(row.pk)
        return Receipt(row.pk, self.user.get_username(), at, tuple(one.verdict for one in decisions), run_id, entry)

    def _made(self, row: Interrupt, dialect: str, verdicts: Sequence[Verdict]) -> list[Decision]:
        return [
            _decision(action, verdict, dialect, user=self.user)
            for action, verdict in zip(row.actions.all(), verdicts, strict=True)
        ]

    def _enqueue(self, row: Interrupt, answer: Any, decisions: Sequence[Decision]) -> str:
        permit = Permit(
            interrupt_id=row.interrupt_id,
            namespace=row.namespace,
            digest=row.value_digest,
            answer=canonical_bytes(answer),
            calls=tuple(_call_permit(decision) for decision in decisions),
        )
        payload = {
            "interrupt_id": permit.interrupt_id,
            "namespace": permit.namespace,
            "digest": permit.digest,
            "answer": answer,
        }
        return runs.enqueue(
            row.thread_id, kind=Run.Kind.RESUME, payload=payload, permits=[permit], author=self.user.get_username()
        )

    # ------------------------------------------------------------------------------------------------------------ log

    def _role(self, row: Interrupt) -> str:
        return next(iter(roles_of(self.user, row.agent_id)), "")

    def _log_decided(self, row: Interrupt, decisions: Sequence[Decision], run_id: str, role: str) -> int:
        secrets = {
            name: value
            for decision in decisions
            for name, value in words_of(decision).items()
            if value is not None or (name.startswith("arguments.") and may_run(decision.verdict))
        }
        calls = [audit.told(decision.action, decision) for decision in decisions]
        on = On(interrupt=row, calls=calls, before=OPEN, after=DECIDED, facts={"run": run_id})
        return audit.append(
            Kind.DECIDED, on=on, user=self.user, role=role, signed_in=self.signed_in, secrets=secrets
        ).seq

    def _log_forged(self, row: Interrupt, forged: Sequence[Problem], verdicts: Sequence[Verdict]) -> None:
        at = {problem.position for problem in forged}
        calls = [
            audit.told(action, verdict=verdict.type if verdict.type in VERDICTS else "")
            for action, verdict in zip(row.actions.all(), verdicts, strict=True)
            if action.position in at
        ]
        names = {f"name.{position}": verdict.name for position, verdict in enumerate(verdicts) if verdict.name}
        self._log(Kind.REFUSED, row, code=forged[0].code, calls=calls, secrets=names)

    def _log(
        self, kind: Kind, row: Interrupt, *, code: str, calls: Sequence[CallFacts] = (), secrets: Any = None
    ) -> None:
        """Write an entry about an attempt that records nothing else: in a transaction of its own."""
        log.info("not decided", extra={"interrupt": row.pk, "on_thread": row.thread_id, "code": code})
        on = On(interrupt=row, calls=calls, before=row.status, after=row.status, facts={"code": code})
        audit.append(kind, on=on, user=self.user, role=self._role(row), signed_in=self.signed_in, secrets=secrets)


# ------------------------------------------------------------------------------------------------------------ decisions


def _decision(action: Action, verdict: Verdict, dialect: str, *, user: Any) -> Decision:
    message = None if verdict.type in ("approve", "edit") or is_blank(verdict.message) else verdict.message
    value = None if verdict.value is UNSET else {"value": verdict.value}
    return Decision(
        action=action,
        verdict=verdict.type,
        args=verdict.args if verdict.type == "edit" else None,
        message=message,
        value=value,
        user=user,
        digest=_decided_digest(action, verdict, dialect),
    )


def _decided_digest(action: Action, verdict: Verdict, dialect: str) -> str:
    match verdict.type:
        case "approve" if dialect == "breakpoint":
            return action.digest  # no call of its own: the whole question
        case "approve":
            return dialects.call_digest(action.name, action.args)
        case "edit":
            return dialects.call_digest(action.name, verdict.args)
        case _:
            said = verdict.message if verdict.value is UNSET else verdict.value
            return digest_of({"type": verdict.type, "answer": said})


def _call_permit(decision: Decision) -> CallPermit:
    action = decision.action
    runs_with = {"approve": action.args, "edit": decision.args}.get(decision.verdict)
    has_call = may_run(decision.verdict) and action.interrupt.dialect in TOOL_DIALECTS | {"execution"}
    return CallPermit(
        verdict=decision.verdict,  # type: ignore[arg-type]  # checked to be one of the four
        key=CallKey(action.message_id, action.tool_call_id) if action.message_id and action.tool_call_id else None,
        name=action.name,
        args=canonical_bytes(runs_with) if has_call else None,
        digest=decision.digest if has_call else "",
        position=action.position,
    )


def decisions_of(row: Interrupt) -> list[Decision]:
    """Return the decisions on an interrupt in the order of its actions."""
    found = Decision.objects.filter(action__interrupt=row).select_related("action", "user")
    return list(found.order_by("action__position"))


def receipt_of(row: Interrupt) -> Receipt:
    """Return what was recorded on a decided interrupt."""
    entry = AuditEntry.objects.filter(interrupt=row, kind=Kind.DECIDED).values_list("seq", flat=True).get()
    if row.decided_at is None or row.decided_by is None:
        raise ValueError(f"Interrupt {row.pk} was never decided.")
    return Receipt(
        interrupt_id=row.pk,
        by=row.decided_by.get_username(),
        at=row.decided_at,
        verdicts=tuple(decision.verdict for decision in decisions_of(row)),
        run_id=str(row.resume_id),
        entry=entry,
    )


# -------------------------------------------------------------------------------------------------------------- changes


def newest_of(row: Interrupt) -> Interrupt:
    """Return the newest version of the same question."""
    versions = Interrupt.objects.filter(thread=row.thread_id, namespace=row.namespace, interrupt_id=row.interrupt_id)
    return versions.select_related("thread", "agent", "decided_by").order_by("-version")[0]


def changes(seen: Interrupt, current: Interrupt) -> tuple[str, ...]:
    """Name what differs between two versions of a question: ``tool.argument``, or ``tool`` for the call as a whole."""
    pairs = zip_longest(seen.actions.all(), current.actions.all())
    return tuple(name for before, after in pairs for name in _changes_of(before, after))


def _changes_of(before: Action | None, after: Action | None) -> list[str]:
    if before is None or after is None:
        return [one.name for one in (before, after) if one]
    if before.name != after.name or not (isinstance(before.args, dict) and isinstance(after.args, dict)):
        return [] if before.digest == after.digest else [after.name]
    return [
        f"{after.name}.{name}"
        for name in dict.fromkeys([*before.args, *after.args])
        if (name in before.args) != (name in after.args) or not same(before.args.get(name), after.args.get(name))
    ]
