"""One pause as a reviewer meets it: the questions of one checkpoint, each with its actions, drafts and state."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import IntegerField, QuerySet
from django.db.models.functions import Length
from django.http import QueryDict

from agents.compiled import Compiled
from agents.outcome import digest
from reviews import drafts
from reviews.dialects import Problem, Verdict
from reviews.models import Action, Draft, Interrupt, Role, names_for
from reviews.reveal import TextWarning, warnings_for
from reviews.sheets import NotRecorded, Sheet
from reviews.talk import VERDICT_WORDS

HIGHEST_KEY = 2**63  # no row has one that is as high, and no database compares with more


@dataclass
class Question:
    """One interrupt on the page. ``current`` is the sheet that is open; ``token`` marks one sending of its form."""

    interrupt: Interrupt
    sheets: list[Sheet]
    current: Sheet | None
    may_decide: bool
    may_operate: bool = False
    drafts: dict[int, Draft] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    problems: list[str] = field(default_factory=list)
    full: str = ""  # the argument that is shown whole

    @property
    def is_open(self) -> bool:
        return self.interrupt.status == Interrupt.Status.OPEN

    @property
    def is_held(self) -> bool:
        return bool(self.interrupt.held_code)

    @property
    def can_be_decided(self) -> bool:
        return self.is_open and self.may_decide and not self.is_held

    @property
    def did(self) -> str:
        """Say in one word what was decided: "rejected"; "decided" where there were several actions."""
        made = [getattr(sheet.action, "decision", None) for sheet in self.sheets]
        return VERDICT_WORDS.get(made[0].verdict, "decided") if len(made) == 1 and made[0] else "decided"

    @property
    def has_decision(self) -> bool:
        """Whether it was decided when it was read."""
        return any(getattr(sheet.action, "decision", None) is not None for sheet in self.sheets)

    @property
    def was_rejected(self) -> bool:
        made = [getattr(sheet.action, "decision", None) for sheet in self.sheets]
        return any(decision is not None and decision.verdict == "reject" for decision in made)

    @property
    def may_correct(self) -> bool:
        """Whether its reader may go back before what was rejected: operators, and those who may decide."""
        return self.was_rejected and (self.may_decide or self.may_operate)

    @property
    def may_end(self) -> bool:
        """Whether its reader may end it without an answer: where the agent takes nothing but one."""
        takes_answers = all(sheet.action.allowed == ["respond"] for sheet in self.sheets)
        may_act = self.may_decide or self.may_operate
        return self.is_open and may_act and takes_answers and bool(self.interrupt.agent.tools_node)

    @property
    def several(self) -> bool:
        return len(self.sheets) > 1

    @property
    def undecided(self) -> list[Sheet]:
        return [sheet for sheet in self.sheets if not sheet.verdict]

    @property
    def decided_count(self) -> int:
        return len(self.sheets) - len(self.undecided)

    @property
    def stamp(self) -> str:
        """Name what is marked now: a submit sends what its reader saw, and nothing a second tab changed."""
        marks = [[sheet.action.pk, sheet.verdict, self._data_of(sheet)] for sheet in self.sheets]
        return digest(marks)

    def _data_of(self, sheet: Sheet) -> Any:
        draft = self.drafts.get(sheet.action.pk)
        return draft.data if draft else None

    @property
    def kept_at(self) -> Any:
        return max((draft.updated_at for draft in self.drafts.values()), default=None)

    @property
    def alarms(self) -> list[tuple[Sheet, list[TextWarning], bool]]:
        """Return the sheets with hidden characters or doubtful hosts: in which arguments; in the agent's words too?"""
        found = []
        for sheet in self.sheets:
            warnings = warnings_for(sheet.action.args)
            in_words = bool(warnings_for(sheet.action.description or ""))
            if warnings or in_words:
                found.append((sheet, warnings, in_words))
        return found

    def before(self) -> Sheet | None:
        return self._beside(-1)

    def after(self) -> Sheet | None:
        return self._beside(1)

    def _beside(self, step: int) -> Sheet | None:
        place = self.sheets.index(self.current) + step if self.current in self.sheets else -1
        return self.sheets[place] if 0 <= place < len(self.sheets) else None

    def next_undecided(self) -> Sheet | None:
        """Return the first unmarked sheet after the open one, going round once."""
        place = self.sheets.index(self.current) if self.current in self.sheets else -1
        waiting = [*self.sheets[place + 1 :], *self.sheets[: place + 1]]
        return next((sheet for sheet in waiting if not sheet.verdict), None)

    def verdicts(self, verb: str) -> list[Verdict]:
        """Return the verdicts in the order of the actions: what the pressed button says, or all that was marked.

        Raises NotRecorded, with the sheet that stands for none as the open one.
        """
        if not self.several and self.current is not None:
            return [self.current.decide(verb)]
        found = []
        for sheet in self.sheets:
            try:
                found.append(sheet.decide(sheet.verdict))
            except NotRecorded:
                self.current = sheet
                raise
        return found

    def blame(self, problems: list[Problem]) -> None:
        """Show what the decision service refuses, and open the first sheet that it is about."""
        self.problems += [problem.message for problem in problems if problem.position is None]
        for sheet in self.sheets:
            sheet.blame(problems)
        wrong = [sheet for sheet in self.sheets if sheet.problems]
        if wrong:
            self.current = wrong[0]


def _shown() -> QuerySet[Interrupt]:
    return Interrupt.objects.select_related("agent", "thread", "decided_by").defer("value").order_by("pk")


_FOUND = Compiled(lambda pk, agents: _shown().filter(pk=pk, agent__any_of=agents))
_PAUSE = Compiled(
    lambda thread, checkpoint, agents: _shown().filter(
        thread=thread, checkpoint_id=checkpoint, agent__any_of=agents, superseded_by__isnull=True
    )
)
_ACTIONS = Compiled(
    lambda interrupt: (
        Action.objects.filter(interrupt=interrupt)
        .select_related("decision", "decision__user")
        .annotate(size=Length("args", output_field=IntegerField()))
    )
)


def find(user: Any, pk: int) -> Interrupt | None:
    """Return a question that ``user`` may see, without what the agent sent as a whole."""
    found = _FOUND.first(pk, names_for(user)) if pk < HIGHEST_KEY else None
    if found is not None:
        found.thread.agent = found.agent  # whose question it is
    return found


def pause(user: Any, interrupt: Interrupt) -> list[Interrupt]:
    """Return what is asked at the same checkpoint, as filed; an older version is left to its own page."""
    if not interrupt.checkpoint_id:
        return [interrupt]
    found = _PAUSE(interrupt.thread_id, interrupt.checkpoint_id, names_for(user))
    return found if interrupt in found else [interrupt]


def read(
    user: Any,
    interrupt: Interrupt,
    *,
    number: int = 0,
    posted: QueryDict | None = None,
    raw: bool | None = None,
) -> Question:
    """Read one interrupt with what ``user`` typed: from ``posted`` where it has fields, else from drafts."""
    actions = _actions(interrupt)
    kept = drafts.of(user, actions)
    sheets = [_sheet(action, kept.get(action.pk), posted=posted) for action in actions]
    chosen = number if 1 <= number <= len(sheets) else _first_undecided(sheets)
    current = sheets[chosen - 1] if sheets else None
    if current is not None and raw is not None:
        current.raw = raw
    may_decide = interrupt.agent_id in names_for(user, Role.REVIEWER)
    may_operate = interrupt.agent_id in names_for(user, Role.OPERATOR)
    return Question(interrupt, sheets, current, may_decide, may_operate, kept)


def _actions(interrupt: Interrupt) -> list[Action]:
    actions = list[Action](_ACTIONS(interrupt.pk))
    for action in actions:
        action.interrupt = interrupt
    return actions


def _sheet(action: Action, draft: Draft | None, *, posted: QueryDict | None) -> Sheet:
    typed = drafts.own_fields(action, posted) if posted is not None else None
    if draft is not None:
        draft.action = action
    sheet = Sheet(action, typed or drafts.fields_of(draft))
    sheet.verdict = draft.verdict if draft and not typed else ""
    return sheet


def _first_undecided(sheets: Iterable[Sheet]) -> int:
    return next((sheet.number for sheet in sheets if not sheet.verdict), 1)
