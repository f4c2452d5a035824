"""A page as a browser without scripts has it: its forms with what stands in them, and its buttons."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from django.http.response import HttpResponseBase
from django.test import Client

Pairs = list[tuple[str, str]]


@dataclass
class Form:
    """One form. ``fields``: name -> value as it would be sent; ``buttons``: name and value of each, text and target."""

    action: str = ""
    method: str = "get"
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[dict[str, str]] = field(default_factory=list)


class Page(HTMLParser):
    """The forms of a page, its text, the ids it has, and the id or tag that has autofocus."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.forms: list[Form] = []
        self.ids: list[str] = []
        self.focus = ""
        self.inline: list[str] = []  # script or style that stands in the page
        self._form: Form | None = None
        self._select = self._area = ""
        self._pieces: list[str] = []
        self._open: list[str] = []
        self.feed(html)

    @property
    def text(self) -> str:
        return " ".join("".join(self._pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._open.append(tag)
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and not given.get("src")):
            self.inline.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "autofocus" in given:
            self.focus = given.get("id") or tag
        self._control(tag, given)

    def _control(self, tag: str, given: dict[str, str]) -> None:
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get").lower())
            self.forms.append(self._form)
        form = self._form
        if form is None or "disabled" in given:
            return
        name = given.get("name", "")
        match tag:
            case "input" if given.get("type") in ("checkbox", "radio"):
                if "checked" in given:
                    form.fields[name] = given.get("value", "on")
            case "input" if name:
                form.fields[name] = given.get("value", "")
            case "textarea":
                self._area = name
                form.fields[name] = ""
            case "select":
                self._select = name
            case "option" if self._select and ("selected" in given or self._select not in form.fields):
                form.fields[self._select] = given.get("value", "")
            case "button":
                form.buttons.append(given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea" and self._form is not None:
            self._form.fields[self._area] = self._form.fields[self._area].removeprefix("\n")
            self._area = ""
        elif tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)
        if self._area and self._form is not None:
            self._form.fields[self._area] += data

    def form_with(self, name: str, value: str) -> Form:
        """Return the form that has this button."""
        for form in self.forms:
            if any(button.get("name") == name and button.get("value") == value for button in form.buttons):
                return form
        raise AssertionError(f"There is no button {name}={value}; there are {self.buttons()}.")

    def buttons(self) -> Pairs:
        return [(one.get("name", ""), one.get("value", "")) for form in self.forms for one in form.buttons]


def page_of(response: HttpResponseBase) -> Page:
    return Page(response.content.decode())  # type: ignore[attr-defined]


def look(client: Client, path: str, *, status: int = 200) -> Page:
    response = client.get(path)
    assert response.status_code == status, (path, response.status_code)
    return page_of(response)


def press(client: Client, page: Page, value: str, *, name: str = "decision", path: str = "", **typed: Any) -> Any:
    """Press a button of ``page`` after typing; fields are named by their ending (``why``, ``amount``)."""
    form = page.form_with(name, value)
    fields = dict(form.fields)
    for ending, text in typed.items():
        own = [one for one in fields if one == ending or one.endswith(f"-{ending}")]
        fields[own[0] if own else ending] = text
    button = next(one for one in form.buttons if one.get("name") == name and one.get("value") == value)
    return client.post(button.get("formaction") or form.action or path, {**fields, name: value})
