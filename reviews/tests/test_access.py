"""Role by object by verb: who sees what, who may act, and that looking changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from agents import runs
from agents.models import Agent, Run, Thread
from reviews import decisions
from reviews.models import (
    AuditEntry,
    Decision,
    Draft,
    Grant,
    Interrupt,
    Preference,
    Role,
    forget_rights,
    names_for,
    rights_kept,
)
from reviews.people import roles_of
from reviews.tests.cast import (
    APPROVE,
    Cast,
    ask,
    ask_calls,
    assert_untouched,
    decide,
    file_outcome,
    new_thread,
)
from reviews.verdict_checks import find_problems

pytestmark = pytest.mark.django_db
PEOPLE = ("ann", "ben", "olga", "aude", "otto", "root")
INSIDE = ("ann", "olga", "aude", "root")


@pytest.fixture
def queued(cast: Cast, payment: Interrupt) -> str:
    """A message that waits behind the open question."""
    return runs.enqueue(cast.thread.pk, kind="input", payload={"text": "And then?"}, author="olga")


def in_as(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


def object_pages(row: Interrupt) -> list[str]:
    """Every page of one question, and of its thread."""
    names = ("interrupt", "row", "changed", "download")
    return [
        *(reverse(f"reviews:{name}", args=[row.pk]) + ("?action=1" if name == "download" else "") for name in names),
        reverse("reviews:thread", args=[row.thread_id]),
    ]


def verbs(row: Interrupt, run: str) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Every way to act on it: where, with what, and who may."""
    form = {"version": row.version, "digest": row.digest, "submit_token": "t", "decision": "approve", "action": 1}
    thread = row.thread_id
    return [
        (reverse("reviews:draft", args=[row.pk]), {"action": 1, f"d{row.pk}-0-why": "x"}, ("ann", "root")),
        (reverse("reviews:interrupt", args=[row.pk]), form, ("ann", "root")),
        (reverse("reviews:thread", args=[thread]), {"text": "Hello"}, ("olga", "root")),
        (reverse("reviews:cancel", args=[thread, run]), {}, ("olga", "root")),
        (reverse("reviews:replay", args=[thread]), {"sure": "1"}, ("olga", "root")),
    ]


@pytest.mark.parametrize("name", INSIDE)
def test_every_role_of_an_agent_sees_its_pages(cast: Cast, payment: Interrupt, name: str) -> None:
    client = in_as(cast, name)
    assert {path: client.get(path).status_code for path in object_pages(payment)} == dict.fromkeys(
        object_pages(payment), 200
    )


def test_another_teams_pages_do_not_exist(cast: Cast, payment: Interrupt, queued: str) -> None:
    client = in_as(cast, "otto")
    for path in object_pages(payment):
        assert client.get(path).status_code == 404, path
    for path, fields, _ in verbs(payment, queued):
        assert client.post(path, fields).status_code == 404, path
    assert client.get(reverse("reviews:entry", args=[1])).status_code in (403, 404)


def test_another_teams_question_and_none_look_the_same(cast: Cast, payment: Interrupt) -> None:
    client = in_as(cast, "otto")
    hidden = client.get(reverse("reviews:interrupt", args=[payment.pk]))
    missing = client.get(reverse("reviews:interrupt", args=[payment.pk + 999]))
    assert hidden.content == missing.content


def test_no_list_or_count_tells_of_another_team(cast: Cast, payment: Interrupt) -> None:
    client = in_as(cast, "otto")
    for path in ("/", "/?status=all", "/threads/", "/agents/", "/count/", f"/?thread={payment.thread_id}", "/?q=pay"):
        text = client.get(path).content.decode()
        assert "Support" not in text, path
        assert payment.title not in text, path
        assert "Broken lamp" not in text, path
    assert ">0<" in "".join(client.get("/count/").content.decode().split())


@pytest.mark.parametrize("name", ["ann", "olga", "aude"])
def test_who_may_see_but_not_act_gets_403_and_nothing_changes(
    cast: Cast, payment: Interrupt, queued: str, name: str
) -> None:
    client = in_as(cast, name)
    for path, fields, may in verbs(payment, queued):
        if name not in may:
            assert client.post(path, fields).status_code == 403, path
    assert not Decision.objects.exists()
    assert not Draft.objects.exists()
    assert Run.objects.get(pk=queued).status == "pending"
    assert Run.objects.filter(kind="input").count() == 2


def test_an_operator_does_an_operators_verbs(cast: Cast, payment: Interrupt, queued: str) -> None:
    client = in_as(cast, "olga")
    assert client.post(reverse("reviews:thread", args=[payment.thread_id]), {"text": "Hello"}).status_code == 302
    assert client.post(reverse("reviews:cancel", args=[payment.thread_id, queued])).status_code == 302
    assert Run.objects.get(pk=queued).status == "cancelled"


def test_a_reviewer_sees_the_verbs_and_an_auditor_does_not(cast: Cast, payment: Interrupt) -> None:
    path = reverse("reviews:interrupt", args=[payment.pk])
    assert b'name="decision"' in in_as(cast, "ann").get(path).content
    for name in ("olga", "aude"):
        assert b'name="decision"' not in in_as(cast, name).get(path).content, name


def test_starting_a_thread_is_the_operators(cast: Cast) -> None:
    fields = {"agent": "support", "text": "Begin", "submit_token": "s"}
    before = Thread.objects.count()
    assert in_as(cast, "ann").post("/threads/", fields).status_code == 403
    assert in_as(cast, "otto").post("/threads/", fields).status_code == 404
    assert Thread.objects.count() == before
    assert in_as(cast, "olga").post("/threads/", fields).status_code == 302
    assert Thread.objects.count() == before + 1


def test_the_log_is_for_auditors_of_the_agent(cast: Cast, payment: Interrupt) -> None:
    other = new_thread("Invoice", agent="billing")
    (theirs,) = file_outcome(other, ask_calls(("invoice", {"id": 1})))
    codes = {name: in_as(cast, name).get("/audit/").status_code for name in PEOPLE}
    assert codes == {"ann": 403, "ben": 403, "olga": 403, "aude": 200, "otto": 403, "root": 200}
    text = in_as(cast, "aude").get("/audit/").content.decode()
    assert "Pay 5" in text
    assert theirs.title not in text
    entry = AuditEntry.objects.get(interrupt=theirs)
    assert in_as(cast, "aude").get(reverse("reviews:entry", args=[entry.pk])).status_code == 404
    assert in_as(cast, "root").get(reverse("reviews:entry", args=[entry.pk])).status_code == 200


def test_who_sees_no_agent_learns_of_no_log(cast: Cast) -> None:
    Grant.objects.all().delete()
    assert in_as(cast, "ann").get("/audit/").status_code == 404


def test_a_right_that_is_taken_away_bites_at_once(cast: Cast, payment: Interrupt) -> None:
    client = in_as(cast, "ann")
    path = reverse("reviews:interrupt", args=[payment.pk])
    assert client.get(path).status_code == 200
    Grant.objects.filter(role="reviewer", agent="support").delete()
    assert client.get(path).status_code == 404
    assert client.get("/").content.decode().count(payment.title) == 0


def test_somebody_switched_off_is_out(cast: Cast, payment: Interrupt) -> None:
    client = in_as(cast, "ann")
    cast.ann.is_active = False
    cast.ann.save(update_fields=["is_active"])
    assert client.get(reverse("reviews:interrupt", args=[payment.pk])).status_code == 302


def test_sibling_questions_of_the_same_checkpoint_name_stay_with_their_team(cast: Cast, payment: Interrupt) -> None:
    (theirs,) = file_outcome(new_thread("Invoice", agent="billing"), ask_calls(("invoice", {"id": 77})))
    assert theirs.checkpoint_id == payment.checkpoint_id
    assert b"invoice" not in in_as(cast, "ann").get(reverse("reviews:interrupt", args=[payment.pk])).content


def patterns() -> Iterable[URLPattern]:
    return [one for one in get_resolver("reviews.urls").url_patterns if isinstance(one, URLPattern)]


ARGUMENTS = {"checkpoint": "1", "pk": "1", "seq": "1", "token": "x", "run": "00000000-0000-0000-0000-000000000000"}
OPEN_TO_ALL = {"sign-in", "link", "sign-out"}


@pytest.mark.parametrize("pattern", patterns(), ids=lambda pattern: pattern.name)
def test_every_page_asks_for_a_sign_in(db: None, client: Client, pattern: URLPattern) -> None:
    names = pattern.pattern.regex.groupindex
    path = reverse(f"reviews:{pattern.name}", kwargs={name: ARGUMENTS[name] for name in names})
    got, sent = client.get(path), client.post(path)
    if pattern.name in OPEN_TO_ALL:
        return
    if pattern.name == "events":  # scripts follow no redirect
        assert got.status_code == 401
        return
    assert got.status_code in (302, 405), path
    assert got.status_code == 405 or got["Location"].startswith("/sign-in/?next="), path
    assert sent.status_code in (401, 405), path


@pytest.mark.parametrize("name", PEOPLE)
def test_looking_changes_nothing(cast: Cast, payment: Interrupt, queued: str, name: str) -> None:
    client = in_as(cast, name)
    file_outcome(new_thread("Held"), ask({"action_requests": [], "review_configs": []}))
    before = _state()
    for pattern in patterns():
        arguments = {one: ARGUMENTS[one] for one in pattern.pattern.regex.groupindex}
        if str(pattern.pattern).startswith("threads/") and "pk" in arguments:
            arguments["pk"] = payment.thread_id
        elif "pk" in arguments:
            arguments["pk"] = str(payment.pk)
        response = client.get(reverse(f"reviews:{pattern.name}", kwargs=arguments))
        assert response.status_code < 500, pattern.name
    assert _state() == before


def _state() -> list[Any]:
    models = (Interrupt, Decision, Draft, AuditEntry, Run, Thread, Grant, Agent, Preference)
    return [sorted(model.objects.values_list(), key=str) for model in models]


def test_a_form_of_another_site_is_refused_and_text_is_given_back(cast: Cast, payment: Interrupt) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.ann)
    path = reverse("reviews:interrupt", args=[payment.pk])
    response = client.post(path, {"decision": "approve", f"d{payment.pk}-0-why": "typed <text>"})
    assert response.status_code == 403
    assert "typed &lt;text&gt;" in response.content.decode()
    assert not Decision.objects.exists()
    fragment = client.post(path, {"decision": "approve"}, headers={"HX-Request": "true"})
    assert fragment.status_code == 403
    assert "<html" not in fragment.content.decode()
    assert "your text stays here" in fragment.content.decode()


def test_administration_shows_and_does_not_write_what_has_one_writer(cast: Cast, payment: Interrupt) -> None:
    client = in_as(cast, "root")
    for model in ("interrupt", "action", "decision", "auditentry"):
        assert client.get(f"/admin/reviews/{model}/").status_code == 200, model
        assert client.get(f"/admin/reviews/{model}/add/").status_code == 403, model
    change = f"/admin/reviews/interrupt/{payment.pk}/change/"
    assert client.get(change).status_code == 200
    assert client.post(change, {"status": "decided"}).status_code == 403
    assert client.post(f"/admin/reviews/interrupt/{payment.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/reviews/grant/add/").status_code == 200


@pytest.mark.parametrize("name", ["ann", "olga", "aude", "otto"])
def test_the_administration_is_for_administrators(cast: Cast, name: str) -> None:
    assert in_as(cast, name).get("/admin/", follow=True).status_code == 403


def test_rights_are_asked_once_for_an_answer_and_anew_for_the_next(
    cast: Cast, django_assert_num_queries: Callable[[int], AbstractContextManager[Any]]
) -> None:
    with rights_kept():
        with django_assert_num_queries(1):
            assert names_for(cast.ann, Role.REVIEWER) == names_for(cast.ann) == ["support"]
            assert names_for(cast.ann, Role.OPERATOR) == []
            assert roles_of(cast.ann, "support") == ["reviewer"]
        Grant.objects.filter(group__user=cast.ann).delete()
        assert names_for(cast.ann) == ["support"]
        assert names_for(cast.olga, Role.OPERATOR) == ["support"]
        forget_rights()
        assert names_for(cast.ann) == []
    with rights_kept(), django_assert_num_queries(1):
        for _ in range(3):
            assert set(names_for(cast.root)) == {"support", "billing"}
    with rights_kept():
        Grant.objects.create(group=cast.ann.groups.get(), role=Role.AUDITOR)
        assert set(names_for(cast.ann, Role.AUDITOR)) == {"support", "billing"}
    assert names_for(cast.ann, Role.REVIEWER) == []


def test_a_right_that_is_taken_while_the_form_is_read_decides_nothing(
    cast: Cast, payment: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_away(row: Interrupt, *found: Any, **more: Any) -> Any:
        Grant.objects.filter(group__user=cast.ann).delete()
        return find_problems(row, *found, **more)

    monkeypatch.setattr(decisions, "find_problems", taken_away)
    with rights_kept(), pytest.raises(decisions.NotVisible):
        decide(cast.ann, payment, APPROVE)
    assert_untouched(payment)
