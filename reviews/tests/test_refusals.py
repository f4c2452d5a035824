"""What is refused before anything is stored, with its reason: who may not decide, and what nobody may."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import Run, ToolPermit
from agents.outcome import canonical_bytes
from reviews import audit, decisions
from reviews.decisions import Invalid, NotAllowed, NotVisible
from reviews.dialects import Verdict
from reviews.models import AuditEntry, Decision, Grant, Interrupt
from reviews.tests.cast import (
    APPROVE,
    PAY_SCHEMA,
    REJECT,
    Cast,
    ask,
    ask_calls,
    assert_untouched,
    codes,
    decide,
    file_outcome,
)

EDIT = Verdict("edit", args={"amount": 4})


# ------------------------------------------------------------------------------------------------------ refused: rights


def test_an_outsider_cannot_tell_whether_it_exists(cast: Cast, payment: Interrupt) -> None:
    with pytest.raises(NotVisible):
        decide(cast.otto, payment, APPROVE)
    with pytest.raises(NotVisible):
        decisions.record_decisions(cast.otto, 10**6, version=1, digest="f" * 64, submit_token="t", verdicts=[APPROVE])
    assert_untouched(payment)


@pytest.mark.parametrize("name", ["olga", "aude"])
def test_who_may_see_and_not_decide_is_told_so_and_logged(cast: Cast, payment: Interrupt, name: str) -> None:
    with pytest.raises(NotAllowed):
        decide(getattr(cast, name), payment, APPROVE)

    entry = AuditEntry.objects.get(kind=audit.Kind.REFUSED)
    assert (entry.actor, entry.interrupt) == (name, payment)
    assert_untouched(payment)


def test_a_right_that_was_taken_away_bites_at_once(cast: Cast, payment: Interrupt) -> None:
    Grant.objects.filter(role="reviewer", agent=cast.agent).delete()

    with pytest.raises(NotVisible):
        decide(cast.ann, payment, APPROVE)


def test_root_decides_as_administrator(cast: Cast, payment: Interrupt) -> None:
    decide(cast.root, payment, APPROVE)

    assert Decision.objects.get().role == "administrator"


# ---------------------------------------------------------------------------------------------------- refused: verdicts


@pytest.mark.parametrize("name", ["wipe", "nope", "Pay", "pay "])
def test_an_edit_cannot_become_another_tool(cast: Cast, name: str) -> None:
    """HC-15: refused, and the attempt is in the log with its actor."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 1}), allowed=("approve", "edit", "reject")))

    with pytest.raises(Invalid) as refused:
        decide(cast.ann, row, Verdict("edit", args={"path": "/"}, name=name))

    assert (0, "name", "renamed") in codes(refused.value)
    entry = AuditEntry.objects.get(kind=audit.Kind.REFUSED)
    assert (entry.actor, entry.verdict, entry.secrets.get().value) == ("ann", "edit", name)
    assert_untouched(row)
    assert audit.verify() == []


def test_a_verdict_that_policy_forbids_is_refused_and_logged(cast: Cast) -> None:
    """HC-18: a tool that only asks takes an answer and nothing else."""
    (row,) = file_outcome(cast.thread, ask_calls(("ask_user", {"question": "Which date?"}), allowed=("respond",)))

    for verdict in (APPROVE, REJECT, Verdict("edit", args={"question": "?"}), Verdict("ignore")):  # type: ignore[arg-type]
        with pytest.raises(Invalid) as refused:
            decide(cast.ann, row, verdict)
        assert codes(refused.value) == {(0, "type", "not_allowed")}
    assert AuditEntry.objects.filter(kind=audit.Kind.REFUSED, actor="ann").count() == 4
    for blank in ("", "   \n", None):
        with pytest.raises(Invalid) as refused:
            decide(cast.ann, row, Verdict("respond", message=blank))
        assert codes(refused.value) == {(0, "message", "blank")}
    assert_untouched(row)

    decide(cast.ann, row, Verdict("respond", message="2026-03-01"))
    assert Run.objects.get(kind="resume").payload["answer"] == {
        "decisions": [{"type": "respond", "message": "2026-03-01"}]
    }


HC_16 = {"amount": 5, "urgent": True, "tags": ["a"], "memo": None}


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ({**HC_16, "amount": "lots"}, {"args/amount"}),
        ({"amount": "5", "urgent": "true", "tags": "a", "memo": "null"}, {"args/amount", "args/urgent", "args/tags"}),
        ({"urgent": True}, {"args/amount"}),
    ],
)
def test_an_edit_that_breaks_the_schema_is_refused_at_its_field(
    cast: Cast, args: dict[str, Any], fields: set[str]
) -> None:
    """HC-16."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", HC_16), schema=PAY_SCHEMA))

    with pytest.raises(Invalid) as refused:
        decide(cast.ann, row, Verdict("edit", args=args))

    assert {problem.field for problem in refused.value.problems} == fields
    assert_untouched(row)


def test_an_edit_keeps_its_types(cast: Cast) -> None:
    (row,) = file_outcome(cast.thread, ask_calls(("pay", HC_16), schema=PAY_SCHEMA))
    edited = {"amount": 6, "urgent": False, "tags": [], "memo": None, "extra": 1}

    decide(cast.ann, row, Verdict("edit", args=edited))

    assert canonical_bytes(ToolPermit.objects.get().args) == canonical_bytes(edited)


def test_a_value_that_json_cannot_hold_may_stay_as_it_was(cast: Cast) -> None:
    schema = {"type": "object", "properties": {"rate": {"type": "number"}, "amount": {"type": "integer"}}}
    args = {"rate": float("nan"), "amount": 5}
    (row,) = file_outcome(cast.thread, ask_calls(("pay", args), schema=schema))

    decide(cast.ann, row, Verdict("edit", args={**args, "amount": 6}))

    assert ToolPermit.objects.get().args["amount"] == 6


def test_a_broken_schema_forbids_nothing(cast: Cast) -> None:
    schema = {"type": "object", "properties": {"amount": {"$ref": "http://127.0.0.1:9/secret"}}}
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5}), schema=schema))

    decide(cast.ann, row, EDIT)

    assert Decision.objects.get().verdict == "edit"


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict("edit", args={"amount": 5}), "unchanged"),
        (Verdict("approve", args={"amount": 9}), "changed"),
        (Verdict("edit", args=None), "not_object"),
        (Verdict("edit", args={"amount": 2**70}), "out_of_range"),
    ],
)
def test_edit_and_approve_are_different_verbs(cast: Cast, payment: Interrupt, verdict: Verdict, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        decide(cast.ann, payment, verdict)

    assert {problem.code for problem in refused.value.problems} == {code}
    assert_untouched(payment)


def test_a_reason_is_needed_where_policy_asks(cast: Cast, payment: Interrupt, settings: Any) -> None:
    for tools in (["pay"], ["*"], ["mail", "pay"]):
        settings.REASON_NEEDED_FOR = tools
        for blank in (Verdict("reject"), Verdict("reject", message="  \n")):
            with pytest.raises(Invalid) as refused:
                decide(cast.ann, payment, blank)
            assert codes(refused.value) == {(0, "message", "reason_needed")}
    assert_untouched(payment)
    decide(cast.ann, payment, REJECT)


@pytest.mark.parametrize("tools", [[], ["mail"]])
def test_no_reason_is_needed_elsewhere(cast: Cast, payment: Interrupt, settings: Any, tools: list[str]) -> None:
    settings.REASON_NEEDED_FOR = tools
    decide(cast.ann, payment, Verdict("reject"))
    payment.refresh_from_db()
    assert payment.status == "decided"


def test_a_held_value_cannot_be_decided(cast: Cast) -> None:
    (row,) = file_outcome(cast.thread, ask({"action_requests": [], "review_configs": []}))

    for verdict in (APPROVE, Verdict("respond", value=1)):
        with pytest.raises(Invalid) as refused:
            decide(cast.ann, row, verdict)
        assert codes(refused.value) == {(None, "decisions", "held")}
    assert_untouched(row)


def test_an_answer_has_to_fit_the_schema_of_its_question(cast: Cast) -> None:
    (row,) = file_outcome(cast.thread, ask({"question": "How many?"}, response_schema={"type": "integer"}))

    with pytest.raises(Invalid) as refused:
        decide(cast.ann, row, Verdict("respond", value="three"))
    assert codes(refused.value) == {(0, "value", "schema")}
    decide(cast.ann, row, Verdict("respond", value=3))
    assert Run.objects.get(kind="resume").payload["answer"] == 3


def test_a_form_without_a_submit_token_is_refused(cast: Cast, payment: Interrupt) -> None:
    for token in ("", "x" * 65, "a\0b"):
        with pytest.raises(Invalid):
            decide(cast.ann, payment, APPROVE, token=token)
    assert_untouched(payment)
