"""The safety sheet against the truth: agents are forked, rewound and replayed at each checkpoint.

What really ran and asked is compared with what was said before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from agents import afterwards, history, record, registry, safety
from agents.models import Checkpoint, CheckpointWrite, Run, ToolExecution
from agents.outcome import Outcome
from agents.safety import SafetySheet
from agents.tests import driving, graphs
from agents.tests.journeys import BRIEF, Journey, Say, every, made, registered, reply, walk
from agents.tests.looking import everything, first_at, ids


@pytest.mark.long
@pytest.mark.parametrize("name", BRIEF)
def test_a_fork_does_what_the_sheet_said(shop: Any, name: str) -> None:
    compare_forks(made(name), "yes")


@pytest.mark.thorough
@pytest.mark.parametrize("say", ["yes", "no"])
@pytest.mark.parametrize("journey", every())
def test_a_fork_of_any_agent_does_what_the_sheet_said(shop: Any, journey: Journey, say: Say) -> None:
    compare_forks(journey, say)


@pytest.mark.long
@pytest.mark.parametrize("name", ["brief-per-call", "nested"])
def test_a_rewind_does_what_the_sheet_said(shop: Any, name: str) -> None:
    compare_rewinds(made(name), "yes")


@pytest.mark.thorough
@pytest.mark.parametrize("journey", every())
def test_a_rewind_of_any_agent_does_what_the_sheet_said(shop: Any, journey: Journey) -> None:
    compare_rewinds(journey, "yes")


@pytest.mark.thorough
@pytest.mark.parametrize("journey", every())
def test_replaying_a_head_that_waits_does_what_the_sheet_said(shop: Any, journey: Journey) -> None:
    with registered(journey):
        thread_id = journey.begin()
        first = driving.step(thread_id)
        sheet = safety.safety_sheet(thread_id, kind="replay head")
        assert {ask.interrupt_id for ask in sheet.hides} == {ask.interrupt_id for ask in first.asks}
        before = Before(thread_id)
        history.replay_head(thread_id, author="olga")
        assert_true(sheet, thread_id, driving.step(thread_id), before)


def compare_forks(journey: Journey, say: Say) -> None:
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id, say)
        for checkpoint_id in ids(thread_id):
            sheet = safety.safety_sheet(thread_id, checkpoint_id)
            fork = history.fork(thread_id, checkpoint_id, author="olga")
            assert not sheet.hides
            if not Run.objects.filter(thread_id=fork, status="pending").exists():
                assert not (sheet.runs or sheet.asks or sheet.nodes or sheet.later), sheet
                continue
            assert safety.safety_sheet(fork, kind="replay head").asks == sheet.asks  # its record lies in the original
            assert_true(sheet, fork, driving.step(fork), Before(fork, nothing=True))


def compare_rewinds(journey: Journey, say: Say) -> None:
    """Rewind to one checkpoint after the other, each time answering all that is asked again."""
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id, say)
        for checkpoint_id in ids(thread_id):
            sheet = safety.safety_sheet(thread_id, checkpoint_id, kind="rewind")
            before = Before(thread_id)
            history.rewind(thread_id, checkpoint_id, author="olga")
            outcome = driving.step(thread_id)
            assert_true(sheet, thread_id, outcome, before)
            finish(thread_id, outcome, say)


@dataclass
class Before:
    """What there was before something was taken again."""

    thread_id: str
    nothing: bool = False
    executions: set[Any] = field(default_factory=set)
    rows: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.nothing:
            executions = ToolExecution.objects.filter(thread_id=self.thread_id)
            self.executions = set(executions.values_list("pk", flat=True))
            self.rows = set(Checkpoint.objects.filter(thread_id=self.thread_id).values_list("pk", flat=True))


def assert_true(sheet: SafetySheet, thread_id: str, outcome: Outcome, before: Before) -> None:
    if not sheet.known:
        assert not sheet.runs and not sheet.asks
        assert {line.name for line in sheet.nodes} <= set(nodes_run(thread_id, before))
        return
    executions = ToolExecution.objects.filter(thread_id=thread_id, calls__gt=0).exclude(pk__in=before.executions)
    ran = executions.filter(status__in=["finished", "failed"])
    assert Counter({line.name: line.count for line in sheet.runs}) == Counter(one.name for one in ran), sheet
    said = Counter((one.who == "breakpoint", _root(one), one.calls) for one in sheet.asks)
    asked = Counter(
        (ask.kind == "breakpoint", ask.node, tuple(call.name for call in ask.calls)) for ask in outcome.asks
    )
    assert said == asked, sheet
    assert bool(sheet.fails) == (outcome.status == "error"), sheet
    told: Counter[str] = Counter()
    for line in sheet.nodes:
        told[line.name] += line.count
    assert told == nodes_run(thread_id, before), sheet


def nodes_run(thread_id: str, before: Before) -> Counter[str]:
    """The nodes of all graphs that were begun: those due where there are writes, a child, or a graph inside."""
    rows = list(Checkpoint.objects.filter(thread_id=thread_id).exclude(pk__in=before.rows))
    parents = {(row.ns, row.parent_id) for row in rows if row.metadata["source"] == "loop"}
    written = CheckpointWrite.objects.filter(thread_id=thread_id).values_list("ns", "checkpoint_id")
    around = {(row.ns.rpartition("|")[0], row.outer_id) for row in rows if row.outer_id}
    begun = parents | set(written) | around
    found = [row.next_nodes.split("|") for row in rows if (row.ns, row.checkpoint_id) in begun and row.next_nodes]
    return Counter(node for nodes in found for node in nodes if node != "__start__")


def finish(thread_id: str, outcome: Outcome, say: Say) -> None:
    for _ in range(12):
        if not outcome.asks:
            return
        reply(thread_id, outcome.asks[0], say)
        outcome = driving.step(thread_id)


def _root(question: Any) -> str:
    """The node of the thread's own graph that a question surfaces in."""
    return str(question.namespace.partition("|")[0].partition(":")[0] or question.node)


# --------------------------------------------------------------------------------------------------------- what it says


def paid() -> str:
    """A thread in which somebody approved one payment, beside a call that nobody is asked about."""
    thread_id = driving.start("paying", graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})]))
    walk(thread_id)
    return thread_id


def test_it_names_what_runs_what_is_asked_and_what_stands(shop: Any) -> None:
    with registry.override("paying", lambda: graphs.agent(graphs.into([]))):
        thread_id = paid()
        past = history.safety_sheet(thread_id, first_at(thread_id, "tools"))
        assert [(line.name, line.count, line.idempotent) for line in past.runs] == [("read", 1, True)]
        assert [(one.who, one.node, one.calls) for one in past.asks] == [("ledger", "tools", ("pay",))]
        assert past.asks == past.ledger_asks and not past.harmful
        assert [(line.name, line.idempotent) for line in past.later] == [("pay", False)]
        assert {(line.name, line.why) for line in past.nodes} == {("tools", "next")}
        assert not past.stands
        end = history.safety_sheet(thread_id)
        assert [(one.name, one.verdict, one.text) for one in end.stands] == [("pay", "approve", "paid 5")]
        assert not (end.runs or end.asks or end.nodes)


def test_siblings_of_a_paused_step_that_run_again_are_named(shop: Any) -> None:
    with registry.override("paying", lambda: graphs.agent(graphs.into([]), mode="per_call")):
        calls: Any = [("pay", {"amount": 5}), ("wipe", {"path": "/"}), ("read", {"id": 1})]
        thread_id = driving.start("paying", graphs.turns(calls))
        (ask, _) = driving.step(thread_id).asks
        sheet = history.safety_sheet(thread_id, kind="replay head")
        assert [line.name for line in sheet.runs] == ["read"]
        assert {(line.name, line.why) for line in sheet.nodes} == {("tools", "sibling")}
        assert ask.interrupt_id in {one.interrupt_id for one in sheet.hides}
        assert sorted(one.calls for one in sheet.asks) == [("pay",), ("wipe",)]


def test_calls_that_are_not_idempotent_and_run_unasked_are_marked(shop: Any) -> None:
    with registry.override("paying", lambda: graphs.agent(graphs.into([]), policy={})):
        thread_id = paid()
        sheet = history.safety_sheet(thread_id, first_at(thread_id, "model"))
        assert [line.name for line in sheet.harmful] == ["pay"]
        assert [line.name for line in sheet.runs] == ["pay", "read"]


def test_answers_to_plain_questions_that_stand_are_listed(shop: Any) -> None:
    journey = made("beside")
    with registered(journey):
        thread_id = journey.begin()
        walk(thread_id)
        sheet = history.safety_sheet(thread_id, first_at(thread_id, "after"))
        (stands,) = sheet.stands
        assert (stands.name, stands.verdict) == ("twice", "answer")
        assert history.safety_sheet(thread_id, stands.checkpoint_id).stands == ()
        fork = history.fork(thread_id, first_at(thread_id, "after"), author="olga")
        assert history.safety_sheet(fork).stands == sheet.stands


@pytest.mark.parametrize(
    ("change", "due"),
    [({"message": "Stop."}, ["model"]), ({"as_node": "model"}, ["HumanInTheLoopMiddleware.after_model"])],
)
def test_after_a_change_only_the_next_step_is_said(shop: Any, change: Any, due: list[str]) -> None:
    with registry.override("paying", lambda: graphs.agent(graphs.into([]))):
        thread_id = paid()
        at = first_at(thread_id, "HumanInTheLoopMiddleware.after_model")
        before = everything(thread_id)
        sheet = history.safety_sheet(thread_id, at, **change)
        assert ([line.name for line in sheet.nodes], sheet.known) == (due, False)
        assert everything(thread_id) == before
        fork = history.fork(thread_id, at, author="olga", **change)
        driving.step(fork)
        (update,) = [one for one in history.timeline(fork).steps if one.source == "update"]
        assert list(update.next) == due


def test_a_long_way_is_cut_and_said_to_be(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_STEPS", 3)
    monkeypatch.setattr(afterwards, "MAX_STEPS", 3)
    with registry.override("paying", lambda: graphs.agent(graphs.into([]), policy={})):
        thread_id = paid()
        assert history.safety_sheet(thread_id, ids(thread_id)[-1]).cut
