"""What the steps of a way left behind, read back in one order whatever the database's plan."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from agents.checkpointer import DjangoSaver
from agents.models import Agent, Thread
from agents.record import Record, Row

pytestmark = pytest.mark.django_db


def test_the_tasks_of_a_step_stand_in_langgraphs_order() -> None:
    """By path, as they are applied; neither as they ended nor by their ids."""
    Thread.objects.create(id="t", agent=Agent.objects.create(name="any", title="Any"))
    saver, checkpoint = DjangoSaver(), empty_checkpoint()
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    at = saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {})
    for task, node in (("1", "legal"), ("2", "brand"), ("0", "press")):
        saver.put_writes(at, [("said", node)], task, f"~__pregel_pull, {node}")
    row = Row(checkpoint["id"], "", "loop", ("brand", "legal", "press"))
    assert [task.node for task in Record("t", "", [row]).tasks(row)] == ["brand", "legal", "press"]
