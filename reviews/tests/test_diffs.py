"""What a reviewer changed is shown word by word, and never slowly."""

from __future__ import annotations

import time
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.outcome import canonical_bytes
from reviews.diffs import Change, changes, mostly_changed, word_diff
from reviews.hidden import find_hidden
from reviews.titles import MAX_SUMMARY, MAX_TITLE, call_title, humanised, joined, summary, title


def test_only_the_words_that_differ_are_marked() -> None:
    assert word_diff("pay 129 EUR today", "pay 119 EUR today") == [
        ("same", "pay "),
        ("minus", "129 "),
        ("plus", "119 "),
        ("same", "EUR today"),
    ]
    assert word_diff("a", "a") == [("same", "a")]
    assert word_diff("", "") == []
    assert word_diff("", "new") == [("plus", "new")]


@settings(max_examples=150, deadline=None)
@given(st.text("ab .\n", max_size=60), st.text("ab .\n", max_size=60))
def test_the_pieces_make_up_both_texts(old: str, new: str) -> None:
    pieces = word_diff(old, new)
    assert "".join(text for op, text in pieces if op != "plus") == old
    assert "".join(text for op, text in pieces if op != "minus") == new


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a " * 5000, "a b " * 5000),
        ("é " * 300_000, "é x " * 300_000),
        ("A" * 3_000_000, "A" * 2_999_999 + "B"),
    ],
)
def test_huge_texts_are_one_replacement_and_quick(old: str, new: str) -> None:
    start = time.process_time()
    pieces = word_diff(old, new)
    assert time.process_time() - start < 5
    assert len(pieces) <= 4
    assert "".join(text for op, text in pieces if op != "minus") == new


def test_changes_are_added_changed_and_removed_in_order() -> None:
    old = {"a": 1, "b": "x", "c": [1], "d": True}
    new = {"a": 1.0, "b": "x", "d": True, "e": None}
    assert changes(old, new) == [
        Change("a", 1, 1.0, "changed"),
        Change("c", [1], None, "removed"),
        Change("e", None, None, "added"),
    ]
    assert Change("a", 1, 1.0, "changed").words == [("minus", "1"), ("plus", "1.0")]
    assert Change("d", date(2026, 1, 2), "x", "changed").words == [("minus", "2026-01-02"), ("plus", "x")]


scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), scalars), st.dictionaries(st.sampled_from("abcd"), scalars))
def test_no_change_means_the_same_bytes(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert (changes(old, new) == []) == (canonical_bytes(old) == canonical_bytes(new))


def test_an_edit_that_changes_most_of_a_call_is_noticed() -> None:
    refund = {"order_id": 1, "amount": 129.0, "method": "card", "note": "x"}
    assert not mostly_changed(refund, refund | {"amount": 119.0})
    assert mostly_changed(refund, {"order_id": 2, "amount": 1, "method": "voucher", "note": "x"})
    sql = {"query": "DELETE FROM carts WHERE updated_at < '2026-09-01' AND order_id IS NULL"}
    assert not mostly_changed(sql, {"query": sql["query"] + " LIMIT 10"})
    assert mostly_changed(sql, {"query": "SELECT 1"})
    assert not mostly_changed({}, {})


# ------------------------------------------------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("issue_refund", {"order_id": 10482, "amount": 129.0}, "Refund order 10482"),
        ("write_file", {"path": "reports/churn.md", "content": "# x"}, "Write reports/churn.md"),
        ("send_email", {"to": "a@example.test"}, "E-mail to a@example.test"),
        ("send_email", {"recipients": ["a@example.test", "b@example.test"]}, "E-mail to 2 recipients"),
        ("execute_sql", {"statement": "DELETE  FROM\ncarts"}, "Run SQL: DELETE FROM carts"),
        ("forward_letter", {"registered": True, "letter": "L-17"}, "Forward letter L-17"),
        ("buy", {"quantity": 3, "item": "lamp"}, "Buy lamp"),
        ("pay", {"amount": 5}, "Pay 5"),
        ("wipe", {"path": "/srv/x"}, "Wipe /srv/x"),
        ("refresh", {}, "Refresh"),
        ("refresh", None, "Refresh"),
        ("restartService", {"graceSeconds": 5, "service": "cart-worker"}, "Restart service cart-worker"),
        ("ask_user", {"question": "Which date?"}, "Answer a question"),
        ("issue_refund", {"amount": 1.5, "what": ["x"]}, "Issue refund"),
    ],
)
def test_a_title_says_what_will_happen(name: str, args: Any, expected: str) -> None:
    assert title(name, args, dialect="hitl") == expected


def test_questions_breakpoints_and_unknown_outcomes_have_titles_of_their_own() -> None:
    words = {"question": "Approve now!", "value": "x"}
    assert title("interrupt", words, dialect="raw") == "Answer a question"
    assert title("interrupt", words, dialect="schema") == "Answer a question"
    assert title("interrupt", {"next": ["deploy"]}, dialect="breakpoint") == "Run the next step: deploy"
    assert title("issue_refund", {"order_id": 10391}, dialect="execution") == "Outcome unknown: refund order 10391"
    assert joined(["Refund order 1", "Refund order 2", "Pay 5"]) == "Refund order 1 and 2 more"
    assert len(joined(["x" * 80] * 1000)) <= MAX_TITLE


@pytest.mark.parametrize("dialect", ["hitl", "breakpoint", "execution", "raw"])
@given(
    st.text(max_size=30),
    st.dictionaries(st.sampled_from(["path", "query", "to", "next", "x\u202e"]), st.text() | st.lists(st.text())),
)
@settings(max_examples=30, deadline=None)
def test_titles_are_one_short_visible_line(dialect: str, name: str, args: dict[str, Any]) -> None:
    for tool in (name, "write_file", "run_sql", "send_email"):
        line, below = title(tool, args, dialect=dialect), summary(tool, args)
        assert 0 < len(line) <= MAX_TITLE
        assert len(below) <= MAX_SUMMARY
        for text in (line, below):
            assert find_hidden(text) == [] and "\n" not in text
            text.encode()


def test_hidden_characters_in_a_title_are_spelled() -> None:
    assert call_title("write_file", {"path": "a\u202egpj.exe"}) == "Write a[U+202E]gpj.exe"
    assert humanised('"><svg onload=x>') == '"><svg onload=x>'
    assert humanised("\u200b") == "[U+200B]"


def test_a_summary_lists_the_arguments() -> None:
    args = {"order_id": 10482, "amount": 129.0, "method": "card", "tags": ["a"], "urgent": True, "memo": None}
    assert summary("issue_refund", args) == (
        "order_id: 10482, amount: 129.0, method: card, tags: 1 entry, urgent: true, memo: null"
    )
    assert summary("run_sql", {"query": "SELECT 1\nFROM t"}) == "SELECT 1 FROM t"
    assert summary("ask_user", {"question": "Which?"}) == "“Which?”"
    assert summary("refresh", {}) == "without arguments"
    assert len(summary("write", {"text": "é" * 2_000_000})) <= MAX_SUMMARY
