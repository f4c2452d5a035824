"""The other pages, and what holds for all of them: threads, agents, the audit log, settings, errors, headers."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings
from django.db import OperationalError
from django.db.models.sql.compiler import SQLCompiler
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from agents import runs
from agents.models import Agent, Run, Thread
from agents.outcome import MessageView, ToolCallView
from reviews import talk
from reviews.models import AuditEntry, Decision, Interrupt, Preference
from reviews.tests.cast import APPROVE, REJECT, Cast, ask, ask_calls, decide, file_outcome, hitl, new_thread
from reviews.tests.pages import look, page_of, press

pytestmark = pytest.mark.django_db
HOSTILE = '<img src=x onerror=alert(1)></textarea><script>alert(1)</script><div hx-post="/approve" hx-trigger="load">'


def in_as(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


def path_of(thread: Thread) -> str:
    return reverse("reviews:thread", args=[thread.pk])


def told(thread: Thread, **changed: Any) -> None:
    Thread.objects.filter(pk=thread.pk).update(**changed)


# ----------------------------------------------------------------------------------------------------------- every page


def pages_of(cast: Cast, payment: Interrupt) -> list[str]:
    question = reverse("reviews:interrupt", args=[payment.pk])
    fixed = [
        "/",
        "/?status=decided",
        "/?status=all",
        "/threads/",
        "/agents/",
        "/audit/",
        "/audit/1/",
        "/help/",
        "/settings/",
    ]
    return [*fixed, path_of(cast.thread), question, f"{question}?raw=1", "/nothing/here/"]


def test_every_page_keeps_the_policy(cast: Cast, payment: Interrupt) -> None:
    root = in_as(cast, "root")
    for path in pages_of(cast, payment):
        response = root.get(path)
        page = page_of(response)
        policy = response["Content-Security-Policy"]
        assert "default-src 'self'" in policy, path
        assert "unsafe" not in policy, path
        assert not page.inline, path
        assert len(page.ids) == len(set(page.ids)), (path, [one for one in page.ids if page.ids.count(one) > 1])
        assert page.html.count("<h1") == 1, path


def test_no_page_with_arguments_is_kept_by_a_cache(cast: Cast, payment: Interrupt) -> None:
    root = in_as(cast, "root")
    for path in pages_of(cast, payment):
        assert "no-store" in root.get(path)["Cache-Control"], path


def test_markup_of_agents_and_outsiders_does_nothing_anywhere(cast: Cast) -> None:
    thread = new_thread(HOSTILE)
    value = hitl(("pay", {"to": HOSTILE, HOSTILE: HOSTILE}))
    value["action_requests"][0]["description"] = HOSTILE
    (row,) = file_outcome(thread, ask(value))
    decide(cast.ann, row, REJECT)
    told(thread, error=HOSTILE, stuck=True)
    runs.enqueue(thread.pk, kind="input", payload={"text": HOSTILE}, author="olga")
    root = in_as(cast, "root")
    for path in ["/?status=all", "/threads/", path_of(thread), f"/interrupts/{row.pk}/", "/audit/", "/audit/2/"]:
        page = look(root, path)
        assert not page.inline, path
        assert "<img" not in page.html, path
        assert 'hx-post="/approve"' not in page.html, path


def test_templates_have_no_script_no_style_and_no_htmx_code() -> None:
    for file in Path(settings.BASE_DIR, "templates").glob("*.html"):
        text = file.read_text()
        assert not re.search(
            r"<script(?! src=)|<style|\sstyle=|\son[a-z]+=|hx-on|hx-boost|js:|\|safe|autoescape", text
        ), file.name


def test_the_vendored_file_is_the_one_that_was_checked() -> None:
    folder = Path(settings.BASE_DIR, "static", "vendor")
    notes = (folder / "VENDOR.md").read_text()
    for file in folder.glob("*.js"):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in notes, file.name


# -------------------------------------------------------------------------------------------------------------- threads


def test_olga_starts_a_thread(cast: Cast) -> None:
    olga = in_as(cast, "olga")
    page = look(olga, "/threads/")
    form = next(form for form in page.forms if "agent" in form.fields)
    response = olga.post(form.action, form.fields | {"text": "Refund order 10482"})
    thread = Thread.objects.get(title="Refund order 10482")
    assert response["Location"] == path_of(thread)
    assert thread.runs.get().payload == {"text": "Refund order 10482"}
    assert AuditEntry.objects.filter(kind="thread started", thread=thread).count() == 1


def test_a_thread_is_started_once_by_one_form(cast: Cast) -> None:
    olga = in_as(cast, "olga")
    form = next(form for form in look(olga, "/threads/").forms if "agent" in form.fields)
    urls = [olga.post(form.action, form.fields | {"text": "Once"})["Location"] for _ in range(2)]
    assert urls[0] == urls[1]
    assert Thread.objects.filter(title="Once").count() == 1


def test_a_message_without_words_is_refused(cast: Cast) -> None:
    response = in_as(cast, "olga").post(path_of(cast.thread), {"text": "  ", "submit_token": "s"})
    assert response.status_code == 422
    assert "A message needs some words." in page_of(response).text
    assert not cast.thread.runs.exists()


def test_a_message_is_sent_once_by_one_form(cast: Cast) -> None:
    olga = in_as(cast, "olga")
    form = next(form for form in look(olga, path_of(cast.thread)).forms if "text" in form.fields)
    for _ in range(2):
        assert olga.post(form.action, form.fields | {"text": "Hello"}).status_code == 302
    assert cast.thread.runs.count() == 1


def test_messages_behind_an_open_question_are_held_and_can_be_taken_back(cast: Cast, payment: Interrupt) -> None:
    olga = in_as(cast, "olga")
    for text in ("First", "Second"):
        olga.post(path_of(cast.thread), {"text": text, "submit_token": text})
    page = look(olga, path_of(cast.thread))
    assert "2 messages held: a question is open" in page.text
    assert "Hold as number 3" in page.text
    assert page.text.index("First") < page.text.index("Second")
    first = Run.objects.get(payload__isnull=False, submit_token="First")
    olga.post(reverse("reviews:cancel", args=[cast.thread.pk, first.pk]))
    assert "1 message held" in look(olga, path_of(cast.thread)).text
    assert AuditEntry.objects.filter(kind="message cancelled").count() == 1


def test_a_message_that_was_sent_cannot_be_taken_back(cast: Cast) -> None:
    olga = in_as(cast, "olga")
    run = runs.enqueue(cast.thread.pk, kind="input", payload={"text": "x"}, author="olga")
    runs.claim(cast.thread.pk, "worker")
    olga.post(reverse("reviews:cancel", args=[cast.thread.pk, run]))
    assert "cannot be taken back" in look(olga, path_of(cast.thread)).text
    assert Run.objects.get(pk=run).status == "running"


def test_a_run_of_another_thread_cannot_be_cancelled_here(cast: Cast) -> None:
    other = new_thread("Invoice", agent="billing")
    run = runs.enqueue(other.pk, kind="input", payload={"text": "x"}, author="otto")
    in_as(cast, "olga").post(reverse("reviews:cancel", args=[cast.thread.pk, run]))
    assert Run.objects.get(pk=run).status == "pending"


def test_a_stuck_thread_says_why_and_is_replayed_once(cast: Cast) -> None:
    told(cast.thread, stuck=True, status="error", error="bad saved answer")
    olga = in_as(cast, "olga")
    page = look(olga, path_of(cast.thread))
    assert "This thread is stuck" in page.text
    assert "bad saved answer" in page.text
    assert "What runs again" in page.text
    path = reverse("reviews:replay", args=[cast.thread.pk])
    assert olga.post(path, {"submit_token": "r"}).status_code == 422
    for token in ("r", "s"):
        assert olga.post(path, {"submit_token": token, "sure": "1"}).status_code == 302
    assert cast.thread.runs.get().kind == "replay"
    assert AuditEntry.objects.filter(kind="head replayed").count() == 1


def test_a_thread_that_is_not_stuck_is_not_replayed(cast: Cast) -> None:
    in_as(cast, "olga").post(reverse("reviews:replay", args=[cast.thread.pk]), {"sure": "1", "submit_token": "r"})
    assert not cast.thread.runs.exists()


def test_an_error_and_a_weaker_guarantee_are_said(cast: Cast) -> None:
    told(cast.thread, status="error", error="The model did not answer.")
    Agent.objects.filter(pk="support").update(guarantee="at least once", guarantee_reason="Tools inside a tool.")
    text = look(in_as(cast, "ann"), path_of(cast.thread)).text
    assert "The last run ended in an error" in text
    assert "The model did not answer." in text
    assert "at least once" in text
    assert "Tools inside a tool." in text


def test_an_open_question_is_linked_from_its_thread(cast: Cast, payment: Interrupt) -> None:
    page = look(in_as(cast, "ann"), path_of(cast.thread))
    assert "interrupted: 1 question is open" in page.text


def test_a_thread_costs_few_queries_and_the_orm_writes_none(
    cast: Cast, payment: Interrupt, django_assert_max_num_queries: Any
) -> None:
    ann, told_more = in_as(cast, "ann"), new_thread("Another")
    file_outcome(told_more, ask_calls(("pay", {"amount": 7})))
    look(ann, path_of(cast.thread))
    with patch.object(SQLCompiler, "as_sql", side_effect=AssertionError), django_assert_max_num_queries(23):
        assert "interrupted: 1 question is open" in look(ann, path_of(told_more)).text


def test_text_of_a_lost_race_can_be_sent_as_a_message(cast: Cast, payment: Interrupt) -> None:
    root = in_as(cast, "root")
    page = look(root, f"/interrupts/{payment.pk}/")
    decide(cast.ben, payment, APPROVE)
    lost = page_of(press(root, page, "reject", why="Offer a new shade first."))
    link = next(part.split('"')[0] for part in lost.html.split('href="')[1:] if "?from=" in part.split('"')[0])
    form = next(form for form in look(root, link.partition("#")[0]).forms if "text" in form.fields)
    assert form.fields["text"] == "Offer a new shade first."


def test_a_conversation_says_who_speaks_and_what_became_of_each_call(cast: Cast) -> None:
    run = runs.enqueue(cast.thread.pk, kind="input", payload={"text": "Pay it"}, author="olga")
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    decide(cast.ann, row, REJECT)
    said = talk.read(
        cast.thread,
        [
            MessageView(run, "human", "Pay it"),
            MessageView("m-0", "human", "I want my money", name="customer"),
            MessageView(
                "ai-1",
                "ai",
                "I will.",
                calls=(ToolCallView("call_0", "pay", {"amount": 5}), ToolCallView("x", "look", {}, "7")),
            ),
        ],
    )
    assert [(one.voice, one.who) for one in said] == [("us", "olga"), ("outside", "customer"), ("agent", "Support")]
    asked, unasked = said[2].calls
    assert [step.text for step in asked.steps] == ["", "rejected, ann", "not yet"]
    assert [step.text for step in unasked.steps] == ["", "nobody was asked", "ran"]


def test_threads_are_filtered_and_paged(cast: Cast) -> None:
    for number in range(52):
        told(new_thread(f"thread {number}"), updated_at=timezone.now() - timedelta(minutes=number), status="busy")
    ann = in_as(cast, "ann")
    assert "1 thread " in look(ann, "/threads/?status=idle").text
    page = look(ann, "/threads/?status=busy")
    link = re.split(r'rel="next"\s+href="', page.html)[1].partition('"')[0].replace("&amp;", "&")
    rest = look(ann, f"/threads/{link}")
    assert len([one for one in rest.ids if one.startswith("thread-")]) == 2


# ------------------------------------------------------------------------------------------------- agents, own settings


def test_agents_say_what_they_promise_and_what_is_wrong(cast: Cast) -> None:
    Agent.objects.filter(pk="support").update(problem="its hook needs both ways", mode_reason="Runs in a thread.")
    text = look(in_as(cast, "ann"), "/agents/").text
    assert "Runs in a thread." in text
    assert "its hook needs both ways" in text
    assert "2.4.1" in text
    assert "once" in text
    assert "Billing" not in text


def test_theme_and_letters_are_kept(cast: Cast) -> None:
    ann = in_as(cast, "ann")
    assert "data-letters" in look(ann, "/help/").html
    ann.post("/settings/", {"theme": "dark"})
    page = look(ann, "/help/")
    assert '<html lang="en" data-theme="dark">' in page.html
    assert "data-letters" not in page.html
    ann.post("/settings/", {"theme": "pink"})
    assert Preference.objects.get(pk=cast.ann.pk).theme == ""


# ------------------------------------------------------------------------------------------------------------ audit log


def test_the_log_lists_who_decided_what(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, REJECT)
    text = look(in_as(cast, "aude"), "/audit/").text
    assert "ann, reviewer" in text
    assert "rejected" in text
    assert "Pay 5" in text


def test_the_log_is_filtered(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, REJECT)
    aude = in_as(cast, "aude")
    today = timezone.localdate().isoformat()
    for query, count in (
        ("who=ann", 1),
        ("who=ben", 0),
        ("verdict=reject", 1),
        ("verdict=approve", 0),
        ("kind=decision+recorded", 1),
        ("q=pay", 2),
        ("q=nothing", 0),
        (f"since={today}&until={today}", 2),
        ("until=2020-01-01", 0),
        ("since=nonsense", 2),
        (f"q={payment.thread_id}", 2),
        ("user__password=x", 2),
    ):
        text = look(aude, f"/audit/?{query}").text
        assert (f"{count} entr" if count else "No entry is like that") in text, query


def test_an_entry_shows_its_place_in_the_chain(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, REJECT)
    entry = AuditEntry.objects.get(kind="decision recorded")
    text = look(in_as(cast, "aude"), f"/audit/{entry.seq}/").text
    assert "computed again from the stored body just now: the same" in text
    assert f"It names {entry.seq - 1}" in text
    assert "Not like this." in text


def test_a_changed_entry_is_seen(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, REJECT)
    entry = AuditEntry.objects.get(kind="decision recorded")
    AuditEntry.objects.filter(pk=entry.pk).update(body=entry.body.replace("reject", "approve"))
    aude = in_as(cast, "aude")
    assert "The hash is not that of the stored body." in look(aude, f"/audit/{entry.seq}/").text
    aude.post("/audit/")
    assert "The chain does not hold" in look(aude, "/audit/").text


def test_verifying_says_what_holds_and_when(cast: Cast, payment: Interrupt) -> None:
    aude = in_as(cast, "aude")
    assert "not verified the chain in this session" in look(aude, "/audit/").text
    aude.post("/audit/")
    text = look(aude, "/audit/").text
    assert "The chain holds" in text
    assert "As of" in text


# --------------------------------------------------------------------------------------------------------------- errors


def test_what_is_not_there_says_so(cast: Cast) -> None:
    assert "There is nothing here" in look(in_as(cast, "ann"), "/interrupts/999/", status=404).text


def test_a_database_that_is_away_is_said_without_a_trace(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: Any, **kwargs: Any) -> Any:
        raise OperationalError("connection refused at 10.0.0.1")

    ann = in_as(cast, "ann")
    ann.raise_request_exception = False
    monkeypatch.setattr("reviews.views.inbox.inbox.page", away)
    response = ann.get("/")
    assert response.status_code == 503
    assert "The database does not answer" in page_of(response).text
    assert "10.0.0.1" not in response.content.decode()


def test_a_mistake_of_ours_shows_no_trace(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    ann = in_as(cast, "ann")
    ann.raise_request_exception = False
    monkeypatch.setattr("reviews.views.inbox.inbox.page", broken)
    response = ann.get("/")
    assert response.status_code == 500
    assert "The desk made a mistake" in page_of(response).text
    assert "secret detail" not in response.content.decode()


@override_settings(ALLOWED_HOSTS=["desk.example.test"])
def test_a_wrong_host_gets_a_plain_answer(client: Client) -> None:
    response = client.get("/", headers={"host": "evil.example.test"})
    assert response.status_code == 400
    assert "This request cannot be read" in page_of(response).text


def test_nothing_was_decided_by_all_of_this(cast: Cast, payment: Interrupt) -> None:
    root = in_as(cast, "root")
    for path in pages_of(cast, payment):
        root.get(path)
        root.put(path)
        root.delete(path)
    assert not Decision.objects.exists()
