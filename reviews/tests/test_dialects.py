"""How interrupts of every dialect are read: the field's payloads, our own, and the rules behind them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from agents.outcome import canonical_bytes, digest, from_canonical
from reviews.dialects import (
    Proposal,
    Refused,
    Verdict,
    action_digests,
    answer,
    call_digest,
    digest_of,
    interrupt_digest,
    read,
)
from reviews.tests.cases.builders import (
    CASES,
    FIELD_PAYLOADS,
    PAYLOADS,
    evaluated,
    hitl,
    proposal_of,
    read_payload,
    refused,
    value_of,
)

READABLE = [name for name, payload in PAYLOADS.items() if payload["expect"]["ok"]]
HELD = [name for name, payload in PAYLOADS.items() if not payload["expect"]["ok"]]


# ------------------------------------------------------------------------------------------------------------- payloads


def test_the_field_sent_46_payloads() -> None:
    assert len(FIELD_PAYLOADS) == 46


@pytest.mark.parametrize("name", READABLE)
def test_payload_is_understood(name: str) -> None:
    payload = PAYLOADS[name]
    expected = payload["expect"]
    proposal = read_payload(name)
    assert isinstance(proposal, Proposal), proposal
    assert proposal.dialect == expected["dialect"]
    actions = evaluated(expected["actions_py"]) if "actions_py" in expected else expected["actions"]
    assert len(proposal.actions) == len(actions)
    for action, wanted in zip(proposal.actions, actions, strict=True):
        args = evaluated(wanted["args_py"], VALUE=value_of(payload)) if "args_py" in wanted else wanted["args"]
        assert digest(action.args) == digest(args)
        assert (action.name, action.description) == (wanted["name"], wanted["description"])
        assert (list(action.allowed), list(action.flags)) == (wanted["allowed"], wanted["flags"])


@pytest.mark.parametrize("name", HELD)
def test_payload_is_held(name: str) -> None:
    error = PAYLOADS[name]["expect"]["error"]
    held = read_payload(name)
    assert isinstance(held, Refused), held
    assert held.code == error["code"]
    assert len(held.message) < 400
    for word in error["must_mention"]:
        assert word in held.message


@pytest.mark.parametrize("name", [name for name in READABLE if name != "raw_python_types"])
def test_payload_reads_the_same_after_the_checkpoint(name: str) -> None:
    payload = PAYLOADS[name]
    first = read_payload(name)
    kind = payload.get("kind", "interrupt")
    again = read(
        from_canonical(canonical_bytes(value_of(payload))), response_schema=payload["response_schema"], kind=kind
    )
    assert isinstance(first, Proposal)
    assert isinstance(again, Proposal)
    assert canonical_bytes(asdict(again)) == canonical_bytes(asdict(first))
    assert action_digests(again) == action_digests(first)


# --------------------------------------------------------------------------------- HC-01, HC-21: questions of any value


def test_options_are_offered_and_free_text_stays() -> None:
    proposal = proposal_of({"type": "ask_user", "question": "Which region?", "options": ["eu", "us", "eu"]})
    assert proposal.actions[0].choices == ("eu", "us")
    assert answer(proposal, [Verdict("respond", message="ap")]) == "ap"


@pytest.mark.parametrize(
    "options", ["eu", [1, 2], ["eu", None], ["eu", " "], ["a\u202eb"], [str(i) for i in range(21)]]
)
def test_odd_options_are_only_shown(options: Any) -> None:
    assert proposal_of({"question": "Which?", "options": options}).actions[0].choices == ()


def test_an_ask_user_tool_offers_its_options() -> None:
    asked = {"question": "Which?", "options": ["eu", "us"]}
    assert proposal_of(hitl(asked, "respond", name="ask_user")).actions[0].choices == ("eu", "us")
    assert proposal_of(hitl(asked, "approve", "respond", name="ask_user")).actions[0].choices == ()


# ------------------------------------------------------------------------------------------------ HC-02: three dialects


def test_three_dialects_of_one_request_are_one_action() -> None:
    args = {"to": "ops@example.test"}
    case = next(case for case in json.loads((CASES / "cases.json").read_text()) if case["id"] == "HC-02")
    read_as = {name: proposal_of(value) for name, value in case["input"].items()}
    assert {name: proposal.dialect for name, proposal in read_as.items()} == {
        "js": "hitl_js",
        "agent_inbox": "agent_inbox",
        "early_python": "hitl_early",
    }
    assert {proposal.actions[0].name for proposal in read_as.values()} == {"send_mail"}
    assert {digest_of(proposal, 0) for proposal in read_as.values()} == {call_digest("send_mail", args)}
    assert read_as["js"].actions[0].allowed == read_as["early_python"].actions[0].allowed == ("approve", "edit")
    assert read_as["agent_inbox"].actions[0].allowed == ("approve", "edit", "reject")
    assert read_as["agent_inbox"].actions[0].labels == {"reject": "Ignore"}
    assert answer(read_as["agent_inbox"], [Verdict("approve")]) == [{"type": "accept", "args": None}]
    assert answer(read_as["agent_inbox"], [Verdict("reject", message="x")]) == [{"type": "ignore", "args": None}]


def test_a_dialect_is_part_of_the_interrupts_digest() -> None:
    digests = action_digests(proposal_of(hitl({"a": 1}, "approve")))
    assert interrupt_digest("hitl", digests) != interrupt_digest("hitl_js", digests)
    assert interrupt_digest("hitl", ["1", "2"]) != interrupt_digest("hitl", ["2", "1"])


@pytest.mark.parametrize(
    "value",
    [
        {**hitl({}, "approve"), "actionRequests": []},
        {"action_requests": [{"name": "pay", "args": {}}], "reviewConfigs": []},
        {**hitl({}, "approve"), "type": "tool_approval"},
        {**hitl({}, "approve"), "action_request": {}},
        {
            "action_requests": [{"name": "pay", "args": {}}],
            "review_configs": [{"actionName": "pay", "allowedDecisions": ["approve"]}],
        },
        {
            "action_requests": [{"name": "pay", "args": {"amount": 1}, "arguments": {"amount": 9999}}],
            "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve"]}],
        },
        {
            "action_requests": [{"name": "pay", "args": {}}],
            "review_configs": [
                {"action_name": "pay", "allowed_decisions": ["approve"]},
                {"action_name": "pay", "allowed_decisions": ["reject"]},
            ],
        },
        hitl('{"amount": 10, "amount": 9999}', "approve"),
    ],
)
def test_what_can_be_read_in_two_ways_is_held(value: Any) -> None:
    assert refused(value).code == "ambiguous"


@pytest.mark.parametrize(
    ("value", "code", "word"),
    [
        ({"review_configs": []}, "bad_shape", "action_requests"),
        ({"actionRequests": [], "reviewConfigs": []}, "empty_batch", "actionRequests"),
        ({"actionRequests": [{"name": "x"}]}, "no_policy", "reviewConfigs"),
        (hitl({}, "approve") | {"action_requests": [{"name": "PAY", "args": {}}]}, "no_policy", "PAY"),
        (hitl({}, "approve", name="\u200b"), "bad_action", "name"),
        (hitl({}, "approve", name="a\0b"), "bad_action", "name"),
        (hitl({}, "approve", name="x" * 201), "bad_action", "200"),
        (hitl([1], "edit"), "no_allowed_decisions", "edit"),
        ({"type": "tool_approval", "name": "pay", "args": {}, "tool_call_id": "c"}, "no_policy", "response_schema"),
        ({"action_request": {"action": "pay", "args": {}}}, "no_policy", "pay"),
        (
            {"action_request": {"action": "pay", "arguments": {}}, "config": {"allow_accept": True}},
            "bad_action",
            "args",
        ),
        ([{"action_request": {"action": "pay", "args": {}}, "config": True}], "bad_policy", "pay"),
        ([{"action_request": {"action": "pay"}, "config": {"allow_edit": True}}, "x"], "bad_shape", "1"),
    ],
)
def test_broken_rules_are_named(value: Any, code: str, word: str) -> None:
    held = refused(value)
    assert (held.code, word in held.message) == (code, True), held


def test_javascript_knows_no_respond() -> None:
    value = {
        "actionRequests": [{"name": "pay", "args": {}}],
        "reviewConfigs": [{"actionName": "pay", "allowedDecisions": ["approve", "respond"]}],
    }
    action = proposal_of(value).actions[0]
    assert (action.allowed, action.flags) == (("approve",), ("unknown_decision:respond",))


# ------------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize("text", ["ls -l", '"x"', "[1]", '{"a": NaN}', '{"a": 1e400}', '{"a": ' + "1" * 5000 + "}", ""])
def test_text_that_is_no_exact_object_stays_text(text: str) -> None:
    action = proposal_of(hitl(text, "approve", "edit")).actions[0]
    assert action.args == text
    assert "args_not_object" in action.flags
    assert action.allowed == ("approve",)


def test_arguments_text_is_decoded_once() -> None:
    inner = '{"b": 1}'
    assert proposal_of(hitl(json.dumps({"a": inner}), "approve")).actions[0].args == {"a": inner}


@pytest.mark.parametrize(
    "text", ['{"a": ' + "[" * 300 + "]" * 300 + "}", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_deep_text_is_held(text: str) -> None:
    assert refused(hitl(text, "approve")).code == "too_deep"


def test_hidden_characters_and_half_ones_are_flagged() -> None:
    action = proposal_of(hitl({"a\u202e": 1, "b": ["\udc00"]}, "approve")).actions[0]
    assert action.flags == ("hidden_chars", "invalid_unicode")
    request = hitl({}, "approve")
    request["action_requests"][0]["description"] = "see\u200bthis"
    assert proposal_of(request).actions[0].flags == ("hidden_chars",)


def test_a_trailing_carriage_return_hides_something_whatever_stands_next() -> None:
    assert "hidden_chars" in proposal_of(hitl({"a": "x\r", "b": "\ny"}, "approve")).actions[0].flags


def test_the_agents_order_of_arguments_is_kept() -> None:
    assert list(proposal_of(hitl({"z": 1, "a": 2}, "approve")).actions[0].args) == ["z", "a"]


# ----------------------------------------------------------------------------------------------- tool_approval's schema


def test_the_edit_branch_gives_the_arguments_schema() -> None:
    action = proposal_of(
        PAYLOADS["per_call_real_schema"]["value"], response_schema=PAYLOADS["per_call_real_schema"]["response_schema"]
    ).actions[0]
    assert action.tool_call_id == "c1"
    assert action.schema is not None
    assert action.schema["required"] == ["amount", "to"]
    assert action.schema["properties"]["to"]["$ref"] == "#/$defs/Addr"
    assert action.schema["$defs"]["Addr"]["required"] == ["street"]


def test_an_edit_branch_for_another_tool_is_held() -> None:
    payload = PAYLOADS["per_call_real_schema"]
    held = refused({**payload["value"], "name": "wipe"}, response_schema=payload["response_schema"])
    assert held.code == "bad_policy"
    assert "'wipe'" in held.message


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"oneOf": [{"$ref": "https://example.test/approve"}]},
        {"oneOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "#"},
        {"oneOf": [None, 1, {"properties": {"type": {"const": 1}}}]},
    ],
)
def test_a_schema_that_allows_nothing_is_held(schema: dict[str, Any]) -> None:
    value = {"type": "tool_approval", "tool_call_id": "c1", "name": "pay", "args": {}}
    assert refused(value, response_schema=schema).code == "no_allowed_decisions"


# --------------------------------------------------------------------------------------- whole values and never raising


@pytest.mark.parametrize("kind", ["interrupt", "breakpoint", "execution"])
def test_where_no_tool_is_asked_about_the_digest_covers_the_whole_value(kind: str) -> None:
    value = {"name": "pay", "args": {"a": 1}, "description": "x"}
    first = proposal_of(value, kind=kind)
    assert digest_of(first, 0) == digest(value)
    assert digest_of(proposal_of({**value, "description": "y"}, kind=kind), 0) != digest_of(first, 0)


def test_a_tool_calls_digest_covers_name_and_arguments_only() -> None:
    value = hitl({"a": 1}, "approve")
    again = hitl({"a": 1}, "approve", "reject")
    assert (
        digest_of(proposal_of(value), 0)
        == digest_of(proposal_of(again), 0)
        == digest({"name": "pay", "args": {"a": 1}})
    )


class Hostile:
    """Its own code raises whenever somebody looks at it."""

    model_fields = ("x",)

    @property
    def x(self) -> Any:
        raise OSError("boom")


def looped() -> Any:
    value: dict[str, Any] = {}
    value["again"] = [value]
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [(Hostile(), "unreadable"), (object(), "unknown_type"), (looped(), "too_deep"), (10**5000, "unreadable")],
    ids=["hostile", "object", "looped", "digits"],
)
@pytest.mark.parametrize("kind", ["interrupt", "breakpoint", "execution", "call"])
def test_reading_never_raises(value: Any, code: str, kind: str) -> None:
    assert refused(value, kind=kind).code == code
    assert refused(hitl({"deep": value}, "approve"), kind=kind).code == code


def test_200_levels_are_read_and_201_are_held() -> None:
    value: Any = 1
    for _ in range(200):
        value = {"k": value}
    assert digest_of(proposal_of(value), 0) == digest(value)
    assert refused({"k": value}).code == "too_deep"
