"""Rewinds: the same thread goes another way, and answers to what it left behind reach nothing."""

from __future__ import annotations

from typing import Any

from langgraph.types import Command

from agents import history, registry, runs
from agents.models import Run, ToolPermit
from agents.tests import graphs
from agents.tests.driving import answer, decisions, start, step
from agents.tests.journeys import walk
from agents.tests.looking import first_at, ids

APPROVE = {"type": "approve"}
PAY = graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})])


def paying(ran: list[Any], **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into(ran), **options)


def test_a_rewind_hides_the_open_question_and_its_answer_has_no_effect(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        (ask,) = step(thread_id).asks
        sheet = history.safety_sheet(thread_id, ids(thread_id)[1], kind="rewind")
        assert [one.interrupt_id for one in sheet.hides] == [ask.interrupt_id]
        history.rewind(thread_id, ids(thread_id)[1], author="olga")
        (again,) = step(thread_id).asks
        assert again.interrupt_id != ask.interrupt_id
        answer(thread_id, ask, decisions(APPROVE), ["approve"])  # from a page that was open for long
        late = step(thread_id)
    assert (late.status, late.gone) == ("cancelled", (("", ask.interrupt_id),))
    assert not ran
    assert [one.interrupt_id for one in late.asks] == [again.interrupt_id]


def test_a_rewind_that_is_claimed_before_an_answer_makes_the_answer_void(shop: Any) -> None:
    """The reviewer approved, the operator rewound to past the pause, and the rewind came first in the queue."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        walk(thread_id)
        past = first_at(thread_id, "tools")
        history.rewind(thread_id, first_at(thread_id, "HumanInTheLoopMiddleware.after_model"), author="olga")
        (ask,) = step(thread_id).asks
        history.rewind(thread_id, past, author="olga")
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        paid = [name for name, _ in ran].count("pay")
        outcome = step(thread_id)
        assert [call.name for one in outcome.asks for call in one.calls] == ["pay"]
        late = step(thread_id)
    assert [name for name, _ in ran].count("pay") == paid
    assert late.gone == (("", ask.interrupt_id),)


def test_an_unused_permit_does_not_outlive_a_replay(shop: Any) -> None:
    """A worker was stopped between the answer and the tool; then somebody replayed the head: it must be asked again."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        (ask,) = step(thread_id).asks
        run_id = answer(thread_id, ask, decisions(APPROVE), ["approve"])
        graph = registry.get("paying").graph
        graph.invoke(
            Command(resume={ask.interrupt_id: decisions(APPROVE)}),
            {"configurable": {"thread_id": thread_id}},
            interrupt_before=["tools"],
        )  # the answer is saved, the tools are due
        Run.objects.filter(pk=run_id).update(status="cancelled")
        history.replay_head(thread_id, author="olga")
        outcome = step(thread_id)
    assert [name for name, _ in ran] == ["read"]
    assert [call.name for one in outcome.asks for call in one.calls] == ["pay"]
    assert outcome.gone == (("", ask.interrupt_id),)
    assert ToolPermit.objects.filter(run_id=run_id, void=True).exists()


def test_a_resume_cannot_be_aimed_at_a_superseded_checkpoint(shop: Any) -> None:
    """FACTS 0.3: LangGraph would give the old answer again and run the tool. Whatever the payload says, we do not."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        (ask,) = step(thread_id).asks
        pause = ids(thread_id)[0]
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        step(thread_id)
        before = list(ran)
        for kind in ("resume", "replay"):
            answer(thread_id, ask, decisions({"type": "reject"}), ["reject"])
            run = Run.objects.filter(thread_id=thread_id, status="pending").get()
            aimed = {**run.payload, "checkpoint_id": pause}
            Run.objects.filter(pk=run.pk).update(payload=aimed, kind=kind)
            outcome = step(thread_id)
            assert ran == before
            if kind == "resume":
                assert (outcome.status, outcome.gone) == ("cancelled", (("", ask.interrupt_id),))
            else:  # a replay knows no answers: it asks afresh
                (again,) = outcome.asks
                assert again.interrupt_id != ask.interrupt_id


def test_a_rewind_goes_before_waiting_messages(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    step(thread_id)
    runs.enqueue(thread_id, kind="input", payload={"text": "hello"}, author="olga")
    history.rewind(thread_id, ids(thread_id)[-1], author="olga")
    assert Run.objects.get(pk=step(thread_id).run_id).kind == "replay"


def test_a_rewind_shows_as_a_branch(shop: Any) -> None:
    thread_id = start("support", "Where is order 10311?")
    step(thread_id)
    trunk = ids(thread_id)
    history.rewind(thread_id, trunk[2], author="olga")
    step(thread_id)
    newest, oldest = history.tree(thread_id).branches
    assert (oldest.number, oldest.first, oldest.last, oldest.is_head) == (0, trunk[-1], trunk[0], False)
    assert (newest.number, newest.parent_id, newest.parent, newest.is_head) == (1, trunk[2], 0, True)
    assert newest.last == ids(thread_id)[0]
    rows = history.timeline(thread_id).steps
    assert [row.branch for row in rows] == [1] * (len(rows) - len(trunk)) + [0] * len(trunk)
    (turned,) = [row for row in rows if row.left]
    assert (turned.source, turned.parent_id, turned.left) == ("fork", trunk[2], trunk[0])
