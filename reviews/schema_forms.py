"""The form in which a reviewer edits the arguments of a call, or answers an agent's question.

Only what a person touched replaces the agent's values. The forms, by fields and as raw JSON, answer with the same
words: ``rows``, ``edited``, ``changed``, ``type_changes``, ``needs_confirm``, ``is_valid()`` (see reviews.edits).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from django import forms
from django.core.exceptions import ValidationError

from reviews.arg_fields import ABSENT, UNTOUCHED, ArgField, normal_lines, refuse_hidden
from reviews.edits import (
    ANSWER,
    HIDDEN_REASON,
    Edit,
    Row,
    Schema,
    Shape,
    State,
    is_simple,
    locked,
    readonly_reason,
    row_of,
    shape_of,
)
from reviews.schema_specs import spec_of
from reviews.strict_json import json_type, parse_json, same, to_json
from reviews.texts import without_hidden

__all__ = ["AnswerForm", "ArgsForm", "RawForm", "Row", "answer_form", "build", "parse_json", "raw_form", "to_json_text"]

Act = Literal["strip", "escape", "undo"]


# ------------------------------------------------------------------------------------------------------------ by fields


class ArgsForm(Edit, forms.Form):
    """One field an argument. Made by ``build``; fields are named ``<prefix>-<argument>`` in the request."""

    def __init__(
        self,
        args: Mapping[Any, Any],
        shape: Shape,
        *,
        prefix: str,
        data: Mapping[str, Any] | None,
        editable: bool = True,
        acts: Mapping[str, Act] | None = None,
    ) -> None:
        Edit.__init__(self, args, shape)
        self.reasons: dict[Any, str] = {}
        self.missing: set[str] = set()  # fields that the request does not hold at all
        acts = acts or {}
        made: dict[str, forms.Field] = {}
        for name, spec in shape.specs.items():
            value = self.asked.get(name, ABSENT)
            reason = readonly_reason(name, value, editable=editable)
            opened = reason == HIDDEN_REASON and (name in acts or f"{prefix}-{name}" in (data or {}))
            if reason and not opened:
                self.reasons[name] = reason
            else:
                made[name] = ArgField(spec, name=name, asked=value, as_json=opened)
        texts = None if data is None and not acts else self._texts(made, data or {}, prefix=prefix, acts=acts)
        forms.Form.__init__(self, texts, prefix=prefix, auto_id="%s", use_required_attribute=False)
        self.fields = made
        if self.is_bound:
            self.full_clean()
        elif not shape.must_fit:
            self.judge()  # what does not fit as asked is told before anybody types

    def _texts(
        self, made: Mapping[str, forms.Field], data: Mapping[str, Any], *, prefix: str, acts: Mapping[str, Act]
    ) -> dict[str, str]:
        texts = {}
        for name, made_field in made.items():
            key = f"{prefix}-{name}"
            sent = data.get(key)
            if sent is None:
                self.missing.add(name)
            match acts.get(name):
                case "strip":
                    texts[key] = to_json(without_hidden(self.asked[name]))
                case None if sent is not None:
                    texts[key] = str(sent)
                case _:
                    texts[key] = made_field.initial
        if len(self.missing) == len(made):  # the page sent no fields: everything is as asked
            self.missing.clear()
        return texts

    def clean(self) -> dict[str, Any]:
        self.touched = {name: value for name, value in self.cleaned_data.items() if value is not UNTOUCHED}
        self.wrong = {name: [str(message) for message in messages] for name, messages in self.errors.items()}
        for name in self.missing:
            if self.shape.specs[name].required:
                self._refuse(name, f"{name} is required.")
        for problem in self.judge():
            self._refuse(problem.name, problem.message)
        return self.cleaned_data

    def _refuse(self, name: str | None, message: str) -> None:
        """Put a message at its row; at the form where there is no such row."""
        if name is None or name not in self.shape.specs:
            self.add_error(None, message)
            return
        self.wrong.setdefault(name, []).append(message)
        if name in self.fields:
            self.touched.pop(name, None)
            self.add_error(name, message)

    def is_valid(self) -> bool:
        return super().is_valid() and not self.wrong

    @property
    def edited(self) -> dict[Any, Any]:
        """The whole new arguments in the order asked, untouched ones the objects they were. ValueError if invalid."""
        if self.is_bound and not self.is_valid():
            raise ValueError("Arguments with errors are not complete.")
        return self.whole()

    @property
    def rows(self) -> list[Row]:
        return [self._row(name, index) for index, name in enumerate(self.shape.specs)]

    def _row(self, name: Any, index: int) -> Row:
        bound = self[name] if name in self.fields else None
        errors = self.wrong.get(name, [])
        row_id = f"{self.prefix}-{name}" if is_simple(name) else f"{self.prefix}-arg.{index}"
        if bound is not None:
            describes = f"asked-{row_id} {row_id}-error" if errors else f"asked-{row_id}"
            bound.field.widget.attrs.update({"id": row_id, "aria-describedby": describes})
        state: State = "invalid" if errors else "changed by you" if name in self.touched else "as asked"
        if bound is None and not errors:
            state = "read only"
        return row_of(self, name, row_id=row_id, state=state, reason=self.reasons.get(name, ""), bound=bound)


def build(
    args: Mapping[Any, Any],
    *,
    schema: Schema | None,
    prefix: str,
    data: Mapping[str, Any] | None = None,
    editable: bool = True,
    acts: Mapping[str, Act] | None = None,
) -> ArgsForm:
    """Make the form for ``args``.

    ``acts`` holds the small buttons of rows, by argument name: ``undo`` puts the agent's value back; ``escape`` opens a
    value with hidden characters as JSON text; ``strip`` does so without these characters.
    """
    return ArgsForm(args, shape_of(args, schema), prefix=prefix, data=data, editable=editable, acts=acts)


# --------------------------------------------------------------------------------------------------------------- answer


class AnswerForm(ArgsForm):
    """A form for whatever a response schema describes; ``value`` is the parsed answer."""

    @property
    def value(self) -> Any:
        return self.edited[ANSWER] if self.shape.single else self.edited


def answer_form(schema: Schema, *, data: Mapping[str, Any] | None, prefix: str) -> AnswerForm:
    """Make a form for a response schema: an object becomes its fields, anything else one field."""
    taker = "the agent"
    shape = dataclasses.replace(shape_of({}, schema, taker=taker), must_fit=True)
    # Stored schemas have their properties sorted; the list of the required ones is as its author wrote it.
    listed = schema.get("required")
    first = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    specs = {name: shape.specs[name] for name in [*first, *shape.specs] if name in shape.specs}
    shape = dataclasses.replace(shape, specs=specs)
    if not shape.specs:
        spec = spec_of(schema, root=schema, required=True)
        shape = Shape({ANSWER: spec}, frozenset({ANSWER}), schema, taker, single=True, must_fit=True)
    return AnswerForm({}, shape, prefix=prefix, data=data)


# ------------------------------------------------------------------------------------------------------------- raw JSON


class RawForm(Edit):
    """The same edit from one JSON text. ``errors`` are about the text; those about one argument stand at its row."""

    def __init__(self, args: Mapping[Any, Any], shape: Shape, *, text: str) -> None:
        super().__init__(args, shape)
        self.text = text
        self.errors: list[str] = []
        self.locked = locked(args)
        if normal_lines(text).strip() != to_json_text(args):
            self._read()
        for problem in self.judge():
            if problem.name is None:
                self.errors.append(problem.message)
            else:
                self.wrong.setdefault(problem.name, []).append(problem.message)

    def _read(self) -> None:
        try:
            refuse_hidden(self.text)
            typed = parse_json(self.text)
        except ValidationError as error:
            self.errors += error.messages
            return
        if not isinstance(typed, dict):
            self.errors.append(f"The arguments must be an object, and this is {json_type(typed)}.")
            return
        for name, value in typed.items():
            if name in self.locked:
                self.wrong[name] = [f"{name} cannot be changed here: {self.locked[name]}"]
            elif name not in self.asked or not same(value, self.asked[name]):
                self.touched[name] = value
        self.removed = [name for name in self.asked if name not in typed and name not in self.locked]

    def is_valid(self) -> bool:
        return not self.errors and not self.wrong

    @property
    def edited(self) -> dict[Any, Any]:
        """As in ArgsForm. ValueError if invalid."""
        if not self.is_valid():
            raise ValueError("Arguments with errors are not complete.")
        return self.whole()

    @property
    def rows(self) -> list[Row]:
        names = [*self.shape.specs, *(name for name in [*self.touched, *self.wrong] if name not in self.shape.specs)]
        return [self._row(name) for name in dict.fromkeys(names)]

    def _row(self, name: Any) -> Row:
        moved = name in self.touched or name in self.removed
        state: State = "read only" if name in self.locked else "changed by you" if moved else "as asked"
        if name in self.wrong:
            state = "invalid"
        return row_of(self, name, row_id=f"raw-{name}", state=state, reason=self.locked.get(name, ""), bound=None)


def raw_form(args: Mapping[Any, Any], *, schema: Schema | None, text: str) -> RawForm:
    """Read the raw JSON tab. Arguments that JSON cannot hold are not in its text and stay as they are."""
    return RawForm(args, shape_of(args, schema), text=text)


def to_json_text(args: Mapping[Any, Any]) -> str:
    """Write the arguments for the raw JSON tab: keys in order, integers to the digit, hidden characters spelled out."""
    left_out = locked(args)
    return to_json({name: value for name, value in args.items() if name not in left_out})
