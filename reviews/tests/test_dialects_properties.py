"""What holds for every value, looked for with values that nobody thought of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.outcome import canonical_bytes, from_canonical
from reviews.dialects import VERDICTS, Proposal, Refused, Verdict, action_digests, answer, call_digest, check, read

# Derandomized and without a database of examples: the same values each time, and no folder left behind.
same_each_time = settings(derandomize=True, database=None, deadline=None, max_examples=60)

REQUEST_WORDS = ["action_requests", "review_configs", "actionRequests", "reviewConfigs", "action_request", "config"]
CALL_WORDS = ["type", "tool_approval", "tool_call_id", "name", "action", "args", "arguments", "description", "options"]
POLICY_WORDS = [
    "action_name",
    "actionName",
    "allowed_decisions",
    "allowedDecisions",
    "allow_accept",
    "allow_edit",
    *VERDICTS,
]
SCHEMA_WORDS = ["oneOf", "anyOf", "$ref", "$defs", "#", "properties", "const", "enum"]
WORDS = st.sampled_from([*REQUEST_WORDS, *CALL_WORDS, *POLICY_WORDS, *SCHEMA_WORDS])
TEXTS = st.text(st.characters(codec=None), max_size=8)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    WORDS,
    st.binary(max_size=4),
    st.decimals(),
    st.uuids(),
    st.datetimes(timezones=st.just(UTC)),
    st.frozensets(st.integers(), max_size=3),
)
KEYS = st.one_of(WORDS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.one_of(KEYS, st.integers(), st.tuples(st.integers())), inner, max_size=2),
    ),
    max_leaves=12,
)
CALLS = st.fixed_dictionaries(
    {"name": st.sampled_from(["pay", "wipe", ""]), "args": VALUES}, optional={"description": VALUES}
)
CONFIGS = st.fixed_dictionaries(
    {
        "action_name": st.sampled_from(["pay", "wipe"]),
        "allowed_decisions": st.one_of(st.lists(WORDS, max_size=3), VALUES),
    }
)
REQUESTS = st.fixed_dictionaries(
    {"action_requests": st.lists(st.one_of(CALLS, VALUES), max_size=3), "review_configs": st.lists(CONFIGS, max_size=2)}
)
PLAIN_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@same_each_time
@given(
    value=st.one_of(
        VALUES, REQUESTS, st.lists(st.fixed_dictionaries({"action_request": CALLS, "config": VALUES}), max_size=2)
    ),
    schema=st.one_of(st.none(), st.dictionaries(KEYS, VALUES, max_size=3)),
    kind=st.sampled_from(["interrupt", "breakpoint", "execution", "call"]),
)
def test_every_value_is_a_proposal_or_is_held(value: Any, schema: dict[str, Any] | None, kind: str) -> None:
    found = read(value, response_schema=schema, kind=kind)
    if isinstance(found, Refused):
        assert found.code.isidentifier()
        assert found.message.isprintable()
        return
    assert len(action_digests(found)) == len(found.actions) > 0
    for action in found.actions:
        assert action.allowed
        assert list(action.allowed) == [verdict for verdict in VERDICTS if verdict in action.allowed]
        assert list(action.flags) == sorted(set(action.flags))


GOOD_REQUESTS = st.fixed_dictionaries(
    {
        "action_requests": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["pay", "wipe"]), "args": st.dictionaries(TEXTS, VALUES, max_size=2)}
            ),
            min_size=1,
            max_size=3,
        ),
        "review_configs": st.just(
            [{"action_name": name, "allowed_decisions": list(VERDICTS)} for name in ("pay", "wipe")]
        ),
    }
)


@same_each_time
@given(value=GOOD_REQUESTS, data=st.data())
def test_verdicts_are_refused_or_answered_one_by_one(value: Any, data: st.DataObject) -> None:
    proposal = read(value, response_schema=None)
    assert isinstance(proposal, Proposal), proposal
    verdicts = [
        Verdict(
            data.draw(st.sampled_from(VERDICTS)),
            args={**action.args, "new": data.draw(VALUES)},
            message=data.draw(TEXTS),
        )
        for action in proposal.actions
    ]
    # An approval with other arguments is never answered, so it carries none here.
    verdicts = [replace(each, args=None) if each.type == "approve" else each for each in verdicts]
    wrong = {problem.position for problem in check(proposal, verdicts)}
    for position, verdict in enumerate(verdicts):
        if position in wrong:
            assert verdict.type != "approve" or verdict.message
            continue
        single = replace(proposal, actions=proposal.actions[position : position + 1])
        (decision,) = answer(single, [verdict])["decisions"]
        assert decision["type"] == verdict.type
        if verdict.type == "edit":
            assert decision["edited_action"] == {"name": proposal.actions[position].name, "args": verdict.args}


@same_each_time
@given(value=VALUES)
def test_any_json_answer_arrives_or_is_refused(value: Any) -> None:
    proposal = read("q", response_schema=None)
    assert isinstance(proposal, Proposal)
    verdict = Verdict("respond", value=value)
    if not check(proposal, [verdict]):
        assert canonical_bytes(answer(proposal, [verdict])) == canonical_bytes(value)


def exact(value: Any) -> Any:
    """A form of ``value`` that is equal only where type and content are, made another way than the digest."""
    if isinstance(value, dict):
        return "dict", frozenset((key, exact(item)) for key, item in value.items())
    if isinstance(value, list):
        return "list", tuple(exact(item) for item in value)
    return type(value).__name__, repr(value)


@same_each_time
@given(first=PLAIN_VALUES, second=PLAIN_VALUES)
def test_different_arguments_have_different_digests(first: Any, second: Any) -> None:
    assert (call_digest("pay", first) == call_digest("pay", second)) == (exact(first) == exact(second))


@same_each_time
@given(args=st.dictionaries(TEXTS, PLAIN_VALUES, min_size=1, max_size=4), data=st.data())
def test_one_changed_argument_changes_the_digest(args: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(args)))
    other = data.draw(PLAIN_VALUES.filter(lambda value: exact(value) != exact(args[key])))
    assert call_digest("pay", {**args, key: other}) != call_digest("pay", args)
    assert call_digest("wipe", args) != call_digest("pay", args)


def test_look_alikes_have_digests_of_their_own() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    values: list[Any] = [
        1,
        1.0,
        "1",
        True,
        None,
        "null",
        [1],
        (1, 2),
        {"1": 1},
        {1: 1},
        b"1",
        {1},
        moment,
        moment.isoformat(),
        2**53,
        2**53 + 1,
    ]
    assert len({call_digest("pay", {"a": value}) for value in values}) == len(values)


@same_each_time
@given(value=VALUES)
def test_the_checkpoint_changes_no_reading(value: Any) -> None:
    first, again = (read(each, response_schema=None) for each in (value, from_canonical(canonical_bytes(value))))
    assert type(first) is type(again)
    if isinstance(first, Proposal) and isinstance(again, Proposal):
        assert action_digests(first) == action_digests(again)
        assert [action.flags for action in first.actions] == [action.flags for action in again.actions]
