"""The form for one action: what it shows, and which verdict a sent form stands for.

The server compares. ``approve`` with touched fields, or ``edit`` with none, is no verdict: the page is shown again with
the change and the other button. The same for a changed type that no schema allows, until it is said to be meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from django.core.exceptions import ValidationError
from django.http import QueryDict

from agents.outcome import canonical_bytes
from reviews import schema_forms, talk
from reviews.arg_fields import normal_lines
from reviews.dialects import TOOL_DIALECTS, Problem, Proposal, ProposedAction, Verdict, check
from reviews.diffs import mostly_changed
from reviews.drafts import own_names
from reviews.models import Action
from reviews.reveal import shows_all
from reviews.schema_forms import Row

QUESTIONS = ("raw", "schema")  # answered, not decided
PREVIEW = 8  # arguments that the approve box repeats
OTHER = "other"  # the choice that stands for the text below it


class NotRecorded(Exception):
    """The form stands for no verdict. ``why``: changed, unchanged, confirm, invalid, unsure, none."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Sheet:
    """One action with what a person typed on it. ``typed`` None: nothing yet."""

    def __init__(
        self, action: Action, typed: QueryDict | None = None, *, raw: bool | None = None, acts: Any = None
    ) -> None:
        self.action = action
        self.interrupt = action.interrupt
        self.typed = typed
        self.args_prefix, self.prefix = own_names(action)
        self.raw = self.text("raw") == "1" if raw is None else raw
        self.acts: Mapping[str, Any] = acts or {}
        self.problems: dict[str, list[str]] = {}
        self.why = ""  # of NotRecorded, for the page
        self.verdict = ""  # marked by the reviewer's draft, or sent just now

    # ----------------------------------------------------------------------------------------------------- as it stands

    @property
    def number(self) -> int:
        return self.action.position + 1

    @property
    def id(self) -> str:
        return self.prefix

    def text(self, name: str) -> str:
        """Return what was typed into one of the sheet's own fields; browsers send CR LF for line ends."""
        return normal_lines(str(self.typed.get(f"{self.prefix}-{name}", ""))) if self.typed is not None else ""

    @property
    def feedback(self) -> str:
        return self.text("why")

    @property
    def result(self) -> str:
        return self.text("result")

    @property
    def choice(self) -> str:
        return self.text("choice")

    @property
    def has_chosen(self) -> bool:
        """Whether one of the agent's own choices is ticked."""
        return self.choice not in ("", OTHER)

    @property
    def given(self) -> str:
        """The answer: what was chosen, else what was written."""
        return self.choice if self.has_chosen else self.result

    @property
    def answers_json(self) -> bool:
        return self.text("mode") == "json"

    @property
    def sure(self) -> bool:
        return self.text("sure") == "1"

    @property
    def is_call(self) -> bool:
        """Whether a tool call is asked about, and not a question."""
        return self.interrupt.dialect in TOOL_DIALECTS or self.interrupt.dialect == "execution"

    @property
    def editable(self) -> bool:
        return "edit" in self.action.allowed

    @property
    def args(self) -> Any:
        """The arguments in the agent's order; canonical bytes are sorted."""
        args = self.action.args
        if not isinstance(args, dict):
            return args
        order = [name for name in self.action.args_order if name in args]
        return {name: args[name] for name in [*order, *(name for name in args if name not in order)]}

    @cached_property
    def edit(self) -> Any:
        """The form over the arguments; None where they are no object, or where a question is answered."""
        if not isinstance(self.args, dict) or self.interrupt.dialect == "schema":
            return None
        schema = self.action.schema if self.interrupt.dialect in TOOL_DIALECTS else None
        if self.raw and self.editable and self.typed is not None and f"{self.prefix}-json" in self.typed:
            return schema_forms.raw_form(self.args, schema=schema, text=self.text("json"))
        return schema_forms.build(
            self.args,
            schema=schema,
            prefix=self.args_prefix,
            data=self._fields() if self.editable else None,
            editable=self.editable,
            acts=self.acts,
        )

    def _fields(self) -> QueryDict | None:
        """Return the typed argument fields; None for none, which is a form as the agent asked."""
        if self.typed is None or not any(name.startswith(f"{self.args_prefix}-") for name in self.typed):
            return None
        return self.typed

    @cached_property
    def answer(self) -> schema_forms.AnswerForm | None:
        if self.interrupt.dialect != "schema":
            return None
        return schema_forms.answer_form(self.action.schema, data=self._fields(), prefix=self.args_prefix)

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Return what was typed in the other tab, so that it is sent along and not lost."""
        typed = self.typed if self.typed is not None else QueryDict()
        other = f"{self.args_prefix}-" if self.raw else f"{self.prefix}-json"
        return [(name, str(text)) for name, text in typed.items() if name.startswith(other)]

    @property
    def is_read_as_json(self) -> bool:
        return isinstance(self.edit, schema_forms.RawForm)

    @property
    def json_text(self) -> str:
        """The raw JSON tab's text: as typed, else the arguments with the changes so far."""
        if isinstance(self.edit, schema_forms.RawForm):
            return self.edit.text
        return schema_forms.to_json_text(self.edit.edited if self.edit.is_valid() else self.args)

    @property
    def says_only_words(self) -> bool:
        """Whether a question is nothing but the agent's sentence, which stands in its frame already, sign for sign."""
        words = self.action.description
        return (
            bool(words)
            and not self.is_call
            and self.args in ({"value": words}, {"question": words})
            and shows_all(words)
        )

    @cached_property  # each row looks through the whole of its value, which may be megabytes
    def rows(self) -> list[Row]:
        form = self.answer or self.edit
        return form.rows if form is not None else []

    @cached_property
    def changed(self) -> list[str]:
        """Names of the arguments that are not as asked, also of those whose new value is wrong."""
        if self.edit is None or not self.editable:
            return []
        self.edit.is_valid()  # reads the form: what is changed stands fast only afterwards
        names: list[str] = self.edit.changed
        return names

    @property
    def is_invalid(self) -> bool:
        """Whether something was typed that cannot run; a JSON text that cannot be read changes no argument yet."""
        if self.edit is None or not self.editable or not getattr(self.edit, "is_bound", True):
            return False
        return not self.edit.is_valid()

    @property
    def needs_confirm(self) -> bool:
        return bool(self.changed) and self.edit.needs_confirm

    @property
    def rewrites(self) -> bool:
        """Whether an edit changes most of the call: then it is another call than the agent thought of."""
        return bool(self.changed) and not self.is_invalid and mostly_changed(self.args, self.edit.edited)

    @property
    def shown_rows(self) -> list[Row]:
        """What the approve box repeats: what changed, then the rest, as far as there is room."""
        rows = sorted(self.rows, key=lambda row: not row.changed)
        return rows[:PREVIEW]

    @property
    def more_rows(self) -> int:
        return max(0, len(self.rows) - PREVIEW)

    @property
    def size(self) -> int:
        """Bytes of the arguments as they are stored."""
        counted: int | None = getattr(self.action, "size", None)
        return len(canonical_bytes(self.action.args)) if counted is None else counted

    @property
    def steps(self) -> tuple[talk.Step, ...]:
        """Proposed, decided, executed."""
        return talk.steps_of(self.action)

    @property
    def decided_args(self) -> Any:
        """The arguments that may run, once it is decided; None where nothing may."""
        decision = getattr(self.action, "decision", None)
        if decision is None or decision.verdict not in ("approve", "edit"):
            return None
        return decision.args if decision.verdict == "edit" else self.action.args

    @property
    def absent_words(self) -> str:
        """Say which of the usual verbs are not offered, so that nobody looks for them."""
        if self.interrupt.dialect not in TOOL_DIALECTS:
            return ""
        words = {
            "approve": "run it as asked",
            "edit": "change it",
            "reject": "reject it",
            "respond": "respond in its place",
        }
        missing = [word for verb, word in words.items() if verb not in self.action.allowed]
        if not missing:
            return ""
        *first, last = missing
        listed = f"{', '.join(first)} or {last}" if first else last
        return f"The agent’s own rules do not let you {listed} here."

    @property
    def label(self) -> dict[str, str]:
        return dict(self.action.labels or {})

    # ----------------------------------------------------------------------------------------------------- the verdict

    def decide(self, verb: str) -> Verdict:
        """Return the verdict that the sheet stands for when its button ``verb`` is pressed. Raises NotRecorded."""
        self.verdict = verb
        if name := self._other_name():
            return Verdict(verb, args=self.action.args, name=name)  # type: ignore[arg-type]  # checked with the rest
        try:
            return self._verdict(verb)
        except NotRecorded as reason:
            self.why = reason.why
            self._point_out()
            raise

    def _point_out(self) -> None:
        """Let the first argument that is wrong take the focus when the page is shown again."""
        wrong = next((row.field for row in self.rows if row.errors and row.field is not None), None)
        if wrong is not None:
            wrong.field.widget.attrs["autofocus"] = True

    def _other_name(self) -> str:
        """Return the other tool that a client names. No form of ours does: the decision service refuses and logs it."""
        name = self.text("name")
        return "" if name == self.action.name else name

    def _verdict(self, verb: str) -> Verdict:
        match verb:
            case "approve" if self.is_invalid:
                raise NotRecorded("invalid")
            case "approve" if self.changed:
                raise NotRecorded("changed")
            case "approve" if self.interrupt.dialect == "execution" and not self.sure:
                raise NotRecorded("unsure")
            case "approve":
                return Verdict("approve")
            case "edit":
                return self._edit()
            case "reject":
                return Verdict("reject", message=self.feedback if self.feedback.strip() else None)
            case "respond" if self.interrupt.dialect in QUESTIONS:
                return self._answer()
            case "respond":
                return Verdict("respond", message=self._chosen_or_written())
            case _:
                raise NotRecorded("none")

    def _edit(self) -> Verdict:
        if self.is_invalid:
            raise NotRecorded("invalid")
        if not self.changed:
            raise NotRecorded("unchanged")
        if self.needs_confirm and not self.sure:
            raise NotRecorded("confirm")
        return Verdict("edit", args=self.edit.edited)

    def _answer(self) -> Verdict:
        if self.answer is not None and not self.raw:
            if not self.answer.is_valid():
                raise NotRecorded("invalid")
            return Verdict("respond", value=self.answer.value)
        if self.has_chosen or not self.answers_json:
            return Verdict("respond", message=self._chosen_or_written())
        try:
            return Verdict("respond", value=schema_forms.parse_json(self.result))
        except ValidationError as error:
            self.problems.setdefault("result", []).extend(error.messages)
            raise NotRecorded("invalid") from None

    def _chosen_or_written(self) -> str:
        if self.has_chosen and self.result.strip():
            problem = f"You chose “{self.choice}” and wrote something else. Empty this, or choose “Something else”."
            self.problems.setdefault("result", []).append(problem)
            raise NotRecorded("invalid")
        return self.given

    def faults(self, verdict: Verdict) -> list[Problem]:
        """Return what the dialect holds against ``verdict`` for this one action."""
        proposed = ProposedAction(
            name=self.action.name,
            args=self.action.args,
            allowed=tuple(self.action.allowed),
            flags=tuple(self.action.flags),
        )
        found = check(Proposal(self.interrupt.dialect, (proposed,), self.interrupt.value), [verdict])
        return [replace(problem, position=self.action.position) for problem in found]

    def blame(self, problems: list[Problem]) -> None:
        """Put what the decision service found wrong at the fields it is about."""
        for problem in problems:
            if problem.position not in (None, self.action.position):
                continue
            field = {"message": "why" if self.verdict == "reject" else "result", "value": "result"}.get(
                problem.field.partition("/")[0], "form"
            )
            self.problems.setdefault(field, []).append(problem.message)
            self.why = self.why or "invalid"

    @property
    def has_wrong_field(self) -> bool:
        """Whether a field takes the focus after a refusal; else its reason does."""
        wrong_row = any(row.errors and row.field is not None for row in self.rows)
        return wrong_row or (self.raw and self.is_invalid) or bool({"why", "result"} & self.problems.keys())
