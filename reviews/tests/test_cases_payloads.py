"""HC-01 and HC-02: whatever an agent asks with, people can read it, and it is answered in its own dialect."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.urls import reverse

from agents.outcome import NotCanonical
from reviews.tests.cases.builders import FIELD_CASES, PAYLOADS, value_of
from reviews.tests.cast import Cast, ask, file_outcome, new_thread
from reviews.tests.door import Desk, Visitor, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

# How each of HC-01's values stands on the page. A text is shown as it is, and an empty one as what it is.
SHOWN = ("Ship build 42 to staging?", '["alpha", "beta"]', "null", "false", "0", '""', '["eu", "us"]')
VALUES = list(zip(FIELD_CASES["HC-01"]["input"]["interrupt_values"], SHOWN, strict=True))


# --------------------------------------------------------------------------------------------- HC-01: any value at all


@pytest.mark.parametrize(("value", "words"), VALUES, ids=SHOWN)
def test_any_value_is_one_question_that_takes_a_free_answer_only(desk: Desk, value: Any, words: str) -> None:
    row = desk.asks(value)
    assert waiting(row.thread) == [row]
    assert (row.dialect, type(row.value), row.value) == ("raw", type(value), value)
    assert "1 open question" in desk.ann.open(reverse("reviews:inbox"))

    page = desk.ann.open(row)
    assert page.status == 200
    assert words in page
    assert "[object Object]" not in page
    assert page.offers == {"respond"}

    for forged in ("approve", "edit", "reject"):
        assert desk.ann.forge(page, "respond", decision=forged).status == 422
    desk.assert_untouched(row)

    assert desk.ann.press(page, "respond", result="eu-1").status == 303
    desk.work()
    assert desk.resumes == [{row.interrupt_id: "eu-1"}]
    assert desk.answer_to(row) == "eu-1"


def test_json_is_handed_over_parsed_and_broken_json_not_at_all(desk: Desk) -> None:
    row = desk.asks(["alpha", "beta"])
    page = desk.ann.open(row)

    broken = desk.ann.press(page, "respond", result='{"ok": tru', mode="json")
    assert broken.status == 422
    assert "This is not JSON" in broken
    assert broken.typed("result") == '{"ok": tru'
    desk.assert_untouched(row)

    assert desk.ann.press(broken, "respond", result='{"ok": true}', mode="json").status == 303
    desk.work()
    assert desk.resumes == [{row.interrupt_id: {"ok": True}}]
    assert desk.answer_to(row) == {"ok": True}


@pytest.mark.django_db(transaction=False)
@pytest.mark.parametrize("value", ["**bold** and [a](https://example.test)", "- a\n- b", "1\\_000", "&amp; &lt;b&gt;"])
def test_a_text_that_markup_would_change_can_be_read_as_it_came(cast: Cast, value: str) -> None:
    (row,) = file_outcome(cast.thread, ask(value))
    assert value in Visitor(cast.ann).open(row)


# ------------------------------------------------------------------------------------------------- HC-02: the dialects

MAIL = FIELD_CASES["HC-02"]["input"]
QA = {"to": "qa@example.test"}
EDITS = {
    "js": {"decisions": [{"type": "edit", "editedAction": {"name": "send_mail", "args": QA}}]},
    "agent_inbox": [{"type": "edit", "args": {"action": "send_mail", "args": QA}}],
    "early_python": {"decisions": [{"type": "edit", "edited_action": {"name": "send_mail", "arguments": QA}}]},
}
OFFERED = {"js": {"approve"}, "agent_inbox": {"approve", "reject"}, "early_python": {"approve"}}


@pytest.mark.parametrize("name", MAIL)
def test_an_edit_goes_back_in_the_dialect_of_the_request(desk: Desk, name: str) -> None:
    row = desk.asks(MAIL[name])
    action = row.actions.get()
    assert (action.name, action.args) == ("send_mail", {"to": "ops@example.test"})

    page = desk.ann.open(row)
    assert page.offers == OFFERED[name]
    assert "send_mail" in page
    changed = desk.ann.press(page, "approve", to="qa@example.test")
    assert changed.status == 422
    assert changed.offers - {"reject"} == {"edit"}
    assert desk.ann.press(changed, "edit").status == 303
    desk.work()

    assert desk.resumes == [{row.interrupt_id: EDITS[name]}]
    assert desk.answer_to(row) == EDITS[name]


@pytest.mark.parametrize(
    ("verb", "sent"),
    [("approve", [{"type": "accept", "args": None}]), ("reject", [{"type": "ignore", "args": None}])],
)
def test_agent_inbox_is_answered_in_its_old_words(desk: Desk, verb: str, sent: Any) -> None:
    row = desk.asks(MAIL["agent_inbox"])
    page = desk.ann.open(row)
    assert "Ignore" in page
    assert "Outgoing mail" in page
    assert desk.ann.press(page, verb).status == 303
    desk.work()
    assert desk.answer_to(row) == sent


# ----------------------------------------------------------------------------------------- every payload has its pages


@pytest.mark.django_db(transaction=False)
def test_the_odd_payloads_of_the_field_can_be_looked_at(cast: Cast) -> None:
    """Each has a page of bounded size and a download; what breaks its dialect's rules is shown raw, without a verb."""
    ann = Visitor(cast.ann)
    odd = {name: payload for name, payload in PAYLOADS.items() if name.startswith(("hostile_", "raw_"))}
    del odd["hostile_1000_actions"]  # it takes seconds, and its reading is tested without a page
    for name, payload in odd.items():
        kind = payload.get("kind", "interrupt")
        with suppress(NotCanonical):  # no checkpoint holds it: the runner files what can be said of it
            asked = ask(value_of(payload), response_schema=payload["response_schema"], kind=kind)
            (row,) = file_outcome(new_thread(name), asked)
            page = ann.open(row)
            assert (name, page.status, len(page.html) < 1_000_000) == (name, 200, True)
            assert (name, bool(row.held_code), page.offers and "held") == (
                (name, False, "held") if payload["expect"]["ok"] else (name, True, set())
            )
            assert ann.open(reverse("reviews:download", args=[row.pk]), action=1).status == 200
    for place in ("inbox", "threads"):
        answer = ann.open(reverse(f"reviews:{place}"))
        assert (answer.status, len(answer.html) < 1_000_000) == (200, True)
