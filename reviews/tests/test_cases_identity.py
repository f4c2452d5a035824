"""HC-19 and HC-21: each answer reaches its own question, whatever it looks like, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from agents.models import Run
from agents.tests import graphs
from reviews.models import Interrupt
from reviews.tests.cases.builders import FIELD_CASES
from reviews.tests.cast import ask, file_outcome
from reviews.tests.door import Desk, entries, own, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


def answered(desk: Desk, row: Interrupt, text: str) -> None:
    """Give this answer, and check that it was one answer to this one question."""
    pending = {other.interrupt_id for other in waiting(row.thread)}
    before = {other.pk: other.interrupt_id for other in waiting(row.thread) if other != row}
    said = own(row, "result")
    page = desk.ann.open(row)
    form = next(form for form in page.page.forms if said in form.fields)
    assert desk.ann.post(form.action, form.fields | {said: text, "decision": "respond"}).status == 303
    desk.work()
    assert desk.resumes[-1] == {row.interrupt_id: text}
    assert desk.resumes[-1].keys() <= pending
    assert before.items() <= {other.pk: other.interrupt_id for other in waiting(row.thread)}.items(), "another changed"


# --------------------------------------------------------------------------------------- HC-19: several pauses at once


def test_side_by_side_questions_get_their_own_answers_in_any_order(desk: Desk) -> None:
    desk.give(graphs.parallel)
    thread = desk.say()
    rows = {"left": "L", "right": "R", "inner": "I"}
    questions = {str(row.value["q"] if isinstance(row.value, dict) else row.value): row for row in waiting(thread)}
    assert questions.keys() == rows.keys()
    assert "1 open question" in desk.ann.open(reverse("reviews:inbox")), "one pause is one row"
    page = desk.ann.open(questions["inner"])
    assert "3 questions of one pause" in page
    for row in questions.values():
        assert f"interrupt-{row.pk}" in page.page.ids
        assert row.node in desk.ann.open(row)

    for name in ("right", "inner", "left"):
        answered(desk, questions[name], rows[name])
    assert len(desk.resumes) == 3
    log = desk.state(thread).values["log"]
    assert {name: log[name] for name in rows} == rows


@pytest.mark.parametrize("build", [graphs.three_tools, graphs.three_tasks], ids=["one task", "three tasks"])
def test_tools_that_ask_from_inside_get_their_own_answers(desk: Desk, build: Any) -> None:
    desk.give(lambda: build(graphs.into(desk.ran)))
    thread = desk.say()
    for name in ("one", "two", "three"):
        (row,) = (one for one in waiting(thread) if one.value == {"from": name})
        answered(desk, row, f"for {name}")
    assert waiting(thread) == []
    assert sorted(desk.ran) == sorted((name, {"answer": f"for {name}"}) for name in ("one", "two", "three"))


def test_two_pauses_with_one_id_are_not_answered_one_by_one(desk: Desk) -> None:
    """No LangGraph of today makes them; an older one did, and then one answer was lost."""
    desk.give(graphs.parallel)
    rows = file_outcome(desk.cast.thread, ask("left", namespace="left:1"), ask("right", namespace="right:1"))
    for row in rows:
        page = desk.ann.open(row)
        form = next(form for form in page.page.forms if own(row, "result") in form.fields)
        answer = desk.ann.post(form.action, form.fields | {own(row, "result"): "L", "decision": "respond"})
        assert answer.status == 422
        assert "has the same id" in answer
        desk.assert_untouched(row)


# ------------------------------------------------------------------------------------------- HC-21: look-alike answers

LOOK_ALIKES = FIELD_CASES["HC-21"]["input"]["answers"]
AS_JSON = ["{}", '""', "false", "0", "null", "[]", '{"00000000000000000000000000000000": "v"}', '{"1": "x"}']


def test_an_answer_arrives_as_it_is_whatever_it_looks_like(desk: Desk) -> None:
    desk.give(lambda: graphs.asks("q"))
    for answer, text in zip(LOOK_ALIKES, AS_JSON, strict=True):
        (row,) = waiting(desk.say())
        assert desk.ann.press(desk.ann.open(row), "respond", result=text, mode="json").status == 303
        desk.work()
        received = desk.answer_to(row)
        assert (text, type(received), received) == (text, type(answer), answer)
        assert desk.resumes[-1] == {row.interrupt_id: answer}
        row.refresh_from_db()
        assert row.status == "applied"
    assert len(desk.resumes) == len(LOOK_ALIKES)


def test_an_unknown_or_answered_question_takes_no_answer(desk: Desk) -> None:
    row = desk.asks("q")
    page = desk.ann.open(row)
    form = page.form("respond")
    for nowhere in (row.pk + 1000, "f" * 32):
        address = f"/interrupts/{nowhere}/"
        assert desk.ann.post(address, form.fields | {"decision": "respond"}).status == 404
    assert desk.resumes == []

    desk.ann.press(page, "respond", result="first")
    desk.work()
    late = desk.ben.post(page.address, form.fields | {own(row, "result"): "second", "decision": "respond"})
    assert late.status == 409
    assert "ann answered this" in late or "ann responded" in late
    desk.work()
    assert desk.resumes == [{row.interrupt_id: "first"}]


def asks_the_same_again() -> graphs.Graph:
    """A node that takes the answer, and interrupts once more with the very same interrupt."""
    first: list[Any] = []

    def stubborn(state: graphs.Log) -> dict[str, Any]:
        try:
            interrupt("q")
        except GraphInterrupt as stop:
            first.append(stop.args[0])
            raise
        raise GraphInterrupt(first[0])

    return graphs.chain(("ask", stubborn))


def test_an_answer_that_was_not_taken_leaves_the_question_open_and_says_so(desk: Desk) -> None:
    row = desk.ask(asks_the_same_again)
    desk.ann.press(desk.ann.open(row), "respond", result="yes")
    desk.work()

    (again,) = waiting(row.thread)
    assert (again.interrupt_id, again.version, again.supersedes) == (row.interrupt_id, 2, row)
    assert "The answer was not taken" in desk.ann.open(again)
    row.refresh_from_db()
    assert row.status == "withdrawn"
    assert Run.objects.filter(kind="resume").count() == 1
    assert entries("interrupt withdrawn", row)
