"""A reviewer edits arguments: what nobody touched stays as it was, and what was typed is read strictly."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.outcome import canonical_bytes
from reviews.arg_fields import with_lines_of
from reviews.schema_forms import ArgsForm, answer_form, build, parse_json, raw_form, to_json_text

REFUND = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "amount": {"type": "number", "minimum": 0, "maximum": 500},
        "method": {"$ref": "#/$defs/Method"},
        "note": {"anyOf": [{"type": "string", "maxLength": 200}, {"type": "null"}], "default": None},
        "urgent": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["order_id", "amount"],
    "additionalProperties": False,
    "$defs": {"Method": {"enum": ["original_card", "voucher"], "type": "string"}},
}
ASKED: dict[str, Any] = {"order_id": 10482, "amount": 129.0, "method": "original_card", "note": "seen"}


def as_sent(form: ArgsForm) -> dict[str, str]:
    """What a browser sends when nobody touched a field: line ends become CRLF."""
    return {
        row.field.html_name: str(row.field.value()).replace("\r\n", "\n").replace("\n", "\r\n")
        for row in form.rows
        if row.field is not None
    }


def posted(args: dict[Any, Any], schema: dict[str, Any] | None = None, **typed: str) -> ArgsForm:
    sent = as_sent(build(args, schema=schema, prefix="a"))
    return build(args, schema=schema, prefix="a", data=sent | {f"a-{name}": text for name, text in typed.items()})


def messages(form: ArgsForm, name: str) -> str:
    return " ".join(next(row for row in form.rows if row.name == name).errors)


# ------------------------------------------------------------------------------------------------------------ untouched


def test_untouched_arguments_are_the_objects_that_were_stored() -> None:
    args = {
        "account": 9007199254740993,
        "u64": 2**64 - 1,
        "low": -(2**63),
        "price": 0.1,
        "whole": 1.0,
        "one": 1,
        "text": "1",
        "yes": True,
        "nothing": None,
        "lines": "a\r\nb\rc\nd\n",
        "nested": {"b": [1, 1.0, "1", None, True], "a": {}},
        "empty": "",
        "blanks": "  x  ",
        "newline first": "\nx",
    }
    form = posted(args)
    assert form.is_valid()
    assert form.changed == []
    assert canonical_bytes(form.edited) == canonical_bytes(args)
    assert list(form.edited) == list(args)
    assert all(form.edited[name] is value for name, value in args.items())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4), st.sampled_from([None, REFUND]))
def test_whatever_the_agent_asks_survives_the_browser(args: dict[str, Any], schema: dict[str, Any] | None) -> None:
    form = posted(args, schema)
    assert form.is_valid()
    assert canonical_bytes(form.edited) == canonical_bytes(args)
    raw = raw_form(args, schema=schema, text=to_json_text(args).replace("\n", "\r\n"))
    assert raw.is_valid()
    assert canonical_bytes(raw.edited) == canonical_bytes(args)


def test_a_change_keeps_its_neighbours_to_the_digit() -> None:
    form = posted({"u64": 2**64 - 1, "whole": 1.0, "note": "x"}, note="y")
    assert form.is_valid()
    assert form.changed == ["note"]
    assert canonical_bytes(form.edited) == canonical_bytes({"u64": 2**64 - 1, "whole": 1.0, "note": "y"})


def test_typing_the_same_value_in_other_words_is_no_change() -> None:
    form = posted(ASKED, REFUND, amount="129.00")
    assert form.is_valid() and form.changed == []
    assert form.edited["amount"] is ASKED["amount"]


def test_line_ends_of_the_agent_stay_where_text_was_not_touched() -> None:
    form = posted({"body": "a\nb\nc"}, body="a\r\nB\r\nc")
    assert form.is_valid() and form.edited == {"body": "a\nB\nc"}
    assert with_lines_of("a\r\nb\r\n", "a\nx\nb\n") == "a\r\nx\r\nb\r\n"
    assert with_lines_of("a\r\nb\nc\nd\n", "a\nB\nc\nd\n") == "a\r\nB\nc\nd\n"
    assert with_lines_of("a\r\nb", "") == ""


@settings(max_examples=60, deadline=None)
@given(st.text("ab\r\n"), st.text("ab\n"))
@example("\ra\n", "\n\n")
@example("a\r\n\n", "\n\nb\n")
def test_line_ends_never_change_the_words(old: str, new: str) -> None:
    assert with_lines_of(old, new).replace("\r\n", "\n").replace("\r", "\n") == new


def test_fields_that_were_not_sent_are_as_asked_unless_required() -> None:
    assert build(ASKED, schema=REFUND, prefix="a", data={"decision": "approve"}).edited == ASKED
    form = build(ASKED, schema=REFUND, prefix="a", data={"a-note": "other"})
    assert not form.is_valid()
    assert messages(form, "amount") == "amount is required."


# --------------------------------------------------------------------------------------------------------------- strict


@pytest.mark.parametrize("typed", ["5.5", "lots", "0x1", "1e3", "007", "٣", "5,0", "1_000", str(2**64), "1" * 5000])
def test_a_whole_number_is_nothing_else(typed: str) -> None:
    form = posted(ASKED, REFUND, order_id=typed)
    assert not form.is_valid()
    assert messages(form, "order_id")


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("NaN", "not a number"),
        ("Infinity", "not a number"),
        ("-inf", "not a number"),
        ("1e400", "out of range"),
        ("1,5", "behind a point"),
        ("0.12345678901234567891", "more digits"),
        ("1e-400", "more digits"),
        ("", "required"),
    ],
)
def test_numbers_that_json_cannot_keep_are_refused_in_words(typed: str, reason: str) -> None:
    form = posted(ASKED, REFUND, amount=typed)
    assert not form.is_valid()
    assert reason in messages(form, "amount")
    with pytest.raises(ValueError, match="not complete"):
        _ = form.edited


@pytest.mark.parametrize(("typed", "value"), [("5", 5), ("5.0", 5.0), ("1e2", 100.0), (" 7 ", 7)])
def test_a_number_is_whole_or_not_as_it_was_typed(typed: str, value: float) -> None:
    form = posted(ASKED, REFUND, amount=typed)
    assert form.is_valid()
    assert canonical_bytes(form.edited["amount"]) == canonical_bytes(value)


def test_the_schema_names_value_and_limit_at_the_field() -> None:
    form = posted(ASKED, REFUND, amount="1190", note="x" * 201)
    assert not form.is_valid()
    assert messages(form, "amount") == "1190 is more than 500, the most this tool takes."
    assert messages(form, "note") == "201 characters; 200 is the most this tool takes."
    assert [row.state for row in form.rows][:4] == ["as asked", "invalid", "as asked", "invalid"]
    assert form.changed == ["amount", "note"]


def test_wrong_fields_and_wrong_sizes_are_told_together() -> None:
    form = posted(ASKED, REFUND, amount="1190", order_id="lots")
    assert messages(form, "order_id") == "lots is not a whole number."
    assert "500" in messages(form, "amount")


def test_four_edits_of_hc_16() -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "urgent": {"type": "boolean"}, "tags": {"type": "array"}},
        "required": ["amount"],
    }
    args = {"amount": 5, "urgent": True, "tags": ["a"], "memo": None}
    assert "lots" in messages(posted(args, schema, amount="lots"), "amount")
    second = posted(args, schema, amount='"5"', urgent='"true"', tags='"a"')
    assert all(messages(second, name) for name in ("amount", "urgent", "tags"))
    third = build(args, schema=schema, prefix="a", data={"a-urgent": "true", "a-tags": '["a"]', "a-memo": "null"})
    assert messages(third, "amount") == "amount is required."
    fourth = posted(args, schema, amount="6", urgent="false", tags="[]")
    assert fourth.is_valid()
    assert canonical_bytes(fourth.edited) == canonical_bytes({"amount": 6, "urgent": False, "tags": [], "memo": None})

    raw = [
        '{"amount": "lots", "urgent": true, "tags": ["a"], "memo": null}',
        '{"amount": "5", "urgent": "true", "tags": "a", "memo": "null"}',
        '{"urgent": true}',
    ]
    for text in raw:
        assert raw_form(args, schema=schema, text=text).wrong["amount"]
    extra = '{"amount": 6, "urgent": false, "tags": [], "memo": null, "extra": 1}'
    assert raw_form(args, schema=schema, text=extra).edited["extra"] == 1
    closed = raw_form(args, schema=schema | {"additionalProperties": False}, text=extra)
    assert closed.wrong["extra"] == ["extra is not an argument of this tool."]


# --------------------------------------------------------------------------------------------------------------- fields


def test_hints_say_kind_limits_and_need() -> None:
    form = build(ASKED | {"sent": 1}, schema=REFUND, prefix="a")
    assert {row.name: row.hint for row in form.rows} == {
        "order_id": "whole number, required",
        "amount": "number, 0 to 500, required",
        "method": "one of 2",
        "note": "text, up to 200, or null",
        "sent": "whole number, not in the tool's schema",
        "urgent": "true or false",
        "tags": "list, as JSON",
    }


def test_what_the_agent_left_out_is_offered_and_stays_out_when_left_empty() -> None:
    form = posted(ASKED, REFUND)
    urgent = next(row for row in form.rows if row.name == "urgent")
    assert not urgent.present and urgent.field is not None and 'value="" selected' in str(urgent.field)
    assert form.is_valid() and "urgent" not in form.edited
    form = posted(ASKED, REFUND, urgent="false", tags='["a"]')
    assert form.is_valid() and form.changed == ["urgent", "tags"]
    assert form.edited == ASKED | {"urgent": False, "tags": ["a"]}


def test_null_and_false_are_explicit() -> None:
    schema = {
        "properties": {
            "on": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "count": {"type": ["integer", "null"]},
            "kind": {"enum": ["a", "b", None]},
        }
    }
    args = {"on": True, "count": 3, "kind": "a"}
    form = posted(args, schema, on="null", count="", kind="null")
    assert form.is_valid()
    assert form.edited == {"on": None, "count": None, "kind": None}
    form = posted(args, schema, on="false", count="0", kind="b")
    assert canonical_bytes(form.edited) == canonical_bytes({"on": False, "count": 0, "kind": "b"})
    assert not posted(args, schema, on="maybe").is_valid()


def test_choices_that_look_alike_stay_apart() -> None:
    schema = {"properties": {"level": {"enum": [1, "1", 1.5, True, ""]}}}
    for typed, value in (("1", 1), ('"1"', "1"), ("1.5", 1.5), ("true", True), ('""', "")):
        form = posted({"level": 1.5}, schema, level=typed)
        assert form.is_valid()
        assert canonical_bytes(form.edited["level"]) == canonical_bytes(value)


def test_a_value_of_the_wrong_type_is_shown_as_what_it_is() -> None:
    schema = {"properties": {"count": {"type": "integer"}, "name": {"type": "string"}, "kind": {"enum": ["a"]}}}
    args = {"count": "5", "name": 5, "kind": "z"}
    form = posted(args, schema)
    assert as_sent(form) == {"a-count": '"5"', "a-name": "5", "a-kind": "z"}
    assert form.is_valid(), "an unchanged call can be let through"
    assert {problem.name for problem in form.asked_problems} == {"count", "name", "kind"}
    form = posted(args, schema, count="5", name='"5"', kind="a")
    assert form.is_valid() and form.edited == {"count": 5, "name": "5", "kind": "a"}


def test_local_references_are_followed_and_remote_ones_never() -> None:
    schema = {
        "properties": {"owner": {"$ref": "#/$defs/Node"}, "far": {"$ref": "https://schemas.example.test/x"}},
        "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}
        },
    }
    form = posted({"owner": {"n": 1}}, schema, owner='{"next": {"n": 2}}')
    assert form.is_valid()
    form = posted({"owner": {"n": 1}}, schema, owner='{"next": {"n": "x"}}')
    assert messages(form, "owner") == 'next.n: "x" is text, not a whole number.'
    form = posted({"owner": {}, "far": 1}, schema, owner='{"n": 3}', far='"x"')
    assert form.is_valid()
    assert "points outside" in form.schema_problem
    assert form.needs_confirm, "no schema judged this change of type"


def test_a_pattern_that_explodes_is_stopped() -> None:
    schema = {"properties": {"code": {"type": "string", "pattern": "^(a|a|b?)*(a|aa)+$"}}}
    form = posted({"code": "x"}, schema, code="a" * 5000 + "!")
    form.is_valid()
    assert form.schema_problem.startswith("The pattern") or messages(form, "code")


def test_a_broken_schema_does_not_stop_the_reviewer() -> None:
    form = posted({"a": 1}, {"type": "objekt", "properties": {"a": {"type": "integer"}}}, a="2")
    assert form.is_valid() and form.edited == {"a": 2}
    assert "broken" in form.schema_problem


def test_circles_in_a_schema_end() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    }
    form = posted({"a": 1}, schema, a="2")
    assert form.is_valid() and form.schema_problem


# ------------------------------------------------------------------------------------------------------------ read only


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        [1, {"x": -math.inf}],
        b"\x00\xff",
        datetime(2026, 1, 2, tzinfo=UTC),
        Decimal("1.10"),
        {"a", "b"},
        {7: "int key"},
        "seen\u202e",
        ["\u200b"],
        {"\x1b": 1},
        "a\x00b",
        "\ud800",
        "é" * 40_000,
        ["x" * 70_000],
    ],
)
@pytest.mark.parametrize("schema", [None, {"properties": {"odd": {"type": "string", "maxLength": 5}, "n": {}}}])
def test_odd_values_are_shown_and_go_on_untouched(value: Any, schema: dict[str, Any] | None) -> None:
    form = posted({"odd": value, "n": 1}, schema, n="2")
    row = form.rows[0]
    assert row.field is None and row.readonly_reason
    if form.is_valid():
        assert form.edited["odd"] is value and form.edited["n"] == 2
    else:  # text with hidden characters can still be too long for the schema
        assert row.hidden


def test_names_that_are_no_text_or_hide_something_are_shown() -> None:
    args = {7: "a", (1, 2): "b", "x\u202e": "c", "__all__": "d", "<b>": "e", "": "f"}
    form = posted(args)
    assert [row.field is None for row in form.rows] == [True, True, True, True, False, False]
    assert form.rows[0].label == "7 (whole number as a key)"
    assert form.is_valid() and form.edited == args
    assert "<b>" not in str(form.rows[4].field)


def test_nothing_is_editable_where_policy_says_so() -> None:
    form = build(ASKED, schema=REFUND, prefix="a", data={"a-amount": "1"}, editable=False)
    assert form.is_valid() and form.edited == ASKED and form.changed == []
    assert {row.state for row in form.rows if row.present} == {"read only"}


def test_hidden_characters_can_be_removed_or_edited_as_json() -> None:
    args = {"note": "seen\u202e 00.921", "n": 1}
    form = build(args, schema=None, prefix="a")
    assert form.rows[0].escapable and [mark.label for mark in form.rows[0].hidden] == ["U+202E"]
    stripped = build(args, schema=None, prefix="a", data={"a-n": "1"}, acts={"note": "strip"})
    assert stripped.is_valid() and stripped.edited == {"note": "seen 00.921", "n": 1}
    opened = build(args, schema=None, prefix="a", data={"a-n": "1"}, acts={"note": "escape"})
    assert opened.is_valid() and opened.changed == []
    assert as_sent(opened)["a-note"] == '"seen\\u202e 00.921"'
    kept = build(args, schema=None, prefix="a", data={"a-n": "1", "a-note": '"seen\\u202e 00.920"'})
    assert kept.is_valid() and kept.edited["note"] == "seen\u202e 00.920"


def test_undo_puts_the_agents_value_back() -> None:
    data = {"a-order_id": "1", "a-amount": "1190", "a-method": "voucher", "a-note": "x"}
    form = build(ASKED, schema=REFUND, prefix="a", data=data, acts={"amount": "undo"})
    assert form.is_valid() and form.changed == ["order_id", "method", "note"]


@pytest.mark.parametrize("typed", ["see\u200bn", "seen\u202e", "\x1b[2K"])
def test_a_reviewer_cannot_paste_what_nobody_sees(typed: str) -> None:
    form = posted(ASKED, REFUND, note=typed)
    assert "hidden character" in messages(form, "note")
    assert "hidden character" in raw_form(ASKED, schema=REFUND, text=f'{{"note": "{typed}"}}').errors[0]


# ---------------------------------------------------------------------------------------------------------------- types


def test_type_changes_without_a_schema_ask_once_more() -> None:
    form = posted({"memo": None, "n": 5, "tags": ["a"]}, memo='"x"', tags="{}")
    assert form.is_valid()
    assert form.type_changes == [("memo", "null", "text"), ("tags", "list", "object")]
    assert form.needs_confirm
    raw = raw_form({"n": 5, "m": 5, "f": 1.5}, schema=None, text='{"n": "5", "m": 5.5, "f": 2}')
    assert raw.type_changes == [("n", "whole number", "text"), ("m", "whole number", "number")]
    assert not posted(ASKED, REFUND, note="").needs_confirm, "the schema says that null is right"


# ------------------------------------------------------------------------------------------------------------- raw JSON


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"cap": 1e400}', "the most, line 1, column 9"),
        ('{"cap": NaN}', "not a number"),
        ('{"cap": -Infinity}', "not a number"),
        ('{\n  "cap": 1,\n  "cap": 2}', "Repeated key cap: it is not clear which one counts, line 3, column 3"),
        ('{"cap": 1, "\\u0063ap": 2}', "Repeated key"),
        ('{"cap": ' + "1" * 5000 + "}", "Too many digits: 5000"),
        ('{"cap": 18446744073709551616}', "a checkpoint holds"),
        ('{"cap": -9223372036854775809}', "a checkpoint holds"),
        ("[" * 100_000 + "]" * 100_000, "more than 200 levels"),
        ('{"a": "\\ud800"}', "\\ud800 is half a character"),
        ('{"a": "\ud800"}', "half a character"),
        ('{"a": 1,}', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": "x', "not JSON"),
        ("", "not JSON"),
        ('{"a": 01}', "01 is not a number"),
        ('{"a": 0.12345678901234567891}', "more digits"),
    ],
)
def test_bad_json_is_refused_with_reason_and_place(text: str, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_json(text)
    assert reason in caught.value.messages[0]
    assert "line 1" in caught.value.messages[0] or "\n" in text
    form = raw_form({"cap": math.inf, "ok": 1}, schema=None, text=text)
    assert not form.is_valid() and form.errors


@settings(max_examples=100, deadline=None)
@given(json_values.filter(lambda value: b"__cs__" not in canonical_bytes(value)))
def test_good_json_is_read_as_it_is_written(value: Any) -> None:
    try:
        text = to_json_text({"v": value})
    except UnicodeEncodeError:  # pragma: no cover
        return
    if '"v"' in text:
        assert canonical_bytes(parse_json(text)) == canonical_bytes({"v": value})


def test_strings_may_hold_what_looks_like_json() -> None:
    assert parse_json('{"a": "NaN [[[ 1e400 \\" {", "b": {"a": "a:"}, "c": [{"a": 1}, {"a": 2}]}')["b"] == {"a": "a:"}
    assert parse_json('"\\ud83d\\ude00"') == "😀"


def test_raw_json_edits_removes_adds_and_keeps_the_locked() -> None:
    args = {"a": 1, "cap": math.inf, "b": "x\u202e", "c": [1]}
    assert "\\u202e" in to_json_text(args) and "cap" not in to_json_text(args)
    form = raw_form(args, schema=None, text='{"b": "x", "a": 1, "d": 18446744073709551615}')
    assert form.is_valid()
    assert form.edited == {"a": 1, "cap": math.inf, "b": "x", "d": 2**64 - 1}
    assert form.changed == ["b", "c", "d"]
    assert [row.state for row in form.rows] == [
        "as asked",
        "read only",
        "changed by you",
        "changed by you",
        "changed by you",
    ]
    assert raw_form(args, schema=None, text='{"cap": 1}').wrong["cap"]
    assert "must be an object" in raw_form(args, schema=None, text="[1]").errors[0]
    missing = raw_form(ASKED, schema=REFUND, text='{"order_id": 1}')
    assert missing.wrong == {"amount": ["amount is required."]}


# -------------------------------------------------------------------------------------------------------------- answers


def test_an_object_schema_becomes_its_fields() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": {"enum": ["eu", "us"]},
            "count": {"type": "integer", "minimum": 1},
            "why": {"type": "string"},
        },
        "required": ["region", "count"],
    }
    empty = answer_form(schema, data={"r-region": "", "r-count": "", "r-why": ""}, prefix="r")
    assert not empty.is_valid()
    assert messages(empty, "count") == "count is required."
    form = answer_form(schema, data={"r-region": "eu", "r-count": "2", "r-why": ""}, prefix="r")
    assert form.is_valid() and form.value == {"region": "eu", "count": 2}
    low = answer_form(schema, data={"r-region": "eu", "r-count": "0", "r-why": ""}, prefix="r")
    assert messages(low, "count") == "0 is less than 1, the least the agent takes."


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, "go on", "go on"),
        ({"type": "boolean"}, "false", False),
        ({"type": "integer"}, "0", 0),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"enum": ["a", "b"]}, "b", "b"),
        ({"oneOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "object"}}}, '{"x": 1}', {"x": 1}),
        ({}, "null", None),
    ],
)
def test_any_other_schema_becomes_one_field(schema: dict[str, Any], typed: str, value: Any) -> None:
    form = answer_form(schema, data={"r-answer": typed}, prefix="r")
    assert form.is_valid(), form.errors
    assert canonical_bytes(form.value) == canonical_bytes(value)
    assert not answer_form(schema, data={"r-answer": ""}, prefix="r").is_valid()


def test_an_answer_is_held_against_the_schema() -> None:
    form = answer_form({"type": "array", "items": {"type": "integer"}}, data={"r-answer": '["x"]'}, prefix="r")
    assert not form.is_valid()
    assert messages(form, "answer") == '[0]: "x" is text, not a whole number.'
