"""The queue of a thread as operators see it: numbered, taken back, moved, held; and the runs they stop or repeat."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db.models.functions import Now
from django.urls import reverse

from agents import runs, workers
from agents.models import Agent, Run, Thread, Worker
from agents.status import ROWS
from reviews.audit import Kind
from reviews.models import AuditEntry, Interrupt
from reviews.tests.cast import Cast, ask_calls, file_outcome, new_thread, outcome_of
from reviews.tests.door import Answer, Desk, Visitor
from reviews.tests.pages import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(cast: Cast) -> Visitor:
    return Visitor(cast.olga)


def at(name: str, thread: Thread, **more: Any) -> str:
    return reverse(f"reviews:{name}", kwargs={"pk": thread.pk, **more})


def write(olga: Visitor, thread: Thread, text: str, **more: str) -> Answer:
    return olga.post(at("thread", thread), {"text": text, "submit_token": text[:20], **more})


def texts(thread: Thread) -> list[str]:
    return [run.payload["text"] for run in runs.queue(thread.pk)]


def begin(thread: Thread) -> Run:
    """A worker takes up what is first."""
    lease = runs.claim(thread.pk, "worker-1")
    assert lease is not None
    return Run.objects.get(pk=lease.run_id)


# ---------------------------------------------------------------------------------------------------------------- queue


def test_what_waits_is_numbered_with_author_and_age(olga: Visitor, cast: Cast) -> None:
    for text in ("One", "Two", "Three"):
        write(olga, cast.thread, text)
    page = olga.open(cast.thread)
    assert re.search(r"One queued next, 1 of 3 · you, \d s ago", page.page.text)
    assert "Three queued, 3 of 3" in page
    assert "Queue as number 4" in page
    assert "One queued next, 1 of 3 · olga" in Visitor(cast.ann).open(cast.thread)


def test_a_doubled_submit_is_one_message(olga: Visitor, cast: Cast) -> None:
    for _ in range(2):
        olga.post(at("thread", cast.thread), {"text": "Once", "submit_token": "same"})
    assert texts(cast.thread) == ["Once"]


def test_each_line_becomes_a_message_of_its_own(olga: Visitor, cast: Cast) -> None:
    write(olga, cast.thread, "Where is 1?\n\n  Where is 2?  \nWhere is 3?", lines="each")
    assert texts(cast.thread) == ["Where is 1?", "Where is 2?", "Where is 3?"]


def test_the_other_lines_follow_the_first_and_go_with_it(olga: Visitor, cast: Cast) -> None:
    write(olga, cast.thread, "Find it\nThen pack it", lines="follow")
    assert texts(cast.thread) == ["Find it", "Then pack it"]
    assert "follows another" in olga.open(cast.thread)
    first = runs.queue(cast.thread.pk)[0]
    olga.post(at("cancel", cast.thread, run=first.pk), {})
    assert texts(cast.thread) == []


def test_above_ten_the_page_warns(olga: Visitor, cast: Cast) -> None:
    write(olga, cast.thread, "\n".join(f"Question {number}" for number in range(11)), lines="each")
    assert "11 messages wait: more than people keep in mind" in olga.open(cast.thread)


def test_a_full_queue_refuses_and_keeps_what_was_typed(olga: Visitor, cast: Cast, settings: Any) -> None:
    settings.QUEUE_LIMIT = 1
    write(olga, cast.thread, "One")
    refused = write(olga, cast.thread, "Two, a long one")
    assert refused.status == 422
    assert "1 is the most" in refused
    assert refused.typed("text") == "Two, a long one"
    assert texts(cast.thread) == ["One"]
    assert django_settings.QUEUE_LIMIT == 1


def test_messages_change_places_by_buttons(olga: Visitor, cast: Cast) -> None:
    for text in ("One", "Two"):
        write(olga, cast.thread, text)
    first, second = runs.queue(cast.thread.pk)
    page = olga.open(cast.thread)
    assert "Move message 2 up" in page and "Message 1 is the first" in page
    olga.post(at("move", cast.thread, run=second.pk), {"past": first.pk})
    assert texts(cast.thread) == ["Two", "One"]
    stale = olga.post(at("move", cast.thread, run=second.pk), {"past": second.pk}, live=True)
    assert stale.status == 422
    assert "The queue has changed" in stale.response.content.decode()


def test_all_are_taken_back_at_once_and_each_is_logged(olga: Visitor, cast: Cast) -> None:
    for text in ("One", "Two"):
        write(olga, cast.thread, text)
    assert "Clear all 2" in olga.open(cast.thread)
    olga.post(at("clear", cast.thread), {})
    assert texts(cast.thread) == []
    assert "2 messages taken back" in olga.open(cast.thread)
    assert AuditEntry.objects.filter(kind=Kind.MESSAGE_CANCELLED).count() == 2


# ----------------------------------------------------------------------------------------------------------------- runs


def test_a_run_is_stopped_with_honest_words(olga: Visitor, cast: Cast) -> None:
    write(olga, cast.thread, "Go")
    run = begin(cast.thread)
    page = olga.open(cast.thread)
    assert "Stop after this step" in page and "Stop now" in page
    olga.post(at("stop", cast.thread, run=run.pk), {"how": "drain"})
    run.refresh_from_db()
    assert run.stop == "drain"
    page = olga.open(cast.thread)
    assert "It stops before its next step." in page and "Stop after this step" not in page
    olga.post(at("stop", cast.thread, run=run.pk), {"how": "cancel"})
    assert "A tool that cannot be ended is waited for" in olga.open(cast.thread)
    assert AuditEntry.objects.filter(kind=Kind.RUN_STOPPED).count() == 2


def test_who_only_reads_is_offered_no_verb(cast: Cast, olga: Visitor) -> None:
    write(olga, cast.thread, "Go")
    run = begin(cast.thread)
    write(olga, cast.thread, "Next")
    page = Visitor(cast.ann).open(cast.thread)
    assert "Next queued next" in page
    for words in ("Stop now", "Clear all", "Move message", "Cancel"):
        assert words not in page
    assert Visitor(cast.ann).post(at("stop", cast.thread, run=run.pk), {"how": "drain"}).status == 403


def test_a_failed_run_is_tried_again_from_its_thread(olga: Visitor, cast: Cast) -> None:
    write(olga, cast.thread, "Go")
    file_outcome(cast.thread, status="error", error="TimeoutError: too slow")
    page = olga.open(cast.thread)
    assert "Try again" in page
    run = Run.objects.get(thread=cast.thread)
    olga.post(at("retry", cast.thread, run=run.pk), {"submit_token": "r"})
    assert Run.objects.filter(thread=cast.thread, status="pending").count() == 1
    again = olga.post(at("retry", cast.thread, run=run.pk), {"submit_token": "q"})
    assert again.status == 302


# ----------------------------------------------------------------------------------------------------------------- held


@pytest.fixture
def question(cast: Cast) -> Interrupt:
    Agent.objects.filter(pk="support").update(tools_node="tools")
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    return row


def test_while_a_question_is_open_messages_are_held_and_say_so(olga: Visitor, cast: Cast, question: Interrupt) -> None:
    write(olga, cast.thread, "And then?")
    page = olga.open(cast.thread)
    assert "1 message held: a question is open" in page
    assert "And then? held next, 1 of 1" in page
    assert "Hold as number 2" in page


def test_sending_anyway_says_first_what_it_withdraws(olga: Visitor, cast: Cast, question: Interrupt) -> None:
    asked = olga.post(at("anyway", cast.thread), {"text": "Stop, other plan.", "submit_token": "a", "anyway": "1"})
    assert asked.status == 200
    assert question.title in asked and "pay does not run" in asked
    assert asked.typed("text") == "Stop, other plan."
    question.refresh_from_db()
    assert question.status == "open" and texts(cast.thread) == []
    fields = next(form for form in asked.page.forms if "sure" in form.fields).fields
    done = olga.post(at("anyway", cast.thread), fields)
    assert done.status == 302
    question.refresh_from_db()
    assert question.status == "withdrawn" and "olga" in question.withdrawn_reason
    assert AuditEntry.objects.filter(kind=Kind.SENT_ANYWAY).count() == 1
    assert [run.kind for run in runs.queue(cast.thread.pk)] == ["replay", "input"]


def test_a_graph_without_a_tools_node_offers_no_send_anyway(olga: Visitor, cast: Cast, question: Interrupt) -> None:
    assert "Send now and drop the question" in olga.open(cast.thread)
    Agent.objects.filter(pk="support").update(tools_node="")
    assert "Send now and drop the question" not in olga.open(cast.thread)
    refused = olga.post(at("anyway", cast.thread), {"text": "x", "submit_token": "a", "sure": "1"})
    assert refused.status == 422
    question.refresh_from_db()
    assert question.status == "open"


def test_a_failed_message_does_not_hold_up_the_next(desk: Desk) -> None:
    thread = desk.cast.thread
    desk.give()
    for text in ("One", "Two"):
        write(desk.olga, thread, text)
    outcome = outcome_of(thread, status="error", error="ValueError: no")
    assert runs.finish(outcome)
    desk.work()
    kinds = Run.objects.filter(thread=thread).order_by("position").values_list("status", flat=True)
    assert list(kinds) == ["error", "success"]


def test_the_strategy_of_the_agent_is_chosen_unless_somebody_chooses_another(olga: Visitor, cast: Cast) -> None:
    Agent.objects.filter(pk="support").update(multitask="reject")
    page = olga.open(cast.thread)
    form = next(form for form in Page(page.html).forms if "strategy" in form.fields)
    assert form.fields["strategy"] == "reject"
    write(olga, cast.thread, "Go")
    begin(cast.thread)
    refused = write(olga, cast.thread, "Next", strategy="reject")
    assert refused.status == 422 and refused.typed("text") == "Next"
    assert write(olga, cast.thread, "Later", strategy="enqueue").status == 302
    assert texts(cast.thread) == ["Later"]


# ----------------------------------------------------------------------------------------------------- the queue's page


def test_the_queue_page_shows_what_failed_runs_waits_and_is_held(
    olga: Visitor, cast: Cast, question: Interrupt
) -> None:
    write(olga, cast.thread, "Held one")
    for title in ("Failed", "Running", "Pending"):
        write(olga, new_thread(title), title)
    failed, running, _ = Thread.objects.exclude(pk=cast.thread.pk).order_by("created_at")
    file_outcome(failed, status="error", error="TimeoutError: payment service")
    begin(running)
    page = olga.open(reverse("reviews:queue"))
    for words in ("TimeoutError: payment service", "held", "running", "pending", "worker-1", "Try again", "last beat"):
        assert words in page
    for state in ("failed", "held", "running", "pending"):
        assert f"<b>1</b><span>{state}</span>" in page.html
    assert 'role="img" aria-label="Runs ended in each minute of the last hour: 2 in all' in page.html
    assert "The same numbers as a table" in page


def test_the_finder_of_lost_requests_offers_what_to_do_next(olga: Visitor, cast: Cast, question: Interrupt) -> None:
    Interrupt.objects.filter(pk=question.pk).update(status="withdrawn")
    page = olga.open(reverse("reviews:queue"))
    assert "thread without a question" in page and "Look again" in page
    olga.press(page, "look", name="verb")
    run = runs.queue(cast.thread.pk)[0]
    assert (run.kind, run.payload) == ("replay", {"look": True})


def test_the_queue_page_is_not_for_who_only_reviews(cast: Cast, olga: Visitor) -> None:
    ann = Visitor(cast.ann)
    assert ann.open(reverse("reviews:queue")).status == 403
    assert reverse("reviews:queue") not in ann.open(reverse("reviews:inbox")).html
    aude = Visitor(cast.aude).open(reverse("reviews:queue"))
    assert aude.status == 200 and "Nothing is lost" in aude


def test_every_page_says_that_nobody_works(olga: Visitor) -> None:
    assert "No worker is running" in olga.open(reverse("reviews:inbox"))
    workers.seen("worker-1")
    assert "No worker is running" not in olga.open(reverse("reviews:inbox"))


def test_the_title_counts_what_is_open(olga: Visitor, question: Interrupt) -> None:
    assert "<title>(1) Threads" in olga.open(reverse("reviews:threads")).html


def test_a_silent_worker_stays_on_the_page_and_one_that_left_does_not(cast: Cast, olga: Visitor) -> None:
    for name in ("works", "fell-silent", "left"):
        workers.seen(name)
    Worker.objects.filter(pk="fell-silent").update(last_seen=Now() - timedelta(seconds=workers.alive_seconds() + 60))
    workers.gone("left")
    page = olga.open(reverse("reviews:queue"))
    row = re.compile(r'<span class="tool">([\w-]+)</span></th>\s*<td data-label="State".*?(alive|silent)</span>', re.S)
    assert row.findall(page.html) == [("works", "alive"), ("fell-silent", "silent")]
    assert "No worker was heard of lately" not in page
    workers.gone("works")
    page = olga.open(reverse("reviews:queue"))
    assert row.findall(page.html) == [("fell-silent", "silent")]
    assert "No worker was heard of lately" in page


def test_a_list_that_is_cut_leads_to_all_of_it(cast: Cast, olga: Visitor) -> None:
    for number in range(ROWS + 2):
        runs.enqueue(cast.thread.pk, kind="input", payload={"text": str(number)}, author="olga")
    runs.enqueue(new_thread(agent="billing").pk, kind="input", payload={"text": "other"}, author="olga")
    page = olga.open(reverse("reviews:queue"))
    assert f"The {ROWS} oldest pending ones are here." in page
    assert 'href="?state=pending"' in page.html
    first = olga.open(reverse("reviews:queue") + "?state=pending")
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first.html)
    last = olga.open(reverse("reviews:queue") + unescape(following))
    shown = [re.findall(r'<code title="([^"]+)"', one.html) for one in (first, last)]
    assert [len(names) for names in shown] == [ROWS, 2]
    assert len({*shown[0], *shown[1]}) == ROWS + 2
    assert 'rel="next"' not in last.html
    assert "No run is failed." in olga.open(reverse("reviews:queue") + "?state=failed")


def test_what_an_empty_box_says_comes_with_the_queue(cast: Cast, olga: Visitor) -> None:
    hint = "Held until the question is decided."
    assert hint not in olga.open(cast.thread).html
    file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    html = olga.open(cast.thread).html
    assert f'data-hint="{hint}"' in html.partition('id="send"')[2]
    assert f'placeholder="{hint}"' in html
