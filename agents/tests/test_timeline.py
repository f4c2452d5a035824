"""The timeline, the tree and single checkpoints, on every agent: what the rows say is what LangGraph says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from agents import branches, history, registry, runs, statements, timeline
from agents.checkpointer import DjangoSaver
from agents.models import Checkpoint
from agents.outcome import from_canonical
from agents.tests import driving, journeys
from agents.tests.journeys import BRIEF, Journey, every, made, registered, walk
from agents.tests.looking import asks, ids


def namespaces(thread_id: str) -> list[str]:
    return list(Checkpoint.objects.filter(thread_id=thread_id).values_list("ns", flat=True).distinct())


@pytest.mark.parametrize("name", BRIEF)
def test_the_rows_say_what_langgraph_says(shop: Any, name: str) -> None:
    compare_with_langgraph(made(name))


@pytest.mark.thorough
@pytest.mark.parametrize("journey", every())
def test_the_rows_of_any_agent_say_what_langgraph_says(shop: Any, journey: Journey) -> None:
    compare_with_langgraph(journey)


def compare_with_langgraph(journey: Journey) -> None:
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


def thread_of(rows: int, *, forks: Sequence[int] = ()) -> str:
    """A thread of checkpoints that no graph wrote; each of ``forks`` is the number of a row that gets another child."""
    thread_id = runs.create_thread("support")
    saver = DjangoSaver()
    config: Any = None
    configs: list[Any] = []
    for number in range(rows):
        config = put(saver, thread_id, config, number)
        configs.append(config)
    for number in forks:
        configs.append(put(saver, thread_id, configs[number], number + 1))
    return thread_id


def put(saver: DjangoSaver, thread_id: str, parent: Any, number: int, *, values: Any = None) -> Any:
    saved: Any = {**empty_checkpoint(), "channel_values": values or {"number": number, "text": "x" * 2_000}}
    names: Any = parent or {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    return saver.put(names, saved, {"source": "loop", "step": number, "parents": {}}, {})


def test_pages_joined_give_each_checkpoint_once_while_new_ones_arrive(shop: Any) -> None:
    thread_id = thread_of(23, forks=[5, 11, 5])
    before = ids(thread_id)
    seen: list[str] = []
    page = history.timeline(thread_id, limit=5)
    while True:
        seen += [one.point.checkpoint_id for one in page.steps]
        put(DjangoSaver(), thread_id, history.Point(thread_id, ids(thread_id)[0]).config, 99)
        if not page.older:
            break
        page = history.timeline(thread_id, before=page.older, limit=5)
    assert seen == before
    newer = history.timeline(thread_id, after=before[0], limit=100)
    assert [one.point.checkpoint_id for one in newer.steps] == ids(thread_id)[: -len(before)]
    assert (newer.newer, newer.older) == ("", newer.steps[-1].point.checkpoint_id)
    back = history.timeline(thread_id, after=before[10], limit=3)
    assert [one.point.checkpoint_id for one in back.steps] == before[7:10]
    assert back.newer == before[7]
    assert history.timeline(thread_id, at=before[4], limit=2).steps[0].point.checkpoint_id == before[4]


def test_a_page_takes_a_fixed_number_of_queries_and_loads_no_value(shop: Any) -> None:
    counts = []
    for rows in (60, 120):
        thread_id = thread_of(rows, forks=[2, 4])
        with CaptureQueriesContext(connection) as queries:
            history.timeline(thread_id, limit=50)
        counts.append(len(queries))
        assert not any("blob" in query["sql"] for query in queries)
    assert counts[0] == counts[1] <= 9


def test_the_tree_is_paged_and_knows_which_branch_goes_on_in_its_parents_lane(shop: Any) -> None:
    thread_id = thread_of(6, forks=[2, 5, 6])  # 6 turns away, 7 goes on from the old head, 8 from what 6 began
    rows = ids(thread_id)[::-1]
    tree = history.tree(thread_id)
    told = [(one.number, one.parent, one.first, one.last, one.continues) for one in tree.branches]
    assert told == [
        (3, 1, rows[8], rows[8], True),
        (2, 0, rows[7], rows[7], True),
        (1, 0, rows[6], rows[6], False),
        (0, None, rows[0], rows[5], False),
    ]
    assert [one.is_head for one in tree.branches] == [True, False, False, False]
    first = history.tree(thread_id, limit=3)
    assert (len(first.branches), first.older) == (3, 1)
    assert history.tree(thread_id, before=first.older).branches == tree.branches[3:]


def test_the_common_ancestor_is_found_across_branches_and_forks(shop: Any) -> None:
    thread_id = thread_of(6, forks=[2, 6])
    rows = [history.Point(thread_id, one) for one in ids(thread_id)[::-1]]
    assert history.common_ancestor(rows[5], rows[7]) == rows[2]
    assert history.common_ancestor(rows[3], rows[5]) == rows[3]
    assert history.common_ancestor(rows[6], rows[7]) == rows[6]
    fork = history.fork(thread_id, rows[4].checkpoint_id, author="olga", go_on=False)
    root = history.Point(fork, ids(fork)[0])
    assert history.common_ancestor(root, rows[5]) == rows[4]
    assert history.common_ancestor(rows[7], root) == rows[2]
    assert history.is_ancestor(rows[1], root) and not history.is_ancestor(rows[5], root)
    assert history.common_ancestor(root, history.Point(thread_of(1), rows[0].checkpoint_id)) is None


def test_time_and_distance_are_told(shop: Any) -> None:
    thread_id = thread_of(3)
    rows = ids(thread_id)[::-1]
    start = datetime(2027, 1, 1, tzinfo=UTC)
    for number, checkpoint_id in enumerate(rows):
        Checkpoint.objects.filter(checkpoint_id=checkpoint_id).update(created_at=start + timedelta(seconds=number**2))
    page = history.timeline(thread_id, limit=2)
    assert [(one.at, one.elapsed) for one in page.steps] == [
        (start + timedelta(seconds=4), timedelta(seconds=3)),
        (start + timedelta(seconds=1), timedelta(seconds=1)),
    ]


def test_subgraphs_fold_out_under_the_step_they_ran_in(shop: Any) -> None:
    with registered(made("nested")):
        journey = made("nested")
        thread_id = journey.begin()
        walk(thread_id)
        (row,) = [one for one in history.timeline(thread_id).steps if one.nested]
        assert "sub" in row.next
        (inner,) = row.nested
        assert (inner.node, inner.count) == ("sub", 3)
        steps = history.timeline(thread_id, namespace=inner.namespace).steps
        assert [one.point.checkpoint_id for one in steps] == ids(thread_id, inner.namespace)
        assert (steps[0].point.checkpoint_id, steps[-1].point.checkpoint_id) == (inner.last, inner.first)
        (asked,) = [one for one in steps if one.asked]
        assert (asked.answered, asked.next) == (1, ("ask",))
        assert history.state_at(thread_id, asked.point.checkpoint_id, inner.namespace).next == ("ask",)


# ------------------------------------------------------------------------------------------------------ one checkpoint


def test_a_question_is_open_then_answered_or_ignored(shop: Any) -> None:
    thread_id = driving.start("support", "Please refund order 10482.")
    (ask,) = driving.step(thread_id).asks
    pause = ids(thread_id)[0]
    (asked,) = history.state_at(thread_id, pause).asked
    assert (asked.interrupt_id, asked.state, asked.value, asked.answers) == (ask.interrupt_id, "open", ask.value, ())
    assert history.state_at(thread_id, pause).is_head
    history.rewind(thread_id, pause, author="olga")
    driving.step(thread_id)
    assert [one.state for one in history.state_at(thread_id, pause).asked] == ["ignored"]
    newer = ids(thread_id)[0]
    journeys.reply(thread_id, asks(thread_id)[0], "yes")
    driving.step(thread_id)
    (asked,) = history.state_at(thread_id, newer).asked
    assert (asked.state, asked.answers) == ("answered", (b'{"decisions":[{"type":"approve"}]}',))
    (row,) = [one for one in history.timeline(thread_id).steps if one.point.checkpoint_id == newer]
    assert (row.asked, row.answered) == (1, 1)


def test_questions_of_one_checkpoint_are_told_apart(shop: Any) -> None:
    journey = made("parallel")
    with registered(journey):
        thread_id = journey.begin()
        first = driving.step(thread_id)
        pause = ids(thread_id)[0]
        by_value = {ask.value: ask for ask in first.asks}
        driving.answer(thread_id, by_value[b'{"q":"inner"}'], "I", ["respond"])
        driving.step(thread_id)
        told = {
            one.value: (one.state, one.namespace.partition(":")[0]) for one in history.state_at(thread_id, pause).asked
        }
        assert told == {b'"left"': ("open", ""), b'"right"': ("open", ""), b'{"q":"inner"}': ("answered", "sub")}


def test_the_second_question_of_a_task_waits_although_the_first_was_answered(shop: Any) -> None:
    journey = made("asks-twice")
    with registered(journey):
        thread_id = journey.begin()
        driving.answer(thread_id, driving.step(thread_id).asks[0], "one", ["respond"])
        driving.step(thread_id)
        (asked,) = history.state_at(thread_id).asked
        assert (asked.value, asked.state, asked.answers) == (b'"second"', "open", (b'"one"',))


def test_a_state_stands_as_it_was_and_later_results_are_not_in_it(shop: Any) -> None:
    thread_id = driving.start("support", "Please refund order 10482.")
    driving.step(thread_id)
    pause = ids(thread_id)[0]
    before = history.state_at(thread_id, pause)
    journeys.reply(thread_id, asks(thread_id)[0], "yes")
    driving.step(thread_id)
    after = history.state_at(thread_id, pause)
    assert (before.messages, before.values, before.next) == (after.messages, after.values, after.next)
    assert after.messages[-1].calls[0].result is None
    assert history.state_at(thread_id).messages[-2].calls[0].result
    raw = from_canonical(history.raw_state(thread_id, pause))
    assert raw["metadata"]["step"] == after.step and raw["checkpoint"]["id"] == pause


def test_delta_channels_are_read_with_the_agents_code_and_named_without_it(shop: Any) -> None:
    journey = made("delta")
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id)
        whole = [history.state_at(thread_id, one).messages for one in ids(thread_id)]
        assert [len(one) for one in whole] == sorted([len(one) for one in whole], reverse=True)
    bare = [history.state_at(thread_id, one) for one in ids(thread_id)]
    assert {one.unread for one in bare} == {(), ("messages",)}
    assert [one.messages for one in bare if not one.unread] == [
        messages for messages, one in zip(whole, bare, strict=True) if not one.unread
    ]


def test_types_that_nobody_knows_are_data(shop: Any) -> None:
    thread_id = runs.create_thread("support")
    values = {"when": Strange("x"), "messages": [Strange("m"), HumanMessage("hello", id="h")], "deep": deep(100)}
    names: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    saved: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": "1"}}
    DjangoSaver().put(names, saved, {"source": "loop", "step": 0}, {})
    made_before = Strange.made
    state = history.state_at(thread_id)
    assert [one.content for one in state.messages] == ['{"name":"m"}', "hello"]
    assert from_canonical(state.values)["when"] == {"name": "x"}
    assert b'"when"' in history.raw_state(thread_id, state.checkpoint_id)
    assert Strange.made == made_before


@dataclass
class Strange:
    """A class with a side effect when it is made."""

    name: str
    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        Strange.made += 1


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL sees through other words for a condition")
def test_sqlite_takes_the_partial_indexes_of_branches_and_subgraphs(shop: Any) -> None:
    """It takes one only where the query says its condition in the same words, else it reads the whole thread."""
    for run, index in (
        (lambda: branches.Branches.of("t"), "checkpoint_branches"),
        (lambda: timeline._Reading("t", "", [], [], has_head=True).nested, "checkpoint_outer"),
    ):
        with CaptureQueriesContext(connection) as asked:
            run()
        plans = [statements.select(f"explain query plan {one['sql']}", [1] * one["sql"].count("%s")) for one in asked]
        assert any(index in str(plan) for plan in plans), index
