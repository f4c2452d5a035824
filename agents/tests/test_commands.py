"""Somebody installs the desk and wants to see what it does."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command

from agents.catalog import ENTRIES
from agents.models import Agent, Run, Thread

pytestmark = pytest.mark.django_db


def told(command: str) -> str:
    out = StringIO()
    call_command(command, stdout=out)
    return out.getvalue()


@pytest.mark.long
def test_a_new_desk_gets_a_thread_for_each_opening_of_each_agent() -> None:
    openings = [(name, opening) for name, entry in ENTRIES.items() for opening in entry.openings]
    assert openings
    assert f"{len(openings)} threads" in told("seed_demo")
    waiting = Run.objects.filter(status="pending", kind="input")
    assert {
        (run.thread.agent_id, run.thread.title, run.payload["text"]) for run in waiting.select_related("thread")
    } == {(name, opening.text, opening.say) for name, opening in openings}


def test_agents_are_listed_without_any_thread() -> None:
    said = told("sync_agents")
    for name in ENTRIES:
        assert f"{name}: ready" in said
    assert not Thread.objects.exists()


def test_an_agent_that_is_gone_stays_for_its_threads_and_takes_no_more() -> None:
    Agent.objects.create(name="retired", title="Retired")
    assert "retired" not in told("sync_agents")
    assert not Agent.objects.get(name="retired").is_active
