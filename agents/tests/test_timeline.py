"""The timeline, the tree and single checkpoints, on every agent: what the rows say is what LangGraph says."""

from __future__ import annotations

from typing import Any

import pytest

from agents import history, registry
from agents.models import Checkpoint
from agents.tests.journeys import Journey, every, registered, walk


def ids(thread_id: str, namespace: str = "") -> list[str]:
    """All checkpoint ids, newest first."""
    rows = Checkpoint.objects.filter(thread_id=thread_id, ns=namespace).order_by("-checkpoint_id")
    return list(rows.values_list("checkpoint_id", flat=True))


def namespaces(thread_id: str) -> list[str]:
    return list(Checkpoint.objects.filter(thread_id=thread_id).values_list("ns", flat=True).distinct())


@pytest.mark.parametrize("journey", every())
def test_the_rows_say_what_langgraph_says(shop: Any, journey: Journey) -> None:
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id)
        graph = registry.get(journey.name).graph
        for namespace in namespaces(thread_id):
            found = history.timeline(thread_id, namespace=namespace, limit=200).steps
            assert [one.point.checkpoint_id for one in found] == ids(thread_id, namespace)
            for one in found:
                if (told := _told(graph, one.point)) is None:
                    continue
                assert sorted(one.next) == sorted(told.next), one
                assert one.step == told.metadata["step"] and one.source == told.metadata["source"]
                parent = told.parent_config["configurable"]["checkpoint_id"] if told.parent_config else ""
                assert one.parent_id == parent
                if one.messages is not None:
                    assert one.messages == len(told.values.get("messages", []))


def _told(graph: Any, point: history.Point) -> Any:
    """What LangGraph says of a checkpoint; None in a graph that it cannot reach, inside a tool or a node."""
    if point.namespace:
        names = [part.partition(":")[0] for part in point.namespace.split("|")]
        inner = [sub for _, sub in graph.get_subgraphs(namespace="|".join(names), recurse=True)]
        if not inner or inner[0].checkpointer is True:
            return None
    return graph.get_state(point.config)
