"""HC-15, HC-16 and HC-18: what the agent's rules and the tool's schema allow is all that can be decided."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel, ConfigDict, field_validator

from agents.tests.graphs import Record, into, turns
from reviews import audit
from reviews.models import Decision, Interrupt
from reviews.tests.cases.builders import FIELD_CASES, hitl
from reviews.tests.door import Answer, Desk, Visitor, entries, own

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


# -------------------------------------------------------------------------------- HC-15: an edit into a different tool


def test_a_decision_cannot_name_another_tool(desk: Desk) -> None:
    row = desk.ask(text=turns([("pay", {"amount": 1})]))
    page = desk.ann.open(row)
    assert "wipe" not in page.html
    for name, verb in (("wipe", "edit"), ("wipe", "approve"), ("nope", "edit"), ("Pay", "edit"), ("pay ", "edit")):
        forged = {own(row, "name"): name, own(row, "raw"): "1", own(row, "json"): '{"path": "/"}'}
        answer = desk.ann.forge(page, "approve", decision=verb, **forged)
        assert answer.status == 422
        assert f"The tool stays &#x27;pay&#x27;; a decision cannot make it &#x27;{name}&#x27;" in answer.html
    desk.assert_untouched(row)

    assert row.actions.get().args == {"amount": 1}
    tries = entries("decision refused", row)
    assert [(entry.actor, json.loads(entry.body)["facts"]["code"]) for entry in tries] == [("ann", "renamed")] * 5
    assert audit.verify() == []


# ------------------------------------------------------------------------------------------ HC-16: what an edit may be

ASKED = FIELD_CASES["HC-16"]["input"]["request"]["args"]
LOTS, TEXTS, MISSING, FITTING = FIELD_CASES["HC-16"]["input"]["edits"]


def paying(record: Record, *, extra: str = "ignore") -> BaseTool:
    """The tool ``transfer`` of HC-16, which records all of its arguments. ``extra``: what it says to unknown ones."""

    class Transfer(BaseModel):
        model_config = ConfigDict(extra=extra)  # type: ignore[typeddict-item]
        amount: int
        urgent: bool = False
        tags: list[str] = []
        memo: str | None = None

        @field_validator("amount")
        @classmethod
        def not_thirteen(cls, amount: int) -> int:
            if amount == 13:
                raise ValueError("nobody pays thirteen")
            return amount

    @tool("transfer", args_schema=Transfer)
    def transfer(**args: Any) -> str:
        """Transfer an amount."""
        record("transfer", args, None)
        return "transferred"

    return transfer


def asked_to_transfer(desk: Desk, **options: Any) -> Interrupt:
    transfer = paying(into(desk.ran), **options)
    return desk.ask(text=turns([("transfer", ASKED)]), extra=[transfer], policy={"transfer": True})


def typed_json(person: Visitor, row: Interrupt, edit: dict[str, Any]) -> Answer:
    """Type the edit into the JSON box, and send it as an edit, whichever button the page offers now."""
    return person.forge(person.open(row, raw=1), "reject", decision="edit", **{own(row, "json"): json.dumps(edit)})


def test_wrong_types_and_missing_arguments_are_refused_at_their_fields(desk: Desk) -> None:
    row = asked_to_transfer(desk)
    page = desk.ann.open(row)
    amount, tags = own(row, "amount", argument=True), own(row, "tags", argument=True)

    lots = desk.ann.press(page, "approve", amount="lots")
    assert (lots.status, f"{amount}-error" in lots.page.ids) == (422, True)
    assert "lots is not a whole number" in lots
    text_for_list = desk.ann.press(page, "approve", tags="a")
    assert (text_for_list.status, f"{tags}-error" in text_for_list.page.ids) == (422, True)
    forged = desk.ann.forge(page, "approve", decision="edit", **{own(row, "urgent", argument=True): "perhaps"})
    assert forged.status == 422
    assert "perhaps is not one of the choices" in forged
    missing = desk.ann.forge(page, "approve", decision="edit", **{amount: None})
    assert missing.status == 422
    assert "amount is required" in missing
    desk.assert_untouched(row)


def test_the_json_box_refuses_the_same(desk: Desk) -> None:
    row = asked_to_transfer(desk)
    wrong = (
        (LOTS, ["amount", '"lots" is text, not a whole number']),
        (TEXTS, ["amount", "urgent", "tags", '"5" is text, not a whole number']),
        (MISSING, ["amount is required"]),
    )
    for edit, words in wrong:
        answer = typed_json(desk.ann, row, edit)
        assert answer.status == 422
        for word in words:
            assert word in answer
        assert json.loads(answer.typed("json")) == edit
    desk.assert_untouched(row)


def test_an_unknown_argument_is_refused_where_the_schema_forbids_it(desk: Desk) -> None:
    row = asked_to_transfer(desk, extra="forbid")
    answer = typed_json(desk.ann, row, FITTING)
    assert answer.status == 422
    assert "extra is not an argument of this tool" in answer
    desk.assert_untouched(row)


@pytest.mark.parametrize("by", ["fields", "json"])
def test_a_fitting_edit_reaches_the_tool_with_its_types(desk: Desk, by: str) -> None:
    row = asked_to_transfer(desk)
    wanted = {"amount": 6, "urgent": False, "tags": [], "memo": None}
    if by == "fields":
        page = desk.ann.press(desk.ann.open(row), "approve", amount="6", urgent="false", tags="[]")
    else:
        page = desk.ann.press(desk.ann.open(row, raw=1), "approve", json=json.dumps(wanted))
    assert page.status == 422
    assert desk.ann.press(page, "edit").status == 303
    desk.work()
    ((name, args),) = desk.ran
    assert (name, json.dumps(args)) == ("transfer", json.dumps(wanted))


def test_an_unknown_argument_that_the_schema_lets_pass_is_said_before_it_runs(desk: Desk) -> None:
    row = asked_to_transfer(desk)
    page = desk.ann.press(desk.ann.open(row, raw=1), "approve", json=json.dumps(FITTING))
    assert page.status == 422
    assert "extra" in page
    assert desk.ann.press(page, "edit").status == 303
    desk.work()
    assert Decision.objects.get().args == FITTING
    assert "extra" in desk.ann.open(row)


def test_a_changed_type_that_no_schema_allows_is_confirmed_first(desk: Desk) -> None:
    row = desk.asks(hitl(ASKED, "approve", "edit"))
    page = desk.ann.press(desk.ann.open(row, raw=1), "approve", json=json.dumps(ASKED | {"amount": "5"}))
    first = desk.ann.press(page, "edit")
    assert first.status == 422
    assert "amount changes from whole number to text. That is meant" in first
    desk.assert_untouched(row)

    assert desk.ann.press(first, "edit", sure="1").status == 303
    desk.work()
    assert desk.answer_to(row)["decisions"][0]["edited_action"]["args"] == ASKED | {"amount": "5"}


def test_what_the_tool_says_to_an_edit_stands_on_the_question(desk: Desk) -> None:
    """The schema cannot say that thirteen is wrong; the tool can, after the resume."""
    row = asked_to_transfer(desk)
    page = desk.ann.press(desk.ann.open(row), "approve", amount="13")
    assert desk.ann.press(page, "edit").status == 303
    desk.work()
    assert desk.ran == []
    answer = desk.ann.open(row)
    assert "nobody pays thirteen" in answer
    assert "Executed did not run: the tool refused the arguments, and the agent was told" in answer
    assert "ran and failed" not in answer
    assert row.actions.get().effect == "unfit"
    (entry,) = entries("interrupt applied", row)
    assert [call["effect"] for call in json.loads(entry.body)["calls"]] == ["unfit"]
    thread = desk.ann.open(reverse("reviews:thread", args=[row.thread_id]))
    assert "did not run: the tool refused the arguments" in thread


# ---------------------------------------------------------------------------------------- HC-18: tools that ask people

ANSWER, *BLANKS = FIELD_CASES["HC-18"]["input"]["answers"]


def test_a_tool_that_asks_is_answered_and_never_run(desk: Desk) -> None:
    row = desk.ask(text=turns([("ask_user", {"question": "Which date?"})]))
    page = desk.ann.open(row)
    assert page.offers == {"respond"}

    for forged in ("approve", "edit", "reject"):
        assert desk.ann.forge(page, "respond", decision=forged).status == 422
    for blank in BLANKS:
        answer = desk.ann.press(page, "respond", result=blank)
        assert answer.status == 422
        assert f"{own(row, 'result')}-error" in answer.page.ids
    desk.assert_untouched(row)
    tries = [json.loads(entry.body)["facts"]["code"] for entry in entries("decision refused", row)]
    assert tries.count("not_allowed") == len(tries) >= 2

    assert desk.ann.press(page, "respond", result=ANSWER).status == 303
    desk.work()
    (message,) = (one for one in desk.seen[1] if isinstance(one, ToolMessage))
    assert (message.content, message.status) == (ANSWER, "success")
    assert desk.ran == []
    assert ANSWER in desk.ann.open(row)
    assert "nothing ran" in desk.ann.open(reverse("reviews:thread", args=[row.thread_id])).page.text.lower()


def test_a_refused_call_that_nobody_was_asked_about_is_told_on_its_thread(desk: Desk) -> None:
    row = desk.ask(text=turns([("read", {"id": "none"})], [("pay", {"amount": 1})]))
    thread = desk.ann.open(reverse("reviews:thread", args=[row.thread_id]))
    assert "nobody was asked" in thread
    assert "did not run: the tool refused the arguments" in thread


def cancel(on: Answer, visitor: Visitor) -> Answer:
    form = next(form for form in on.page.forms if form.action.endswith("/unanswered/"))
    return visitor.post(form.action, form.fields)


def test_a_question_is_cancelled_without_an_answer(desk: Desk) -> None:
    """HC-18, second run: cancelling is another act than answering, and never an empty answer."""
    row = desk.ask(text=turns([("ask_user", {"question": "Which date?"})]))
    sure = cancel(desk.ann.open(row), desk.ann)
    assert "ask_user does not run" in sure
    desk.assert_untouched(row)

    assert cancel(sure, desk.ann).status == 302
    cancel(sure, desk.ann)  # the same submit again
    desk.work()
    row.refresh_from_db()
    assert (row.status, row.withdrawn_reason) == ("withdrawn", "Ended by ann without an answer.")
    messages = desk.state(row.thread).values["messages"]
    (told,) = (one for one in messages if isinstance(one, ToolMessage))
    assert (told.status, told.content) == ("error", "This call was not run: ann ended it without an answer.")
    assert (desk.ran, desk.resumes, len(desk.seen)) == ([], [], 1)
    assert not Decision.objects.exists()
    (entry,) = entries("run stopped")
    assert (entry.actor, json.loads(entry.body)["facts"]["code"]) == ("ann", "unanswered")
    assert audit.verify() == []

    desk.olga.post(reverse("reviews:thread", args=[row.thread_id]), {"text": "go on", "submit_token": "t"})
    desk.work()
    assert len(desk.seen) == 2


def test_only_a_question_that_takes_nothing_but_an_answer_can_be_cancelled(desk: Desk) -> None:
    row = desk.ask(text=turns([("pay", {"amount": 1})]))
    assert "without an answer" not in desk.ann.open(row)


def test_who_may_neither_decide_nor_operate_cannot_cancel(desk: Desk) -> None:
    row = desk.ask(text=turns([("ask_user", {"question": "Which date?"})]))
    address = reverse("reviews:unanswered", args=[row.thread_id])
    assert "without an answer" not in desk.aude.open(row)
    assert desk.aude.post(address, {"sure": "1"}).status == 403
    assert Visitor(desk.cast.otto).post(address, {"sure": "1"}).status == 404
    desk.assert_untouched(row)


def test_a_decision_on_its_way_is_not_cancelled(desk: Desk) -> None:
    row = desk.ask(text=turns([("ask_user", {"question": "Which date?"})]))
    sure = cancel(desk.ann.open(row), desk.ann)
    assert desk.ben.press(desk.ben.open(row), "respond", result="Monday").status == 303
    late = cancel(sure, desk.ann)
    assert (late.status, "A decision is on its way" in late) == (422, True)
