"""A thread's page while its agent works: what the server shows, and from where the browser goes on."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agents import registry, streams
from agents.catalog import hotline
from agents.conversation import views
from agents.models import Agent, RunEvent, Thread
from agents.tests.graphs import turns
from reviews.tests.cast import Cast
from reviews.tests.door import Desk, Visitor
from reviews.tests.pages import look

CALLS = turns([("read", {"id": 1}), ("pay", {"amount": 5})])


def told_up_to(page_html: str) -> int:
    (number,) = re.findall(r'id="talk" data-after="(\d+)"', page_html)
    return int(number)


@pytest.mark.django_db
def test_a_thread_without_events_is_watched_from_nought(cast: Cast, client: Client) -> None:
    client.force_login(cast.ann)
    page = look(client, reverse("reviews:thread", args=[cast.thread.pk]))
    assert told_up_to(page.html) == 0
    assert f'data-watch="{cast.thread.pk}"' in page.html
    assert f'data-events="{reverse("reviews:events", args=[cast.thread.pk])}"' in page.html
    assert page.inline == []


def test_the_page_stands_where_the_events_stand_that_its_conversation_holds(desk: Desk) -> None:
    desk.give()
    thread = desk.say()
    answer = desk.olga.open(thread)
    number = told_up_to(answer.html)
    assert 0 < number <= streams.last_seq(thread.pk)
    later = RunEvent.objects.filter(thread=thread, seq__gt=number)
    assert set(later.values_list("kind", flat=True)) <= {"interrupt", "error", "end"}


def test_each_message_and_call_of_the_page_bears_the_ids_of_its_events(desk: Desk) -> None:
    desk.give()
    thread = desk.say(CALLS)
    html = desk.olga.open(thread).html
    shown = set(re.findall(r'data-message="([^"]+)"', html))
    told = {event.data["id"] for event in RunEvent.objects.filter(thread=thread, kind="message")}
    assert told and told <= shown
    calls = {(message, call) for message, call in re.findall(r'data-message="([^"]+)" data-call="([^"]+)"', html)}
    made = {
        (event.data["id"], call["id"])
        for event in RunEvent.objects.filter(thread=thread, kind="message")
        for call in event.data["calls"]
    }
    assert made and made <= calls


def test_a_call_being_made_offers_nothing_to_approve(desk: Desk) -> None:
    """Only a filed question leads anywhere; what events tell of a call carries no arguments."""
    desk.give()
    thread = desk.say(CALLS)
    for event in RunEvent.objects.filter(thread=thread, kind__in=["call", "message", "tool"]):
        assert "args" not in event.data
        assert all("args" not in call for call in event.data.get("calls", []))
    assert "decision" not in {name for name, _ in desk.olga.open(thread).page.buttons()}


@pytest.mark.django_db
def test_a_message_sent_by_script_leaves_the_page_where_it_is(cast: Cast) -> None:
    olga = Visitor(cast.olga)
    address = reverse("reviews:thread", args=[cast.thread.pk])
    sent = olga.post(address, {"text": "And then?", "submit_token": "a"}, live=True)
    again = olga.post(address, {"text": "And then?", "submit_token": "a"}, live=True)
    assert (sent.status, again.status) == (204, 204)
    assert Thread.objects.get(pk=cast.thread.pk).runs.count() == 1


@pytest.mark.django_db
def test_a_refused_message_says_why_in_plain_words(cast: Cast) -> None:
    olga = Visitor(cast.olga)
    refused = olga.post(
        reverse("reviews:thread", args=[cast.thread.pk]), {"text": "  ", "submit_token": "b"}, live=True
    )
    assert refused.status == 422
    assert refused.response.content.decode() == "A message needs some words."
    assert refused.response.headers["Content-Type"].startswith("text/plain")


CARD = "4111 1111 1111 1111"


def test_a_thread_of_a_redacting_agent_shows_no_more_than_its_stream(desk: Desk) -> None:
    desk.give(hotline.build)
    found = registry.get("support")
    Agent.objects.filter(pk="support").update(
        redacts=found.redacts, transformers=[one.row() for one in found.transformers]
    )
    thread = desk.say(f"My card is {CARD}, and nobody answers.")
    shown = desk.olga.open(thread)
    conversation = shown.html.partition('id="talk"')[2].partition('id="tail"')[0]
    assert hotline.MASK in conversation
    assert CARD not in conversation
    assert CARD in desk.state(thread).values["messages"][0].text
    agents = desk.olga.open(reverse("reviews:agents"))
    assert "less than is stored" in agents
    names = [one.name for one in found.transformers]
    assert re.findall(r"<li>\s*<code>(\w+)</code>", agents.html) == names
    assert names.index("WithoutCards") < names.index("MessagesTransformer") < names.index("Progress")


@pytest.mark.parametrize(
    ("message", "text", "thought"),
    [
        (AIMessage("Plain."), "Plain.", ""),
        (AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}]), "Yes.", "Hm."),
        (AIMessage([{"type": "thinking", "thinking": "Hm.", "signature": "x"}, "Yes."]), "Yes.", "Hm."),
        (
            AIMessage([{"type": "reasoning", "summary": [{"text": "Ha."}]}, {"type": "text", "text": "No."}]),
            "No.",
            "Ha.",
        ),
        (AIMessage("No.", additional_kwargs={"reasoning_content": "Hm."}), "No.", "Hm."),
        (HumanMessage([{"type": "reasoning", "reasoning": "Hm."}]), "", ""),
    ],
)
def test_what_a_model_thought_is_no_part_of_what_it_said(message: BaseMessage, text: str, thought: str) -> None:
    (view,) = views([message])
    assert (view.content, view.reasoning) == (text, thought)
