"""What an edit of a call's arguments is: what was asked, what a person touched, and whether the whole still fits.

Only what a person touched replaces the agent's values; everything else stays the very object that was stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from django.core.exceptions import NON_FIELD_ERRORS
from django.forms.boundfield import BoundField

from reviews.arg_fields import ABSENT, ArgField
from reviews.hidden import Hidden, find_hidden
from reviews.schema_checks import TOOL, Problem, SchemaUnusable, check, check_value
from reviews.schema_specs import Spec, properties, required, spec_from_value, spec_of
from reviews.strict_json import is_plain, json_type, to_json
from reviews.texts import hidden_in

State = Literal["as asked", "changed by you", "invalid", "read only"]
Schema = Mapping[str, Any]

MAX_INPUT = 64 * 1024  # bytes; a longer value is shown, not put into an input
MAX_MARKS = 200  # hidden characters listed for one row
ANSWER = "answer"
HIDDEN_REASON = "It holds hidden characters, which an input would not show."


@dataclasses.dataclass(frozen=True)
class Row:
    """One argument on the page. ``asked`` is the stored value (None and ``present`` False where the agent left it out).

    ``field`` is the bound field, or None for what is only shown; ``value`` is what will run, as far as it can be read.
    """

    name: str
    label: str
    hint: str
    kind: str
    asked: Any
    value: Any
    state: State
    id: str
    present: bool = True
    field: BoundField | None = None
    errors: list[str] = dataclasses.field(default_factory=list)
    readonly_reason: str = ""
    long: bool = False
    hidden: list[Hidden] = dataclasses.field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.state in ("changed by you", "invalid")

    @property
    def escapable(self) -> bool:
        """Whether "Remove it" and "Edit as JSON" can be offered (``acts`` of build)."""
        return self.readonly_reason == HIDDEN_REASON


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is known of the arguments: a spec for each name, the schema if there is one, and who takes them."""

    specs: dict[Any, Spec]
    known: frozenset[str]
    schema: Schema | None
    taker: str = TOOL
    single: bool = False  # the schema is that of one value, which stands under ANSWER
    must_fit: bool = False  # unchanged arguments have to fit the schema too

    def problems(self, whole: Mapping[str, Any], exempt: set[str], *, asked: Mapping[str, Any]) -> list[Problem]:
        if self.schema is None:
            return []
        if not self.single:
            return check(whole, self.schema, exempt=exempt, taker=self.taker, asked=asked)
        if ANSWER in exempt:
            return []
        if ANSWER not in whole:
            return [Problem(ANSWER, "An answer is needed.")]
        return [Problem(ANSWER, message) for message in check_value(whole[ANSWER], self.schema, taker=self.taker)]


def shape_of(args: Mapping[Any, Any], schema: Schema | None, *, taker: str = TOOL) -> Shape:
    """Specs in the order of the page: the agent's arguments as they came, then what the schema has besides."""
    rules = properties(schema) if schema is not None else {}
    needed = required(schema) if schema is not None else frozenset()
    specs = {
        name: spec_of(rules[name], root=schema, required=name in needed)
        if schema is not None and name in rules
        else spec_from_value(args[name], known=schema is None)
        for name in [*args, *(name for name in rules if name not in args)]
    }
    return Shape(specs, frozenset(rules), schema, taker)


class Edit:
    """What a reviewer's form answers. Subclasses fill ``touched`` (name to new value), ``removed`` and ``wrong``."""

    def __init__(self, args: Mapping[Any, Any], shape: Shape) -> None:
        self.asked = dict(args)
        self.shape = shape
        self.touched: dict[str, Any] = {}
        self.removed: list[str] = []
        self.wrong: dict[str, list[str]] = {}  # messages at rows
        self.asked_problems: list[Problem] = []  # what the schema holds against the agent's own, unchanged arguments
        self.schema_problem = ""  # why the schema could not be used, in words

    @property
    def changed(self) -> list[str]:
        """Names in the order of the page, also those whose new value is wrong."""
        moved = [name for name in self.asked if name in self.touched or name in self.removed or name in self.wrong]
        return moved + [name for name in [*self.touched, *self.wrong] if name not in self.asked and name not in moved]

    @property
    def type_changes(self) -> list[tuple[str, str, str]]:
        """(name, old type, new type) where the JSON type is another; a number that is now whole is still a number."""
        found = []
        for name, value in self.touched.items():
            old, new = json_type(self.asked[name]) if name in self.asked else "", json_type(value)
            if old and old != new and (old, new) != ("number", "whole number"):
                found.append((name, old, new))
        return found

    @property
    def needs_confirm(self) -> bool:
        """A type changed, and no schema says that it may."""
        judged = self.shape.known if not self.schema_problem else frozenset()
        return any(name not in judged for name, _, _ in self.type_changes)

    def whole(self) -> dict[Any, Any]:
        kept = {name: self.touched.get(name, value) for name, value in self.asked.items() if name not in self.removed}
        return kept | {name: value for name, value in self.touched.items() if name not in kept}

    def judge(self) -> list[Problem]:
        """Hold the whole arguments against the schema; return what speaks against the reviewer's change."""
        unfit = {str(name) for name, value in self.whole().items() if name not in self.touched and not judgeable(value)}
        try:
            problems = self.shape.problems(self.whole(), unfit | set(self.wrong), asked=self.asked)
        except SchemaUnusable as error:
            self.schema_problem = str(error)
            return []
        if self.touched or self.removed or self.wrong or self.shape.must_fit:
            self.asked_problems = [problem for problem in problems if problem.mild]
            return [problem for problem in problems if not problem.mild]
        # An unchanged call can be let through: the tool itself will answer for it, and the page says what is wrong.
        self.asked_problems = problems
        return []


# ----------------------------------------------------------------------------------------------------------------- rows


def row_of(edit: Edit, name: Any, *, row_id: str, state: State, reason: str, bound: BoundField | None) -> Row:
    asked = edit.asked.get(name)
    spec = edit.shape.specs.get(name) or spec_from_value(edit.touched.get(name), known=edit.shape.schema is None)
    label = name if isinstance(name, str) else f"{name!r} ({json_type(name)} as a key)"
    return Row(
        name=str(name),
        label=label,
        hint=spec.hint,
        kind=bound.field.kind if bound is not None and isinstance(bound.field, ArgField) else spec.kind,
        asked=asked,
        value=None if name in edit.removed else edit.touched.get(name, asked),
        state=state,
        id=row_id,
        present=name in edit.asked,
        field=bound,
        errors=edit.wrong.get(name, []),
        readonly_reason=reason,
        long=size_of(asked) > MAX_INPUT,
        hidden=hidden_in(asked, limit=MAX_MARKS),
    )


def readonly_reason(name: Any, value: Any, *, editable: bool) -> str:
    """Say why an argument is shown and not put into an input; empty if it can be edited."""
    if not editable:
        return "It cannot be changed."
    if value is ABSENT:
        return ""
    if reason := _locked_reason(name, value):
        return reason
    if name == NON_FIELD_ERRORS or find_hidden(name, limit=1) or "\n" in name:
        return "Its name has signs that a form cannot carry. The raw JSON can."
    return HIDDEN_REASON if hidden_in(value, limit=1) else ""


def _locked_reason(name: Any, value: Any) -> str:
    if not isinstance(name, str):
        return f"Its name is not a text but {json_type(name)}."
    if not is_plain({name: value}):
        return "JSON cannot hold this value exactly."
    return "It is over 64 kB." if size_of(value) > MAX_INPUT else ""


def locked(args: Mapping[Any, Any]) -> dict[Any, str]:
    found = {name: _locked_reason(name, value) for name, value in args.items()}
    return {name: reason for name, reason in found.items() if reason}


def judgeable(value: Any) -> bool:
    """JSON Schema says nothing useful of dates, bytes and NaN, and takes too long over megabytes."""
    return is_plain(value) and size_of(value) <= MAX_INPUT


def size_of(value: Any) -> int:
    """Return the size of ``value`` as a text box would hold it, in bytes; of what JSON cannot hold, 0."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    return len(to_json(value).encode()) if isinstance(value, dict | list) and is_plain(value) else 0


def is_simple(name: Any) -> bool:
    return isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
