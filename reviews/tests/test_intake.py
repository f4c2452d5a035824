"""What becomes of an outcome: questions are filed once, answered ones are never asked again, none is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.models import LedgerIncident, Run
from agents.outcome import Call, CallKey, Sibling, canonical_bytes
from reviews import audit, dialects
from reviews.intake import record_outcome
from reviews.models import Action, AuditEntry, Interrupt
from reviews.tests.cast import (
    APPROVE,
    PAY_SCHEMA,
    REJECT,
    Cast,
    ask,
    ask_calls,
    decide,
    effect,
    file_outcome,
    hitl,
    outcome_of,
)

PAYLOADS = json.loads((Path(__file__).parent / "cases" / "payloads.json").read_text())
PAY = ("pay", {"amount": 5})


def statuses(cast: Cast) -> list[tuple[int, str]]:
    rows = Interrupt.objects.filter(thread=cast.thread).order_by("pk")
    return [(row.version, row.status) for row in rows]


def kinds() -> list[str]:
    return [entry.kind for entry in AuditEntry.objects.order_by("seq")]


# --------------------------------------------------------------------------------------------------------------- filing


def test_a_question_is_filed_with_its_calls(cast: Cast) -> None:
    call = Call("pay", {"to": "x", "amount": 5}, CallKey("ai-1", "call_0"), PAY_SCHEMA)
    sibling = Sibling("read", {"id": 1}, "waits", CallKey("ai-1", "call_1"))
    value = hitl(("pay", {"amount": 5, "to": "x"}))

    (row,) = file_outcome(cast.thread, ask(value, calls=[call], siblings=[sibling]))

    assert (row.thread, row.agent, row.status, row.dialect, row.version) == (
        cast.thread,
        cast.agent,
        "open",
        "hitl",
        1,
    )
    row = Interrupt.objects.get()
    assert (row.value, row.siblings) == (value, [{"name": "read", "args": {"id": 1}, "state": "waits", "result": ""}])
    assert (row.tools, row.title, row.summary) == (" pay ", "Pay x", "amount: 5, to: x")
    action = Action.objects.get()
    assert (action.name, action.args, action.description) == ("pay", {"amount": 5, "to": "x"}, "Call pay")
    assert action.args_order == ["to", "amount"]  # the agent's order; canonical bytes are sorted
    assert (action.message_id, action.tool_call_id, action.schema) == ("ai-1", "call_0", PAY_SCHEMA)
    assert action.digest == dialects.call_digest("pay", {"to": "x", "amount": 5})
    assert row.digest == dialects.interrupt_digest("hitl", [action.digest])
    assert row.run.status == "interrupted"  # type: ignore[union-attr]
    assert kinds() == ["interrupt filed"]
    assert audit.verify() == []


def test_the_schema_of_the_answer_comes_before_the_tools_own(cast: Cast) -> None:
    edit = {
        "type": "object",
        "properties": {
            "type": {"const": "edit"},
            "edited_action": {"type": "object", "properties": {"args": {"type": "object", "title": "answer"}}},
        },
    }
    value = {"type": "tool_approval", "tool_call_id": "c1", "name": "pay", "args": {"amount": 5}}
    call = Call("pay", {"amount": 5}, CallKey("ai-1", "c1"), PAY_SCHEMA)

    (row,) = file_outcome(cast.thread, ask(value, calls=[call], response_schema={"oneOf": [edit]}))

    assert row.actions.get().schema == {"type": "object", "title": "answer"}


def test_an_outcome_is_filed_once(cast: Cast) -> None:
    outcome = outcome_of(cast.thread, ask_calls(PAY))

    first, second = record_outcome(outcome), record_outcome(outcome)

    assert (len(first), second) == (1, [])
    assert statuses(cast) == [(1, "open")]
    assert kinds() == ["interrupt filed"]


def test_a_late_workers_outcome_is_not_filed(cast: Cast) -> None:
    outcome = outcome_of(cast.thread, ask_calls(PAY))

    assert record_outcome(replace(outcome, token=outcome.token - 1)) == []
    assert not Interrupt.objects.exists()


def test_a_question_that_still_waits_is_left_alone(cast: Cast, payment: Interrupt) -> None:
    assert file_outcome(cast.thread, ask_calls(PAY)) == []
    assert statuses(cast) == [(1, "open")]


def test_several_questions_of_one_checkpoint_are_rows_of_their_own(cast: Cast) -> None:
    asks = [ask_calls(PAY, interrupt_id=digit * 32) for digit in "abc"]

    assert len(file_outcome(cast.thread, *asks)) == 3


@pytest.mark.parametrize("case", [case for case in PAYLOADS if case["value_py"] is None], ids=lambda case: case["name"])
def test_whatever_an_agent_sends_is_filed(cast: Cast, case: dict[str, Any]) -> None:
    (row,) = file_outcome(cast.thread, ask(case["value"], response_schema=case["response_schema"]))

    stored = Interrupt.objects.get(pk=row.pk)
    assert canonical_bytes(stored.value) == canonical_bytes(case["value"])
    assert bool(stored.held_code) is not case["expect"]["ok"]
    if stored.held_code:
        assert stored.actions.get().allowed == []
        assert stored.held_reason
    else:
        assert stored.dialect == case["expect"]["dialect"]
        assert [action.allowed for action in stored.actions.all()] == [
            action["allowed"] for action in case["expect"]["actions"]
        ]
    assert audit.verify() == []


def test_text_that_no_column_holds_is_kept_all_the_same(cast: Cast) -> None:
    args = {"a\0b": "\0", "c\ud800": "\ud800", "deep": [{"\0": float("nan")}]}
    question = replace(ask_calls(("pay", args)), types={"/a\0b": "Thing", "/ok": "Point"}, node="tools\0")

    (row,) = file_outcome(cast.thread, question)

    action = Action.objects.get()
    assert canonical_bytes(action.args) == canonical_bytes(args)
    assert action.args_order == []
    assert (row.types, row.node) == ({"/ok": "Point"}, "tools\ufffd")


def test_a_call_name_that_is_no_name_is_held(cast: Cast) -> None:
    (row,) = file_outcome(cast.thread, ask(hitl(("pay\0", {}))))

    assert (row.held_code, row.actions.get().allowed) == ("bad_action", [])
    assert row.title == "A question that the desk cannot read"


def test_a_value_that_cannot_be_read_back_is_held(cast: Cast) -> None:
    broken = replace(ask(None), value=b'{"__cs__":["decimal","ten"]}')

    (row,) = file_outcome(cast.thread, broken)

    assert (row.held_code, row.value) == ("unreadable", '{"__cs__":["decimal","ten"]}')


# ---------------------------------------------------------------------------------------------------------- withdrawing


def test_an_open_question_that_is_gone_is_withdrawn(cast: Cast, payment: Interrupt) -> None:
    file_outcome(cast.thread)

    payment.refresh_from_db()
    assert payment.status == "withdrawn"
    assert payment.withdrawn_reason
    assert kinds() == ["interrupt filed", "interrupt withdrawn"]


def test_an_unreadable_head_withdraws_nothing(cast: Cast, payment: Interrupt) -> None:
    file_outcome(cast.thread, status="error", known=False)

    assert statuses(cast) == [(1, "open")]


def test_other_arguments_make_a_new_version(cast: Cast, payment: Interrupt) -> None:
    (newer,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 9})))

    payment.refresh_from_db()
    assert statuses(cast) == [(1, "withdrawn"), (2, "open")]
    assert (newer.supersedes, newer.note) == (payment, payment.withdrawn_reason)
    assert "other arguments" in payment.withdrawn_reason


def test_a_decision_on_other_arguments_is_not_used(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    (newer,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 9})), status="cancelled")

    assert statuses(cast) == [(1, "withdrawn"), (2, "open")]
    assert "decided" in newer.note
    assert audit.verify() == []


def test_a_decision_without_effect_is_withdrawn_and_people_are_told(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    file_outcome(cast.thread, status="cancelled", gone=[("", payment.interrupt_id)])

    payment.refresh_from_db()
    assert payment.status == "withdrawn"
    assert "no effect" in payment.withdrawn_reason


# ------------------------------------------------------------------------------------------------------- after deciding


def test_a_decision_becomes_applied_when_its_effect_is_seen(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    file_outcome(cast.thread, effects=[effect(payment, "executed", name="pay", args={"amount": 5}, result="paid")])

    payment.refresh_from_db()
    action = payment.actions.get()
    assert (payment.status, action.effect, action.result, action.differs) == ("applied", "executed", "paid", False)
    assert action.executed == {"name": "pay", "args": {"amount": 5}}
    call = json.loads(AuditEntry.objects.get(kind=audit.Kind.APPLIED).body)["calls"][0]
    assert call["shown"] == call["decided"] == call["executed"] == action.digest


def test_what_ran_otherwise_than_decided_is_an_incident(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    file_outcome(cast.thread, effects=[effect(payment, "executed", name="pay", args={"amount": 9}, differs=True)])

    assert payment.actions.get().differs
    entry = AuditEntry.objects.get(kind=audit.Kind.INCIDENT)
    assert json.loads(entry.body)["facts"]["code"] == "executed differs"


def test_another_run_may_show_the_effect(cast: Cast) -> None:
    """One of two questions is answered; the tool runs only with the second answer."""
    first, second = ask_calls(PAY, interrupt_id="a" * 32), ask_calls(PAY, interrupt_id="b" * 32, message="ai-2")
    one, two = file_outcome(cast.thread, first, second)
    decide(cast.ann, one, APPROVE)
    file_outcome(cast.thread, second)
    one.refresh_from_db()
    assert one.status == "decided"  # gone from the head, but no effect yet: only open ones are withdrawn

    decide(cast.ann, two, REJECT, token="submit-2")
    file_outcome(cast.thread, effects=[effect(one, "executed", args={"amount": 5}), effect(two, "rejected")])

    assert statuses(cast) == [(1, "applied"), (1, "applied")]


def test_an_answer_on_its_way_is_not_asked_again(cast: Cast) -> None:
    """Both are decided; the first resume ends while the second still waits for its turn."""
    first, second = ask_calls(PAY, interrupt_id="a" * 32), ask_calls(PAY, interrupt_id="b" * 32, message="ai-2")
    one, two = file_outcome(cast.thread, first, second)
    decide(cast.ann, one, APPROVE)
    decide(cast.ben, two, APPROVE)

    filed = file_outcome(cast.thread, second, effects=[effect(one, "executed", args={"amount": 5})])

    assert filed == []
    assert statuses(cast) == [(1, "applied"), (1, "decided")]


def test_an_answer_that_was_not_taken_is_asked_again_and_says_so(cast: Cast, payment: Interrupt) -> None:
    """HC-21: the same pause is still pending after its own resume."""
    decide(cast.ann, payment, APPROVE)

    (again,) = file_outcome(cast.thread, ask_calls(PAY), effects=[effect(payment, "missing")])

    assert statuses(cast) == [(1, "withdrawn"), (2, "open")]
    assert again.note == "The answer was not taken."
    decide(cast.ben, again, APPROVE)
    assert audit.verify() == []


def test_an_answer_that_was_used_stays_used_when_its_id_comes_again(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    filed = file_outcome(cast.thread, ask_calls(PAY), effects=[effect(payment, "executed", args={"amount": 5})])

    assert filed == []
    assert statuses(cast) == [(1, "applied")]


def test_a_stuck_thread_asks_nobody_again(cast: Cast, payment: Interrupt) -> None:
    """A bad saved answer: whatever people said now would be ignored."""
    decide(cast.ann, payment, APPROVE)

    filed = file_outcome(cast.thread, ask_calls(PAY), status="error", stuck=True)

    assert filed == []
    assert statuses(cast) == [(1, "decided")]


def test_a_question_that_comes_back_is_open_again(cast: Cast, payment: Interrupt) -> None:
    file_outcome(cast.thread)

    (again,) = file_outcome(cast.thread, ask_calls(PAY))

    assert (again.version, again.supersedes, statuses(cast)) == (2, payment, [(1, "withdrawn"), (2, "open")])


def test_a_nested_question_is_known_by_its_id(cast: Cast, payment: Interrupt) -> None:
    assert file_outcome(cast.thread, ask_calls(PAY, namespace="agent:1234")) == []


def test_an_effect_that_is_known_is_never_lost(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)
    file_outcome(cast.thread, effects=[effect(payment, "executed", args={"amount": 5})])

    file_outcome(cast.thread, effects=[effect(payment, "missing")])

    assert payment.actions.get().effect == "executed"


# ------------------------------------------------------------------------------------------------------------ incidents


def test_what_the_ledger_refused_is_in_the_log_once(cast: Cast) -> None:
    LedgerIncident.objects.create(
        thread=cast.thread,
        message_id="ai-1",
        tool_call_id="call_0",
        kind="digest differs",
        detail={"name": "pay\ud800", "args": {"amount": 9}},
    )

    file_outcome(cast.thread)
    file_outcome(cast.thread)

    entry = AuditEntry.objects.get(kind=audit.Kind.INCIDENT)
    assert (entry.thread, entry.agent) == (cast.thread, cast.agent)
    assert entry.secrets.get().value["args"] == {"amount": 9}
    assert not LedgerIncident.objects.filter(reported=False).exists()
    assert audit.verify() == []


def test_run_and_thread_say_how_it_ended(cast: Cast) -> None:
    file_outcome(cast.thread, status="error", error="The tool broke.")

    cast.thread.refresh_from_db()
    assert (cast.thread.status, cast.thread.error) == ("error", "The tool broke.")
    assert Run.objects.get().status == "error"
