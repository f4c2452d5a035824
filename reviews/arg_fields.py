"""One argument as a form field: the agent's value as text for an input, and what a reviewer typed read back strictly.

A field that nobody touched answers UNTOUCHED, so that the stored object itself goes on: browsers change line ends, and
text cannot tell 1 from "1".
"""

from __future__ import annotations

import re
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from reviews.hidden import find_hidden
from reviews.schema_specs import Kind, Spec, brief
from reviews.strict_json import parse_json, read_integer, read_number, same, shown, to_json


class Mark:
    """A value that no argument can have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNTOUCHED: Final = Mark("UNTOUCHED")
ABSENT: Final = Mark("ABSENT")  # the agent left this argument out

ONE_LINE = 60  # characters of JSON or text that fit into an input
_LINE_END = re.compile("\r\n|\r|\n")
_NEEDED = {"integer": "A whole number", "number": "A number", "boolean": "true or false", "choice": "A choice"}


class ArgField(forms.Field):
    """Edits one argument. ``asked``: the agent's value or ABSENT; ``as_json``: edit it as JSON whatever its kind."""

    def __init__(self, spec: Spec, *, name: str, asked: Any, as_json: bool = False) -> None:
        self.spec = spec
        self.asked = asked
        self.kind: Kind = "json" if as_json else _fitting_kind(spec, asked)
        self.options = _options(spec, asked) if self.kind in ("boolean", "choice") else {}
        text = self.as_text(asked)
        super().__init__(required=False, label=name, initial=text, widget=self._widget_for(text))

    def as_text(self, value: Any) -> str:
        """Write ``value`` as the input shows it."""
        if value is ABSENT:
            return ""
        if self.options:
            return next(key for key, item in self.options.items() if item is not ABSENT and same(item, value))
        if value is None and self.spec.nullable and self.kind != "json":
            return ""
        if self.kind == "text":
            return str(value)
        line = to_json(value, indent=None)
        return line if len(line) <= ONE_LINE or self.kind != "json" else to_json(value)

    def clean(self, value: Any) -> Any:
        """Return UNTOUCHED or the new value. Raises ValidationError in a reviewer's words."""
        text = normal_lines(value)
        if text == normal_lines(self.initial):
            return UNTOUCHED
        new = self._read(text)
        return UNTOUCHED if self.asked is not ABSENT and same(new, self.asked) else new

    def _read(self, text: str) -> Any:
        if self.kind == "text":
            return self._read_text(text)
        typed = text.strip()
        if self.options:
            return self._read_option(typed)
        if not typed:
            return self._read_nothing()
        if self.kind == "json":
            refuse_hidden(typed)
            return parse_json(typed)
        if typed == "null" and self.spec.nullable:
            return None
        return read_integer(typed) if self.kind == "integer" else read_number(typed)

    def _read_text(self, text: str) -> str | None:
        refuse_hidden(text)
        if not text and self.spec.nullable:
            return None
        return with_lines_of(self.asked, text) if isinstance(self.asked, str) else text

    def _read_option(self, typed: str) -> Any:
        if typed not in self.options:
            raise ValidationError(f"{shown(typed)} is not one of the choices.", code="not_a_choice")
        return self.options[typed]

    def _read_nothing(self) -> None:
        if self.spec.nullable and self.kind != "json":
            return
        if self.spec.required:
            raise ValidationError(f"{self.label} is required.", code="required")
        needed = _NEEDED.get(self.kind, "A value as JSON")
        raise ValidationError(f"{needed} is needed here. To leave it out, use the raw JSON.", code="empty")

    def _widget_for(self, text: str) -> forms.Widget:
        # Firefox restores typed text over a reload: then the page would not show what is asked.
        attrs = {"autocomplete": "off", "spellcheck": "false"}
        if self.options:
            return forms.Select(choices=[(key, self._option_label(key)) for key in self.options], attrs=attrs)
        if self.kind in ("integer", "number"):
            return forms.TextInput(attrs | {"inputmode": "numeric" if self.kind == "integer" else "decimal"})
        lines = len(_LINE_END.findall(text)) + 1 + len(text) // ONE_LINE
        short = lines == 1 and (bool(text) or self.spec.single_line)
        if short and len(text) <= ONE_LINE and not (self.kind == "json" and self.asked is ABSENT):
            return forms.TextInput(attrs)
        return forms.Textarea(attrs | {"rows": min(max(lines, 2), 12)})

    def _option_label(self, key: str) -> str:
        value = self.options[key]
        if value is ABSENT:
            return "choose one" if self.spec.required else "left out"
        known = any(same(value, item) for item in self.spec.choices)
        return brief(value) if known else f"{brief(value)} (as asked, not one of the choices)"


def _fitting_kind(spec: Spec, asked: Any) -> Kind:
    """A text box cannot show that the agent gave 5 where text belongs; as JSON it can."""
    fits = asked is ABSENT or isinstance(asked, str) or (asked is None and spec.nullable)
    return spec.kind if spec.kind != "text" or fits else "json"


def _options(spec: Spec, asked: Any) -> dict[str, Any]:
    """Map what a select sends to the value it stands for. Texts stand for themselves unless that could be mistaken."""
    values = list(spec.choices)
    if asked is not ABSENT and not any(same(asked, item) for item in values):
        values.insert(0, asked)
    texts = [item for item in values if item is not None]
    clear = all(isinstance(item, str) and item == item.strip() and item not in ("", "null") for item in texts)
    first = {"": ABSENT} if asked is ABSENT else {}
    return first | {item if clear and item is not None else to_json(item, indent=None): item for item in values}


def refuse_hidden(text: str) -> None:
    """Refuse hidden characters in typed text: nobody can see what they paste. Raises ValidationError."""
    for found in find_hidden(text, limit=1):
        spelled = to_json(chr(found.codepoint), indent=None)[1:-1]
        message = f"There is a hidden character in it, {found.label} ({found.name.lower()})."
        raise ValidationError(f"{message} Remove it, or write {spelled} in JSON if it is meant.", code="hidden")


# ------------------------------------------------------------------------------------------------------------ line ends


def normal_lines(text: str) -> str:
    """Write line ends as browsers and tools can be compared: a line feed."""
    return _LINE_END.sub("\n", text)


def with_lines_of(old: str, new: str) -> str:
    """Give ``new``, whose line ends are line feeds, the line ends of ``old``.

    Lines that still stand at the beginning and at the end keep theirs; what is between takes the most frequent one.
    """
    ends = _LINE_END.findall(old)
    # A lone carriage return before an empty line would melt with its line feed into one end.
    if "\r\n" not in ends or "\r" in ends:
        return new
    usual = max(dict.fromkeys(ends), key=ends.count)
    old_lines, new_lines = normal_lines(old).split("\n"), new.split("\n")
    needed = len(new_lines) - 1
    head = min(_shared(old_lines, new_lines), len(ends), needed)
    tail = min(_shared(old_lines[::-1], new_lines[::-1]), len(ends) - head, needed - head)
    chosen = [*ends[:head], *[usual] * (needed - head - tail), *ends[len(ends) - tail :], ""]
    return "".join(line + end for line, end in zip(new_lines, chosen, strict=True))


def _shared(first: list[str], second: list[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
