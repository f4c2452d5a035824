"""Files what agents ask. The only writer of new interrupts, and of what became of them.

One outcome is one transaction, and filing it twice changes nothing: `runs.finish` closes a run once. The desk's own
rows are the truth; the head is only compared with them. Locks are taken in the order thread, interrupt, audit log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from agents import runs
from agents.compiled import Compiled, CompiledUpdate
from agents.models import LedgerIncident, Run, Thread
from agents.outcome import Ask, Effect, Outcome, from_canonical
from reviews import audit, dialects, live
from reviews.audit import CallFacts, Kind, On
from reviews.filing import file_ask, storable
from reviews.models import Action, Interrupt

log = logging.getLogger(__name__)

OPEN, DECIDED, APPLIED, WITHDRAWN = Interrupt.Status

GONE_ON = "The agent went on without it."
NO_EFFECT = "The question was gone when the answer came. The decision had no effect."
OTHER_ARGUMENTS = "Asked again with other arguments."
NOT_TAKEN = "The answer was not taken."
LATE_CHANGE = "The arguments changed after it was decided. The decision was not used."
AGAIN = "It is asked again."


def record_outcome(outcome: Outcome) -> list[Interrupt]:
    """Close the run, file what waits, withdraw what is gone, keep what was done. Returns the newly filed interrupts.

    Returns [] and writes nothing when the run is no longer this worker's.
    """
    with transaction.atomic():
        if not runs.finish(outcome):
            return []
        filing = _Filing(outcome)
        filing.keep_effects()
        filing.withdraw_without_effect()
        filing.file_asks()
        filing.withdraw_missing()
        filing.report_incidents()
        filing.close()
    filed = [row.pk for row in filing.filed]
    told = {"run": outcome.run_id, "on_thread": outcome.thread_id, "status": outcome.status, "interrupts": filed}
    log.info("outcome filed", extra=told)
    if filing.applied:
        log.info("decisions took effect", extra={"run": outcome.run_id, "interrupts": sorted(filing.applied)})
    return filing.filed


def withdraw_open(thread: Thread, *, reason: str, user: Any, role: str) -> list[Interrupt]:
    """Withdraw the open questions of a thread because a person wants to go on without them. Returns their rows.

    Joins the caller's transaction, which has locked the thread. Decided ones stay: their answer is on its way.
    """
    rows = list(Interrupt.objects.select_related("agent", "thread").filter(thread=thread, status=OPEN).order_by("pk"))
    moved = Interrupt.objects.filter(pk__in=[row.pk for row in rows], status=OPEN)
    if moved.update(status=WITHDRAWN, withdrawn_at=Now(), withdrawn_reason=reason) != len(rows):
        raise RuntimeError(f"A question of thread {thread.pk} was decided although it is locked.")
    for row in rows:
        audit.append(Kind.WITHDRAWN, on=On(interrupt=row, before=OPEN, after=WITHDRAWN), user=user, role=role)
    names = [name for row in rows for name in (f"inbox-{row.pk}", f"interrupt-{row.pk}")]
    live.publish_on_commit("inbox", f"thread-{thread.pk}", *names, agent=thread.agent_id)
    return rows


@dataclass
class _Known:
    """The rows of one pause, oldest version first."""

    versions: list[Interrupt] = field(default_factory=list)

    @property
    def newest(self) -> Interrupt:
        return self.versions[-1]

    @property
    def answered(self) -> Interrupt | None:
        """The row that effects belong to: the last one that people decided and that was used."""
        return next((row for row in reversed(self.versions) if row.status in (DECIDED, APPLIED)), None)


class _Filing:
    """One outcome against the rows of its thread."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        [self.thread] = _THREAD(outcome.thread_id)
        self.known = _known(self.thread, outcome)
        self.filed: list[Interrupt] = []
        self.touched: dict[int, Interrupt] = {}
        self.entries: list[Callable[[], Any]] = []  # written last: see audit
        self.asked: set[int] = set()  # rows that still wait, or were decided and stay so
        self.applied: set[int] = set()  # by this outcome

    # ------------------------------------------------------------------------------------------------------ what ran

    def keep_effects(self) -> None:
        """Store what became of decided calls; an interrupt that shows any effect is applied."""
        for key, effects in _by_pause(self.outcome.effects).items():
            known = self._find(*key)
            row = known.answered if known else None
            if row is None:
                continue
            facts = [facts for effect in effects if (facts := _keep_effect(row, effect))]
            if row.status == DECIDED and any(effect.state != "missing" for effect in effects):
                self._move(row, APPLIED, _APPLY(row.pk, row.status))
                self.applied.add(row.pk)
                self._tell(Kind.APPLIED, row, before=DECIDED, calls=facts)
            self._tell_differing(row, effects, facts)

    def _tell_differing(self, row: Interrupt, effects: Iterable[Effect], facts: list[CallFacts]) -> None:
        wrong = {effect.position for effect in effects if effect.differs}
        if calls := [call for call in facts if call.position in wrong]:
            self._tell(Kind.INCIDENT, row, calls=calls, facts={"code": "executed differs"})

    def withdraw_without_effect(self) -> None:
        for namespace, interrupt_id in self.outcome.gone:
            known = self._find(namespace, interrupt_id)
            if known and known.newest.status == DECIDED:
                self._withdraw(known.newest, NO_EFFECT)

    # ---------------------------------------------------------------------------------------------------- what waits

    def file_asks(self) -> None:
        for ask in self.outcome.asks:
            known = self._find(ask.namespace, ask.interrupt_id)
            before = known.newest if known else None
            if before and self._stands(before, ask):
                self.asked.add(before.pk)
                continue
            self._ask(ask, before)

    def _stands(self, row: Interrupt, ask: Ask) -> bool:
        """Say whether ``row`` is this very question, and open, or its answer is on its way or was used just now."""
        if row.value_digest != ask.digest:
            return False
        if row.pk in self.applied or row.status == OPEN:
            return True
        return row.status == DECIDED and (self.outcome.stuck or _is_on_its_way(row))

    def _ask(self, ask: Ask, before: Interrupt | None) -> None:
        note = _why_again(before, ask) if before else ""
        if before and before.status in (OPEN, DECIDED):
            self._withdraw(before, note)
        row = file_ask(ask, thread=self.thread, run_id=self.outcome.run_id, supersedes=before, note=note)
        self.filed.append(row)
        self.asked.add(row.pk)
        self.touched[row.pk] = row
        facts: dict[str, Any] = {"supersedes": before.pk} if before else {}
        if row.held_code:
            facts["code"] = row.held_code
        self._tell(Kind.FILED, row, calls=[audit.told(action) for action in row.actions.all()], facts=facts)

    def withdraw_missing(self) -> None:
        """Withdraw open questions that the head no longer asks; decided ones wait for the run with their answer."""
        if not self.outcome.known:
            return
        for known in self.known.values():
            if known.newest.status == OPEN and known.newest.pk not in self.asked:
                self._withdraw(known.newest, GONE_ON)

    # -------------------------------------------------------------------------------------------------------- the rest

    def report_incidents(self) -> None:
        """Take what the ledger refused up into the audit log."""
        incidents = _UNREPORTED(self.thread.pk)
        for incident in incidents:
            call = CallFacts(
                position=0,
                tool=storable(str((incident.detail or {}).get("name", ""))),
                message_id=incident.message_id,
                tool_call_id=incident.tool_call_id,
            )
            on = On(thread=self.thread, calls=[call], facts={"code": incident.kind, "run": incident.run_id})
            secrets = {"detail": incident.detail}
            self.entries.append(partial(audit.append, Kind.INCIDENT, on=on, secrets=secrets))
        if incidents:
            LedgerIncident.objects.filter(pk__in=[incident.pk for incident in incidents]).update(reported=True)

    def close(self) -> None:
        """Write the audit entries and tell the pages; nothing is locked after this."""
        for entry in self.entries:
            entry()
        names = [f"thread-{self.thread.pk}"]
        for pk in self.touched:
            names += [f"inbox-{pk}", f"interrupt-{pk}"]
        live.publish_on_commit(*(["inbox", *names] if self.touched else names), agent=self.thread.agent_id)

    # ---------------------------------------------------------------------------------------------------------- verbs

    def _find(self, namespace: str, interrupt_id: str) -> _Known | None:
        """Find a pause; ids are unique in a thread, but a nested one may surface in another namespace than before."""
        exact = self.known.get((namespace, interrupt_id))
        return exact or next((known for key, known in self.known.items() if key[1] == interrupt_id), None)

    def _withdraw(self, row: Interrupt, reason: str) -> None:
        before = row.status
        self._move(row, WITHDRAWN, _WITHDRAW(row.pk, row.status, reason))
        self._tell(Kind.WITHDRAWN, row, before=before)

    def _move(self, row: Interrupt, status: str, moved: int) -> None:
        """Note a changed status. The thread is locked, so nobody can have changed it since it was read."""
        if not moved:
            raise RuntimeError(f"Interrupt {row.pk} is not {row.status} any more, although its thread is locked.")
        row.status = status
        self.touched[row.pk] = row

    def _tell(self, kind: Kind, row: Interrupt, *, before: str = "", **more: Any) -> None:
        facts = {"run": self.outcome.run_id, **more.pop("facts", {})}
        on = On(interrupt=row, thread=self.thread, before=before, after=row.status, facts=facts, **more)
        self.entries.append(partial(audit.append, kind, on=on))


# -------------------------------------------------------------------------------------------------------------- reading


def _known(thread: Thread, outcome: Outcome) -> dict[tuple[str, str], _Known]:
    """Return the pauses of the thread that are alive, and those the outcome speaks of."""
    named = {ask.interrupt_id for ask in outcome.asks} | {effect.interrupt_id for effect in outcome.effects}
    named |= {interrupt_id for _, interrupt_id in outcome.gone}
    found: dict[tuple[str, str], _Known] = {}
    for row in _ALIVE(thread.pk, sorted(named)):
        row.thread = thread
        found.setdefault((row.namespace, row.interrupt_id), _Known()).versions.append(row)
    return found


def _waiting(thread: Any) -> Any:
    rows = Interrupt.objects.filter(thread=thread, status__in=[OPEN, DECIDED])
    return rows.values("interrupt_id")


_ALIVE = Compiled(
    lambda thread, named: (
        Interrupt.objects.filter(
            Q(interrupt_id__any_of=named) | Q(interrupt_id__in=_waiting(thread)),
            thread=thread,
        )
        .select_related("agent", "resume")
        .order_by("version", "pk")
    )
)
_THREAD = Compiled(lambda pk: Thread.objects.select_related("agent").filter(pk=pk))
_UNREPORTED = Compiled(lambda thread: LedgerIncident.objects.filter(thread=thread, reported=False).order_by("pk"))
_APPLY = CompiledUpdate(
    lambda pk, before: (
        Interrupt.objects.filter(pk=pk, status=before),
        {"status": APPLIED, "applied_at": Now()},
    )
)
_WITHDRAW = CompiledUpdate(
    lambda pk, before, reason: (
        Interrupt.objects.filter(pk=pk, status=before),
        {"status": WITHDRAWN, "withdrawn_at": Now(), "withdrawn_reason": reason},
    )
)


def _is_on_its_way(row: Interrupt) -> bool:
    return row.resume is not None and row.resume.status in Run.ACTIVE


def _why_again(before: Interrupt, ask: Ask) -> str:
    match before.status:
        case Interrupt.Status.OPEN:
            return OTHER_ARGUMENTS
        case Interrupt.Status.DECIDED:
            return NOT_TAKEN if before.value_digest == ask.digest else LATE_CHANGE
        case _:
            return AGAIN


# -------------------------------------------------------------------------------------------------------------- effects


def _by_pause(effects: Iterable[Effect]) -> Mapping[tuple[str, str], list[Effect]]:
    found: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        found.setdefault((effect.namespace, effect.interrupt_id), []).append(effect)
    return found


_DECIDED_ACTION = Compiled(
    lambda row, position: Action.objects.filter(interrupt=row, position=position).select_related("decision")
)
_KEEP = CompiledUpdate(
    lambda pk, effect, executed, differs, result: (
        Action.objects.filter(pk=pk),
        {"effect": effect, "executed": executed, "differs": differs, "result": result},
    )
)


def _keep_effect(row: Interrupt, effect: Effect) -> CallFacts | None:
    """Store one effect on its action, and return it as the log tells it. What is known never becomes "missing"."""
    action = _DECIDED_ACTION.first(row.pk, effect.position)
    if action is None or (effect.state == "missing" and action.effect):
        return None
    executed = None
    if effect.args is not None:
        executed = {"name": effect.name or action.name, "args": from_canonical(effect.args)}
    _KEEP(action.pk, effect.state, executed, effect.differs, storable(effect.result))
    digest = dialects.call_digest(executed["name"], executed["args"]) if executed else ""
    return audit.told(action, getattr(action, "decision", None), executed=digest, effect=effect.state)
