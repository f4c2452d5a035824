"""An agent whose code changed while a question waits: the question says so, and nothing runs that was not decided."""

from __future__ import annotations

import pytest

from agents import registry
from agents.models import Agent
from agents.tests import graphs
from reviews.tests.door import Desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

PAY = graphs.turns([("pay", {"amount": 5})])
CHANGED = "was changed since it asked this"


def test_the_same_code_says_nothing(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    assert row.agent_shape == row.agent.shape != ""
    assert CHANGED not in desk.ann.open(row)


def test_another_version_is_said_until_it_is_decided(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    Agent.objects.filter(pk=row.agent_id).update(version="9.1")
    page = desk.ann.open(row)
    assert CHANGED in page
    assert "is 9.1 now" in page
    desk.ann.press(page, "approve")
    desk.work()
    assert desk.paid() == [5]
    assert CHANGED not in desk.ann.open(row)


def test_other_nodes_under_the_same_version_are_said_and_a_step_that_is_gone_runs_nothing(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    with registry.override(row.agent_id, graphs.loop):
        page = desk.ann.open(row)
        assert CHANGED in page
        assert "its nodes, tools or their arguments are not" in page
        desk.ann.press(page, "approve")
        desk.work()
    assert desk.paid() == []
    row.refresh_from_db()
    assert row.status == "withdrawn"
    assert row.resume is not None
    assert row.resume.status in ("error", "cancelled")
