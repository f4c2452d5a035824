"""What people decide: which verdicts are refused and where, and the exact value that goes back to the agent."""

from __future__ import annotations

from typing import Any

import pytest

from agents.outcome import canonical_bytes
from reviews.dialects import UNSET, Problem, Proposal, Verdict, answer, check
from reviews.tests.cases import payload_types
from reviews.tests.cases.builders import PAYLOADS, codes, hitl, proposal_of, read_payload

ANSWERED = [(name, verdict) for name, payload in PAYLOADS.items() for verdict in payload["answer"]]

EDITS: dict[str, Any] = {
    "hitl_single_all": {"amount": 6},
    "hitl_early_arguments_key": {"amount": 6},
    "js_camel_single": {"to": "qa@example.test"},
    "per_call_all": {"amount": 6},
    "per_call_real_schema": {"amount": 6, "to": {"street": "b"}},
    "inbox_single_object": {"to": "qa@example.test"},
    "inbox_dataclass_request": {"amount": 6},
    "call_again_in_a_fork": {"amount": 6},
}
RESPONSES = {
    "hitl_single_all": "done by hand",
    "per_call_respond_only": "42",
    "inbox_list_one": "use /srv",
    "raw_string": "eu-1",
    "execution_unknown": "paid, receipt 7",
    "call_again_in_a_fork": "done by hand",
}
VALUES = {"schema_object": {"region": "eu", "count": 2}, "schema_beside_hostile_words": "eu"}


# ------------------------------------------------------------------------------------------------------------- payloads


@pytest.mark.parametrize(("name", "verdict"), ANSWERED)
def test_payload_is_answered_in_its_own_dialect(name: str, verdict: str) -> None:
    proposal = read_payload(name)
    assert isinstance(proposal, Proposal)
    choice = {
        "approve": Verdict("approve"),
        "edit": Verdict("edit", args=EDITS.get(name)),
        "reject": Verdict("reject", message="no"),
        "respond": Verdict("respond", message=RESPONSES.get(name), value=VALUES.get(name, UNSET)),
    }[verdict]
    assert answer(proposal, [choice]) == PAYLOADS[name]["answer"][verdict]


# --------------------------------------------------------------------------------- HC-01, HC-21: questions of any value


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}, "Ship it?", ["alpha"], {"question": "Which?"}])
def test_any_value_is_a_question_for_free_answer(value: Any) -> None:
    proposal = proposal_of(value)
    assert proposal.dialect == "raw"
    assert canonical_bytes(proposal.value) == canonical_bytes(value)
    assert [action.allowed for action in proposal.actions] == [("respond",)]
    assert codes(proposal, Verdict("approve")) == [(0, "type", "not_allowed")]
    assert codes(proposal, Verdict("reject")) == [(0, "type", "not_allowed")]


@pytest.mark.parametrize("value", [{}, "", False, 0, 0.0, None, [], {"0" * 32: "v"}, {"1": "x"}, {"ok": True}])
def test_an_explicit_json_answer_arrives_unchanged(value: Any) -> None:
    sent = answer(proposal_of("q"), [Verdict("respond", value=value)])
    assert (type(sent), sent) == (type(value), value)


def test_text_mode_hands_over_text() -> None:
    assert answer(proposal_of("Ship build 42?"), [Verdict("respond", message="eu-1")]) == "eu-1"
    assert answer(proposal_of("q"), [Verdict("respond", message=' {"a": 1}\n')]) == ' {"a": 1}\n'


@pytest.mark.parametrize("message", [None, "", "  \n", "\u200b\u2060"])
def test_no_answer_is_not_an_answer(message: str | None) -> None:
    proposal = proposal_of("q")
    assert codes(proposal, Verdict("respond", message=message)) == [(0, "message", "blank")]
    with pytest.raises(ValueError, match="Write an answer"):
        answer(proposal, [Verdict("respond", message=message)])


def test_text_and_json_at_once_is_ambiguous() -> None:
    assert codes(proposal_of("q"), Verdict("respond", message="a", value="b")) == [(0, "value", "ambiguous")]


@pytest.mark.parametrize(
    ("value", "field", "code"),
    [
        (float("nan"), "value", "not_a_number"),
        ({"cap": float("inf")}, "value/cap", "not_a_number"),
        ([2**64], "value/0", "out_of_range"),
        (-(2**63) - 1, "value", "out_of_range"),
        ("\ud800", "value", "invalid_unicode"),
        ({"\udfff": 1}, "value", "invalid_unicode"),
        ({1: "x"}, "value", "not_json"),
        ({"a": b"x"}, "value/a", "not_json"),
        ({"a": {1}}, "value/a", "not_json"),
    ],
)
def test_an_answer_that_would_change_on_its_way_is_refused(value: Any, field: str, code: str) -> None:
    assert codes(proposal_of("q"), Verdict("respond", value=value)) == [(0, field, code)]


def test_a_bottomless_answer_is_refused() -> None:
    deep: Any = []
    deep.append(deep)
    assert [code for *_, code in codes(proposal_of("q"), Verdict("respond", value=deep))] == ["too_deep"]


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 0.1, 1.0])
def test_numbers_of_a_checkpoint_are_answers(value: float) -> None:
    assert codes(proposal_of("q"), Verdict("respond", value=value)) == []


# -------------------------------------------------------------------------------------------------------- HC-12: counts


def test_one_decision_for_each_asked_call_in_order() -> None:
    value = {
        "action_requests": [{"name": "pay", "args": {"amount": 5}}, {"name": "pay", "args": {"amount": 7}}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve", "edit", "reject"]}] * 2,
    }
    proposal = proposal_of(value)
    approve, edit = Verdict("approve"), Verdict("edit", args={"amount": 6})
    assert codes(proposal, approve) == codes(proposal, approve, approve, approve) == [(None, "decisions", "count")]
    assert "2 decisions needed" in check(proposal, [approve])[0].message
    assert check(proposal, [approve])[0].message.endswith("1 came.")
    edited = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 6}}}
    assert answer(proposal, [approve, edit]) == {"decisions": [{"type": "approve"}, edited]}
    assert answer(proposal, [edit, approve]) == {"decisions": [edited, {"type": "approve"}]}


def test_each_problem_names_its_action() -> None:
    value = {
        "action_requests": [{"name": "pay", "args": {}}, {"name": "wipe", "args": {}}],
        "review_configs": [
            {"action_name": "pay", "allowed_decisions": ["approve"]},
            {"action_name": "wipe", "allowed_decisions": ["reject", "respond"]},
        ],
    }
    found = check(proposal_of(value), [Verdict("reject"), Verdict("approve")])
    assert [(problem.position, problem.field) for problem in found] == [(0, "type"), (1, "type")]
    assert "wipe" in found[1].message
    assert "reject, respond" in found[1].message


def test_an_empty_reject_message_is_left_out() -> None:
    proposal = proposal_of(hitl({}, "reject"))
    assert answer(proposal, [Verdict("reject", message=" ")]) == {"decisions": [{"type": "reject"}]}
    text = 'Keep it.\nSecond line "quoted" مرحبا'
    assert answer(proposal, [Verdict("reject", message=text)]) == {"decisions": [{"type": "reject", "message": text}]}


# ------------------------------------------------------------------------------------------------- HC-15, HC-18: policy


@pytest.mark.parametrize("name", ["wipe", "nope", "Pay", "pay "])
def test_an_edit_cannot_rename_the_tool(name: str) -> None:
    proposal = proposal_of(hitl({"amount": 1}, "approve", "edit", "reject"))
    forged = Verdict("edit", args={"path": "/"}, name=name)
    assert codes(proposal, forged) == [(0, "name", "renamed")]
    with pytest.raises(ValueError, match="The tool stays 'pay'"):
        answer(proposal, [forged])


def test_a_respond_only_tool_takes_only_an_answer() -> None:
    proposal = proposal_of(hitl({"question": "Which date?"}, "respond", name="ask_user"))
    for forged in ("approve", "edit", "reject"):
        assert codes(proposal, Verdict(forged)) == [(0, "type", "not_allowed")]
    for blank in (None, "", "   \n"):
        assert codes(proposal, Verdict("respond", message=blank)) == [(0, "message", "blank")]
    assert codes(proposal, Verdict("respond", value="2026-03-01"))[0] == (0, "value", "unexpected")
    sent = answer(proposal, [Verdict("respond", message="2026-03-01")])
    assert sent == {"decisions": [{"type": "respond", "message": "2026-03-01"}]}


# ------------------------------------------------------------------------------------------------------------ arguments


def test_locked_leaves_stay_and_the_rest_can_change() -> None:
    args = {"a": float("nan"), "b": [float("inf"), {"d": payload_types.Decimal("1.10")}], "c": 1.5}
    proposal = proposal_of(hitl(args, "edit"))
    changed = {**args, "c": 2.5}
    assert codes(proposal, Verdict("edit", args=changed)) == []
    assert answer(proposal, [Verdict("edit", args=changed)])["decisions"][0]["edited_action"]["args"] is changed
    assert codes(proposal, Verdict("edit", args={**changed, "a": None})) == [(0, "args/a", "locked")]
    assert codes(proposal, Verdict("edit", args={"b": args["b"], "c": 2})) == [(0, "args/a", "locked")]
    moved = {**args, "b": [{"d": payload_types.Decimal("1.10")}]}
    assert (0, "args/b/0/d", "not_json") in codes(proposal, Verdict("edit", args=moved))
    assert codes(proposal, Verdict("edit", args={**args, "c": float("nan")})) == [(0, "args/c", "not_a_number")]


def test_edit_and_approve_are_different_verbs() -> None:
    proposal = proposal_of(hitl({"amount": 1}, "approve", "edit"))
    assert codes(proposal, Verdict("edit", args={"amount": 1})) == [(0, "args", "unchanged")]
    assert codes(proposal, Verdict("edit", args={"amount": 1.0})) == []
    assert codes(proposal, Verdict("approve", args={"amount": 1})) == []
    assert codes(proposal, Verdict("approve", args={"amount": 2})) == [(0, "args", "changed")]


@pytest.mark.parametrize("args", [None, [], "x", {1: 2}])
def test_an_edit_sends_an_object(args: Any) -> None:
    assert codes(proposal_of(hitl({"a": 1}, "edit")), Verdict("edit", args=args)) == [(0, "args", "not_object")]


def test_integers_beyond_64_bits_are_not_typed_in() -> None:
    proposal = proposal_of(hitl({"n": 1}, "edit"))
    assert codes(proposal, Verdict("edit", args={"n": 2**64})) == [(0, "args/n", "out_of_range")]


# --------------------------------------------------------------------------------------- whole values and never raising


def test_a_problem_says_where() -> None:
    assert check(proposal_of("q"), []) == [
        Problem(None, "decisions", "count", "1 decision needed, one for each action in order; 0 came.")
    ]
