"""CHECKS, section C, as a table: every address of the desk, by everybody, read and written."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.urls import URLPattern, get_resolver, reverse

from agents import runs
from reviews.models import AuditEntry, Grant, Interrupt
from reviews.tests.cast import Cast, ask_calls, file_outcome, new_thread, store_checkpoint
from reviews.tests.door import Visitor

pytestmark = pytest.mark.django_db

# Who asks, in the order of the columns: ann reviews the agent that it is about, olga operates it, aude audits it, root
# administers the desk, otto reviews another team's agent, nora has signed in and may see nothing, nobody has not.
PEOPLE = ("ann", "olga", "aude", "root", "otto", "nora", "nobody")
IN = 302  # to the sign-in, for a page; or to where a recorded act leads
ANY = (200, 200, 200, 200, 200, 200, IN)
OWN = (200, 200, 200, 200, 404, 404, IN)
NEVER = (405,) * 7

# Name of the address -> what a GET answers. An address of the one question, its thread, its run or its entry.
READ = {
    "inbox": ANY,
    "count": ANY,
    "interrupt": OWN,
    "row": OWN,
    "looking": OWN,
    "draft": (IN, IN, IN, IN, 404, 404, IN),  # leads to the question
    "changed": OWN,
    "download": OWN,
    "threads": ANY,
    "thread": OWN,
    "events": (200, 200, 200, 200, 404, 404, 401),  # read by scripts, which follow no redirect
    "checkpoints": OWN,
    "checkpoint": OWN,
    "raw": OWN,
    "label": NEVER,
    "beside": OWN,
    "fork": (403, 200, 403, 200, 404, 404, IN),
    "rewind": (403, 200, 403, 200, 404, 404, IN),
    "correct": NEVER,
    "agents": ANY,
    "audit": (403, 403, 200, 200, 403, 404, IN),
    "entry": (403, 403, 200, 200, 403, 404, IN),
    "help": ANY,
    "settings": ANY,
    "password": NEVER,
    "cancel": NEVER,
    "clear": NEVER,
    "move": NEVER,
    "stop": NEVER,
    "retry": NEVER,
    "anyway": (403, IN, 403, IN, 404, 404, IN),
    "queue": (403, 200, 200, 200, 403, 403, IN),
    "repair": NEVER,
    "replay": NEVER,
    "unanswered": NEVER,
}
# What a POST of a right form answers, for addresses that take one; all others answer 405 to everybody.
WRITE = {
    "looking": (204, 204, 204, 204, 404, 404, 401),  # a mark, and only of who may decide
    "interrupt": (303, 403, 403, 303, 404, 404, 401),
    "draft": (IN, 403, 403, IN, 404, 404, 401),
    "threads": (403, IN, 403, IN, 404, 404, 401),
    "thread": (403, IN, 403, IN, 404, 404, 401),
    "cancel": (403, IN, 403, IN, 404, 404, 401),
    "clear": (403, IN, 403, IN, 404, 404, 401),
    "move": (403, IN, 403, IN, 404, 404, 401),  # leads back, like the next two: there is nothing of the kind
    "stop": (403, IN, 403, IN, 404, 404, 401),
    "retry": (403, IN, 403, IN, 404, 404, 401),
    "anyway": (403, 200, 403, 200, 404, 404, 401),  # shows what it would withdraw
    "unanswered": (200, 200, 403, 200, 404, 404, 401),  # shows what it would end
    "repair": (403, IN, 403, IN, 404, 404, 401),
    "replay": (403, 422, 403, 422, 404, 404, 401),
    "fork": (403, 409, 403, 409, 404, 404, 401),  # the form does not say what its sender has seen
    "rewind": (403, 409, 403, 409, 404, 404, 401),
    "correct": (IN, IN, 403, IN, 404, 404, 401),  # leads back: nothing was rejected here
    "label": (IN, IN, 403, IN, 404, 404, 401),
    "audit": (403, 403, IN, IN, 403, 404, 401),
    "settings": (IN, IN, IN, IN, IN, IN, 401),
    "password": (422, 422, 422, 422, 422, 422, 401),
}
BEFORE_THE_DOOR = {"sign-in", "link", "sign-out"}


def patterns() -> dict[str, URLPattern]:
    return {str(one.name): one for one in get_resolver("reviews.urls").url_patterns if isinstance(one, URLPattern)}


def person(cast: Cast, name: str) -> Visitor:
    if name == "nobody":
        return Visitor()
    return Visitor(User.objects.get_or_create(username="nora")[0] if name == "nora" else getattr(cast, name))


@pytest.fixture
def question(cast: Cast) -> Interrupt:
    """Broken lamp's question, with a message held behind it and an entry in the log; billing has one of its own."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    runs.enqueue(row.thread_id, kind="input", payload={"text": "And then?"}, author="olga")
    file_outcome(new_thread("Invoice 77", agent="billing"), ask_calls(("invoice", {"id": 77})))
    store_checkpoint(row.thread)
    return row


def address(name: str, row: Interrupt) -> str:
    held = row.thread.runs.get(payload={"text": "And then?"})
    known: dict[str, Any] = {
        "pk": row.pk,
        "seq": AuditEntry.objects.filter(interrupt=row).earliest("seq").pk,
        "run": held.pk,
    }
    known["checkpoint"] = row.thread.checkpoints.get().checkpoint_id
    pattern = patterns()[name].pattern
    if str(pattern).startswith("threads/"):
        known["pk"] = row.thread_id
    wanted = pattern.regex.groupindex
    return reverse(f"reviews:{name}", kwargs={one: known[one] for one in wanted})


def form(name: str, row: Interrupt) -> dict[str, Any]:
    if name in ("thread", "threads"):
        return {"text": "Hello", "agent": "support", "submit_token": "s"}
    if name in ("fork", "rewind"):
        return {"go": "plain"}
    if name == "label":
        return {"name": secrets.token_hex(4)}
    fields = {"version": row.version, "digest": row.digest, "submit_token": "t", "action": 1}
    return fields | ({"decision": "approve"} if name == "interrupt" else {f"d{row.pk}-0-why": "x"})


def state() -> dict[str, list[Any]]:
    """Return all rows of all our tables but the marks that somebody looks: these decide nothing, and end soon."""
    models = [*apps.get_app_config("agents").get_models(), *apps.get_app_config("reviews").get_models()]
    rows = {model.__name__: sorted(model._default_manager.values_list(), key=str) for model in models}
    del rows["Look"]
    return rows


def test_the_table_knows_every_address() -> None:
    """Who adds an address says here who may read it and who may write."""
    assert set(patterns()) - set(READ) == BEFORE_THE_DOOR
    assert set(WRITE) < set(READ)


@pytest.mark.long
def test_reading_is_for_who_may_see_and_changes_nothing(cast: Cast, question: Interrupt) -> None:
    visitors = [person(cast, name) for name in PEOPLE]
    before = state()
    for name in patterns().keys() & READ:
        expected = READ[name]
        query = {"action": 1} if name == "download" else {"decision": "approve", "sure": "1", "undo": "amount"}
        got = tuple(visitor.open(address(name, question), **query).status for visitor in visitors)
        assert (name, got) == (name, expected)
    assert state() == before


@pytest.mark.long
@pytest.mark.parametrize("name", WRITE)
def test_writing_is_for_who_may_act(cast: Cast, question: Interrupt, name: str) -> None:
    before = state()
    for place in (6, 5, 4, 2, 1, 0, 3):  # who may not comes first: what they send must change nothing but the log
        visitor, wanted = person(cast, PEOPLE[place]), WRITE[name][place]
        if (name, PEOPLE[place]) == ("interrupt", "root"):
            wanted = 409  # ann was first
        answer = visitor.post(address(name, question), form(name, question))
        assert (PEOPLE[place], answer.status) == (PEOPLE[place], wanted)
        changed = {table for table, rows in state().items() if rows != before[table]}
        assert wanted < 400 or wanted == 409 or changed <= {"AuditEntry", "AuditSecret"}, (PEOPLE[place], changed)
        before = state()


@pytest.mark.long
def test_what_only_shows_takes_nothing(cast: Cast, question: Interrupt) -> None:
    visitors = [person(cast, name) for name in PEOPLE]
    before = state()
    for name in (patterns().keys() & READ) - WRITE.keys():
        got = tuple(visitor.post(address(name, question), form(name, question)).status for visitor in visitors)
        assert (name, got) == (name, NEVER)
    assert state() == before


def test_a_question_carries_no_text_from_another_teams_one(cast: Cast, question: Interrupt) -> None:
    theirs = Interrupt.objects.get(agent="billing")
    place = reverse("reviews:thread", args=[question.thread_id])
    answer = person(cast, "olga").open(f"{place}?from={theirs.pk}")
    assert "invoice" not in answer.html
    assert "Invoice" not in person(cast, "ann").open(question).html


def test_a_right_that_is_revoked_bites_on_the_next_request(cast: Cast, question: Interrupt) -> None:
    ann = person(cast, "ann")
    page = ann.open(question)
    Grant.objects.filter(role="reviewer", agent=cast.agent).delete()
    assert ann.press(page, "approve").status == 404
    assert ann.open(question).status == 404
    Grant.objects.create(group=cast.ann.groups.get(), agent=cast.agent, role="auditor")
    assert ann.press(page, "approve").status == 403
    assert ann.open(question).offers == set()
    question.refresh_from_db()
    assert question.status == "open"
