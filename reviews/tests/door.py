"""The desk from its front door to the tools: people with browsers, an agent whose every word is kept, a worker on call.

A button sends what a browser would send: the fields of its form as they stand, with what the person typed. Only
``forge`` sends what no form of the desk sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urljoin

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command

from agents import connections, registry
from agents.models import Run, Thread
from agents.tests import graphs
from reviews import drafts, tasks
from reviews.models import AuditEntry, Decision, Interrupt
from reviews.tests.cast import Cast, gather
from reviews.tests.pages import Form, Page

Place = str | Interrupt | Thread
AGENT = "support"  # of the cast; each test gives it a graph of its own


@dataclass(frozen=True)
class Answer:
    """What the desk answered to one request, from ``address``."""

    status: int
    address: str
    page: Page
    response: Any

    def __contains__(self, words: str) -> bool:
        return " ".join(words.split()) in self.page.text

    @property
    def html(self) -> str:
        return self.page.html

    @property
    def offers(self) -> set[str]:
        """What may be decided here: the values of the buttons that decide and are not shut."""
        buttons = [button for form in self.page.forms for button in form.buttons]
        return {one["value"] for one in buttons if one.get("name") == "decision" and "aria-disabled" not in one}

    def form(self, button: str) -> Form:
        return self.page.form_with("decision", button)

    def typed(self, ending: str) -> str:
        """Return what the one field with this name, or this ending, holds."""
        (value,) = {form.fields[name] for form in self.page.forms for name in _named(form, ending)}
        return value


def _named(form: Form, ending: str) -> list[str]:
    return [name for name in form.fields if name == ending or re.fullmatch(rf"[id]\d+-\d+-{re.escape(ending)}", name)]


# -------------------------------------------------------------------------------------------------------------- people


class Visitor:
    """A person with a browser. No redirect is followed by itself, so that a test sees each answer."""

    def __init__(self, user: User | None = None) -> None:
        self.user = user
        self.client = Client(enforce_csrf_checks=True)
        if user is not None:
            self.client.force_login(user)

    def open(self, where: Place, *, live: bool = False, **query: Any) -> Answer:
        """Open a page. ``live``: as htmx asks for a fragment."""
        address = address_of(where)
        response = self.client.get(address, query or None, headers={"HX-Request": "true"} if live else {})
        return _read(response, address)

    def press(self, on: Answer, button: str, *, name: str = "decision", live: bool = False, **typed: str) -> Answer:
        """Press a button after typing. ``typed``: a field's name or its ending (``why``, ``amount``) -> its text."""
        form = on.page.form_with(name, button)
        pressed = next(one for one in form.buttons if (one.get("name", ""), one.get("value", "")) == (name, button))
        data = dict(form.fields)
        assert "csrfmiddlewaretoken" in data
        for ending, text in typed.items():
            data |= dict.fromkeys(_named(form, ending) or [_unchecked(on, ending)], text)
        target = urljoin(on.address, pressed.get("formaction") or form.action)
        return self.post(target, data | ({name: button} if name else {}), live=live)

    def forge(self, on: Answer, base: str, **changed: Any) -> Answer:
        """Send the form with the button ``base`` with any fields at all: None leaves one out, a list sends it often."""
        form = on.form(base)
        data = {**form.fields, "decision": base, **changed}
        sent = {name: value for name, value in data.items() if value is not None}
        return self.post(urljoin(on.address, form.action), sent)

    def post(self, address: str, data: Mapping[str, Any], *, live: bool = False) -> Answer:
        """Post as a browser encodes it: with CR LF at line ends."""
        sent = {**data, "csrfmiddlewaretoken": self.token()}
        encoded = {name: _encoded(value) for name, value in sent.items()}
        response = self.client.post(address, encoded, headers={"HX-Request": "true"} if live else {})
        return _read(response, address)

    def token(self) -> str:
        if "csrftoken" not in self.client.cookies:
            self.client.get(reverse("reviews:settings" if self.user else "reviews:sign-in"))
        return str(self.client.cookies["csrftoken"].value)


def _unchecked(on: Answer, ending: str) -> str:
    """Find a box or a radio button that holds nothing yet."""
    (name,) = set(re.findall(rf'name="([id]\d+-\d+-{re.escape(ending)})"', on.html))
    return str(name)


def _encoded(value: Any) -> Any:
    return [_encoded(one) for one in value] if isinstance(value, list) else re.sub("\r\n|\r|\n", "\r\n", str(value))


def _read(response: Any, address: str) -> Answer:
    is_page = response.headers.get("Content-Type", "").startswith("text/html")
    html = response.content.decode("utf-8", "surrogateescape") if is_page else ""
    return Answer(response.status_code, address, Page(html), response)


def address_of(where: Place) -> str:
    match where:
        case Interrupt():
            return reverse("reviews:interrupt", args=[where.pk])
        case Thread():
            return reverse("reviews:thread", args=[where.pk])
        case _:
            return where


def own(row: Interrupt, name: str, *, position: int = 0, argument: bool = False) -> str:
    """Name a field of an action as the desk's forms do."""
    of_arguments, of_verbs = drafts.own_names(row.actions.get(position=position))
    return f"{of_arguments if argument else of_verbs}-{name}"


# ---------------------------------------------------------------------------------------------------------------- desk


@dataclass
class Desk:
    """``ran``: the calls that tools really got; ``resumes``: what ``Command(resume=…)`` carried into the graph;
    ``seen``: the messages of each call of the model."""

    cast: Cast
    exits: ExitStack
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    resumes: list[Any] = field(default_factory=list)
    seen: list[list[BaseMessage]] = field(default_factory=list)

    @cached_property
    def ann(self) -> Visitor:
        return Visitor(self.cast.ann)

    @cached_property
    def ben(self) -> Visitor:
        return Visitor(self.cast.ben)

    @cached_property
    def olga(self) -> Visitor:
        return Visitor(self.cast.olga)

    @cached_property
    def aude(self) -> Visitor:
        return Visitor(self.cast.aude)

    @cached_property
    def root(self) -> Visitor:
        return Visitor(self.cast.root)

    def give(self, build: Callable[[], graphs.Graph] | None = None, **options: Any) -> None:
        """Give the agent a graph: ``build``'s, or the test agent's with these options."""
        made = build or (lambda: graphs.agent(graphs.into(self.ran), seen=self.seen, **options))
        self.exits.enter_context(registry.override(AGENT, made))
        self._listen(registry.get(AGENT).graph)

    def _listen(self, graph: Any) -> None:
        """Keep what goes into the graph: LangGraph's own border, whose code runs all the same."""
        for name in ("stream", "astream"):
            setattr(graph, name, self._listening(getattr(graph, name)))

    def _listening(self, stream: Callable[..., Any]) -> Callable[..., Any]:
        def listening(value: Any, *args: Any, **options: Any) -> Any:
            if isinstance(value, Command):
                self.resumes.append(value.resume)
            return stream(value, *args, **options)

        return listening

    def say(self, text: str = "go") -> Thread:
        """Have olga start a thread, and the worker take it as far as it goes."""
        on = self.olga.open(reverse("reviews:threads"))
        form = next(form for form in on.page.forms if "agent" in form.fields)
        answer = self.olga.post(on.address, form.fields | {"agent": AGENT, "text": text})
        assert answer.status == 302, answer.page.text
        self.work()
        return Thread.objects.latest("created_at")

    def ask(self, build: Callable[[], graphs.Graph] | None = None, text: str = "go", **options: Any) -> Interrupt:
        """Give the agent a graph that asks once, and return its question."""
        self.give(build, **options)
        (row,) = waiting(self.say(text))
        return row

    def asks(self, value: Any, **options: Any) -> Interrupt:
        """Have a node interrupt with this very value; its answer is ``answer_to``."""
        return self.ask(lambda: graphs.asks(value, **options))

    def work(self) -> int:
        """Let a worker do what is due, all of it."""
        done = 0
        while step := tasks.poll_once():
            done += step
        return done

    def state(self, thread: Thread) -> Any:
        return registry.get(AGENT).graph.get_state({"configurable": {"thread_id": thread.pk}})

    def answer_to(self, row: Interrupt) -> Any:
        """Return what the node of ``asks`` really received."""
        return self.state(row.thread).values["log"]["ask"]

    def paid(self) -> list[Any]:
        return [args["amount"] for name, args in self.ran if name == "pay"]

    def assert_untouched(self, row: Interrupt) -> None:
        """Nothing was decided, nothing will be resumed, nothing ran."""
        row.refresh_from_db()
        self.work()
        assert row.status == "open"
        assert not Decision.objects.filter(action__interrupt=row).exists()
        assert not Run.objects.filter(thread=row.thread, kind="resume").exists()
        assert (self.resumes, self.ran) == ([], [])


@contextmanager
def open_desk() -> Iterator[Desk]:
    with ExitStack() as exits:
        exits.callback(connections.close_all)
        yield Desk(gather(), exits)


def waiting(thread: Thread) -> list[Interrupt]:
    return list(Interrupt.objects.filter(thread=thread, status="open").order_by("pk"))


def entries(kind: str, row: Interrupt | None = None) -> list[AuditEntry]:
    found = AuditEntry.objects.filter(kind=kind).order_by("seq")
    return list(found.filter(interrupt=row) if row else found)


def results(messages: list[BaseMessage]) -> dict[str, list[ToolMessage]]:
    """Map each tool call of these messages to its tool messages, in the order of the calls."""
    calls = [str(call["id"]) for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    told = [one for one in messages if isinstance(one, ToolMessage)]
    return {call: [one for one in told if one.tool_call_id == call] for call in calls}
