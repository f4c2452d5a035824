"""HC-07, HC-09 and HC-10: no digit and no type is lost between the agent, the page and the tool."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from django.urls import reverse
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from agents.outcome import canonical_bytes
from agents.testing import Plan, ScriptedChatModel, Turn
from agents.tests import graphs
from agents.tests.graphs import turns
from reviews import audit
from reviews.decisions import Invalid
from reviews.dialects import Verdict, call_digest
from reviews.models import Interrupt
from reviews.tests.cases.builders import FIELD_CASES, evaluated
from reviews.tests.cast import decide
from reviews.tests.door import Desk, entries, own, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


def recording(desk: Desk, name: str) -> Any:
    """A tool of any arguments, which records what it really got."""

    @tool(name, args_schema={"type": "object", "properties": {}, "additionalProperties": True})
    def record(**args: Any) -> str:
        """Take anything."""
        desk.ran.append((name, args))
        return "taken"

    return record


def proposed(desk: Desk, name: str, args: dict[str, Any]) -> Interrupt:
    return desk.ask(text=turns([(name, args)]), extra=[recording(desk, name)], policy={name: True})


def proposing_always(desk: Desk, name: str, args: dict[str, Any]) -> graphs.Graph:
    """An agent that proposes this one call whatever is said, so that no message has to hold its arguments."""

    def script(messages: Sequence[BaseMessage]) -> Turn:
        asked_before = any(isinstance(message, AIMessage) for message in messages)
        return Turn("done") if asked_before else Turn("so be it", (Plan(name, args),))

    gate: AgentMiddleware[Any, Any, Any] = HumanInTheLoopMiddleware({name: True})
    return create_agent(ScriptedChatModel(script=script), [recording(desk, name)], middleware=[gate])


def written(value: Any) -> str:
    """Write a value so that 1, 1.0, True and "1" differ, in a fixed order."""
    return json.dumps(value, sort_keys=True)


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not strict JSON")


# ------------------------------------------------------------------------------------------------ HC-07: whole numbers

NUMBERS = FIELD_CASES["HC-07"]["input"]["args"] | {"text": "1", "one": 1}


@pytest.mark.parametrize("tab", ["fields", "json"])
def test_untouched_numbers_reach_the_tool_to_the_digit(desk: Desk, tab: str) -> None:
    row = proposed(desk, "transfer", NUMBERS)
    page = desk.ann.open(row, raw=int(tab == "json"))
    for number in ("9007199254740993", "2512292042121000001", "18446744073709551615", "-9223372036854775808", "1.0"):
        assert number in page
    typed: dict[str, Any] = {"note": "y"} if tab == "fields" else {"json": page.typed("json").replace('"x"', '"y"')}
    assert desk.ann.press(desk.ann.press(page, "approve", **typed), "edit").status == 303
    desk.work()
    ((_, args),) = desk.ran
    assert written(args) == written({**NUMBERS, "note": "y"})


def test_one_type_for_another_is_a_change(desk: Desk) -> None:
    """1, 1.0 and "1" are three values: each of them typed for another is shown as a change of type, and kept apart."""
    row = proposed(desk, "transfer", {"one": 1, "float": 1.0, "text": "1"})
    page = desk.ann.open(row, raw=1)
    swapped = {"one": "1", "float": 1, "text": 1.0}
    first = desk.ann.press(desk.ann.press(page, "approve", json=json.dumps(swapped)), "edit")
    assert "one changes from whole number to text" in first
    assert "text changes from text to number" in first
    assert desk.ann.press(first, "edit", sure="1").status == 303
    desk.work()
    assert written(desk.ran[0][1]) == written(swapped)


TEXTS = {
    "crlf": "a\r\nb\r\n",
    "cr": "a\rb",
    "mixed": "a\r\nb\nc\rd",
    "leading": "\n\n  two lines above",
    "trailing": "blank behind \t\n",
    "separators": "a\u2028b\u2029c\x85d",
    "nul": "a\x00b",
    "bidi": "a\u202eb",
    "arabic": "مرحبا",
    "family": "👨\u200d👩\u200d👧",
    "null": "null",
    "number": "007",
    "empty": "",
    "quotes": "\"'`<&amp;>\\",
    "decomposed": "e\u0301",
}
ODD_NAMES = ("", "a b", "é", "__all__", "decision", "x\ny", "digest", "a.b[0]", "csrfmiddlewaretoken")
NAMES: dict[str, Any] = {name: number for number, name in enumerate(ODD_NAMES)}


@pytest.mark.parametrize("asked", [TEXTS, NAMES], ids=["texts", "names"])
def test_what_a_browser_would_change_on_its_way_is_not_changed(desk: Desk, asked: dict[str, Any]) -> None:
    """Line ends, control characters and odd names: approved they run as asked, and an edit leaves the others alone."""
    args = asked | {"note": "x"}
    row = proposed(desk, "transfer", args)
    assert desk.ann.press(desk.ann.open(row), "approve").status == 303
    desk.work()
    assert written(desk.ran.pop()[1]) == written(args)

    (row,) = waiting(desk.say(turns([("transfer", args)])))
    page = desk.ann.press(desk.ann.open(row), "approve", note="y")
    assert desk.ann.press(page, "edit").status == 303
    desk.work()
    assert written(desk.ran.pop()[1]) == written(args | {"note": "y"})


def test_a_number_that_no_checkpoint_holds_ends_the_run_in_words(desk: Desk) -> None:
    desk.give(extra=[recording(desk, "transfer")], policy={"transfer": True})
    thread = desk.say(turns([("transfer", {"account": 2**70})]))
    run = thread.runs.get()
    assert (run.status, thread.status) == ("error", "error")
    assert "64 bits" in run.error
    assert waiting(thread) == []
    assert not Interrupt.objects.filter(thread=thread).exists()
    page = desk.ann.open(thread)
    assert "Numbers may have at most 64 bits" in page
    assert "Traceback" not in page


# -------------------------------------------------------------------------------------------------- HC-09: odd numbers

ODD = evaluated(FIELD_CASES["HC-09"]["input"]["args_py"])
TYPED = [evaluated(text) for text in FIELD_CASES["HC-09"]["input"]["reviewer_json_py"]]
REASONS = ["out of range", "not a number", "Repeated key", "Too many digits", "Too deep"]


def test_nan_and_infinity_are_shown_with_a_mark_and_run_as_they_are(desk: Desk) -> None:
    row = proposed(desk, "score", ODD)
    thread = reverse("reviews:thread", args=[row.thread_id])
    for place in (reverse("reviews:inbox"), reverse("reviews:interrupt", args=[row.pk]), thread):
        assert desk.ann.open(place).status == 200
    page = desk.ann.open(row)
    assert "NaN" in page
    assert "Infinity" in page
    assert '<span class="cp" title="a number that JSON cannot hold">NaN</span>' in page.html
    assert "JSON cannot hold this value exactly" in page
    download = desk.ann.open(reverse("reviews:download", args=[row.pk]), action=1).response.content
    json.loads(download, parse_constant=no_constant)
    stream = desk.ann.open(reverse("reviews:events", args=[row.thread_id])).response.content
    json.loads(stream, parse_constant=no_constant)

    assert desk.ann.press(page, "approve").status == 303
    desk.work()
    ((_, args),) = desk.ran
    assert math.isnan(args["score"])
    assert (args["cap"], args["ok"]) == (math.inf, 1)
    assert row.actions.get().effect == "executed"
    for entry in entries("decision recorded") + entries("interrupt applied"):
        json.loads(entry.body, parse_constant=no_constant)
        assert desk.aude.open(reverse("reviews:entry", args=[entry.seq])).status == 200
    assert desk.aude.open(reverse("reviews:audit")).status == 200
    assert desk.ann.open(row).status == desk.ann.open(thread).status == 200
    assert audit.verify() == []


def test_an_edit_beside_them_leaves_them_alone(desk: Desk) -> None:
    row = proposed(desk, "score", ODD)
    page = desk.ann.press(desk.ann.open(row), "approve", ok="2")
    assert desk.ann.press(page, "edit").status == 303
    desk.work()
    assert canonical_bytes(desk.ran[0][1]) == canonical_bytes(ODD | {"ok": 2})


def test_typed_json_that_cannot_be_kept_is_refused_with_its_reason(desk: Desk, caplog: Any) -> None:
    row = proposed(desk, "score", {"cap": 1.5})
    page = desk.ann.open(row, raw=1)
    for text, reason in zip(TYPED, REASONS, strict=True):
        for button in ("approve", "edit"):
            answer = desk.ann.forge(page, "approve", decision=button, **{own(row, "json"): text})
            assert answer.status == 422, reason
            assert reason in answer
    desk.assert_untouched(row)
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_a_number_typed_into_its_field_is_held_to_the_same(desk: Desk) -> None:
    row = proposed(desk, "score", {"cap": 1.5})
    page = desk.ann.open(row)
    for typed, reason in (("NaN", "not a number"), ("1e400", "out of range"), ("0x1", "0x1 is not a number")):
        answer = desk.ann.press(page, "approve", cap=typed)
        assert answer.status == 422
        assert reason in answer
    desk.assert_untouched(row)


# -------------------------------------------------------------------------------------------- HC-10: objects of Python

THINGS = evaluated(FIELD_CASES["HC-10"]["input"]["value_py"])


def test_objects_are_shown_with_their_parts_and_types_and_stay_untouched(desk: Desk) -> None:
    row = desk.asks(THINGS)
    stored = canonical_bytes(desk.state(row.thread).interrupts[0].value)
    page = desk.ann.open(row)
    for words in ("1.10", "X1", "2026-01-02T03:04:05+00:00", "2026-01-02", "00000000-0000-0000-0000-000000000001"):
        assert words in page
    for words in ("2 bytes", "00ff", "set", "red", "int key", "tuple key"):
        assert words in page
    assert "whole number as a key" in page
    for place in (row, reverse("reviews:thread", args=[row.thread_id]), reverse("reviews:inbox")):
        shown = desk.ann.open(place)
        assert shown.status == 200
        assert "Interrupt(" not in shown
        assert "<__main__" not in shown
    assert canonical_bytes(desk.state(row.thread).interrupts[0].value) == stored == canonical_bytes(row.value)

    assert desk.ann.press(page, "respond", result="seen").status == 303
    desk.work()
    assert desk.answer_to(row) == "seen"
    for entry in entries("interrupt filed", row) + entries("decision recorded", row):
        assert "X1" in desk.aude.open(reverse("reviews:entry", args=[entry.seq]))
    assert audit.verify() == []


def test_names_of_classes_are_kept_beside_the_value(desk: Desk) -> None:
    """After reading in strict mode objects are plain data: what they were is known from the run that asked."""
    row = desk.asks(THINGS)
    assert {path: row.types.get(path) for path in ("/order", "/point", "/state")} == {
        "/order": "Order",
        "/point": "Point",
        "/state": "Color",
    }
    assert "Order" in desk.ann.open(row)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_half_a_character_is_said_and_what_is_shown_is_what_runs(desk: Desk, mode: str) -> None:
    """LangGraph's serializer makes a question mark of it: nothing of ours can bring it back, so nobody is deceived."""
    half = {"type": "hitl-like", "memo": "a\ud800b"}
    row = desk.asks(half)
    assert (row.value["memo"], row.types["/memo"].startswith("text with half a character")) == ("a?b", True)
    assert "/memo was text with half a character (a lone surrogate)" in desk.ann.open(row)

    paid = desk.ask(text=turns([("pay", {"amount": 1, "memo": "a\ud800b"})]), mode=mode)
    page = desk.ann.open(paid)
    assert paid.actions.get().args == {"amount": 1, "memo": "a?b"}
    assert desk.ann.press(page, "approve").status == 303
    desk.work()
    assert desk.ran == [("pay", {"amount": 1, "memo": "a?b"})]
    action = paid.actions.get()
    assert (action.effect, action.differs, action.executed["args"]) == ("executed", False, {"amount": 1, "memo": "a?b"})


def test_an_edit_with_half_a_character_is_refused_in_words(desk: Desk) -> None:
    row = desk.ask(text=turns([("pay", {"amount": 1, "memo": "ab"})]))
    page = desk.ann.open(row, raw=1)
    answer = desk.ann.press(page, "approve", json='{"amount": 1, "memo": "a\\ud800b"}')
    assert (answer.status, "\\ud800 is half a character" in answer) == (422, True)
    verdict = Verdict("edit", args={"amount": 1, "memo": "a\ud800b"})  # past the form
    with pytest.raises(Invalid) as refused:
        decide(desk.cast.ann, row, verdict)
    assert [problem.code for problem in refused.value.problems] == ["invalid_unicode"]
    assert "half a character" in refused.value.problems[0].message
    desk.assert_untouched(row)


def test_two_keys_that_look_alike_never_merge(desk: Desk) -> None:
    row = desk.asks({1: "whole", "1": "text", 1.5: "number", "1.5": "text too"})
    assert {(type(key), key): value for key, value in row.value.items()} == {
        (int, 1): "whole",
        (str, "1"): "text",
        (float, 1.5): "number",
        (str, "1.5"): "text too",
    }
    page = desk.ann.open(row)
    for words in ("whole number as a key", "number as a key", '"whole"', '"text"', '"number"', '"text too"'):
        assert words.strip('"') in page


# ----------------------------------------------------------------------- B: sizes, and what cannot be understood twice


def test_five_megabytes_are_looked_at_in_part_covered_whole_and_run_whole(desk: Desk) -> None:
    huge = "A" * 3_000_000 + "\nrm -rf /srv\n" + "é" * 1_000_000
    args = {"script": huge, "note": "short"}
    row = desk.ask(lambda: proposing_always(desk, "run_script", args))
    page = desk.ann.open(row)
    assert len(page.html) < 1_000_000
    assert "5.0 MB" in page
    assert "rm -rf" not in page
    download = desk.ann.open(reverse("reviews:download", args=[row.pk]), action=1, name="script").response
    assert download.content.decode() == huge
    assert row.actions.get().digest in page.html
    assert row.actions.get().digest == call_digest("run_script", args)
    assert desk.ann.press(page, "approve").status == 303
    desk.work()
    assert desk.ran == [("run_script", args)]
    (entry,) = entries("decision recorded", row)
    assert json.loads(entry.body)["calls"][0]["shown"] == json.loads(entry.body)["calls"][0]["decided"]
    for place in (row, row.thread, reverse("reviews:entry", args=[entry.seq])):
        assert len(desk.root.open(place).html) < 1_000_000


def test_a_form_that_says_two_things_is_refused(desk: Desk) -> None:
    """From a client that is no browser: the same key twice in a JSON text, the same field twice in a form."""
    row = desk.ask(text=graphs.turns([("pay", {"amount": 10})]))
    page = desk.ann.open(row)
    text = {own(row, "raw"): "1", own(row, "json"): '{"amount": 10, "amount": 9999}'}
    in_json = desk.ann.forge(page, "approve", decision="edit", **text)
    assert (in_json.status, "Repeated key amount" in in_json) == (422, True)
    for name, texts in {own(row, "amount", argument=True): ["10", "9999"], "decision": ["reject", "approve"]}.items():
        assert desk.ann.forge(page, "approve", **{name: texts}).status == 400
    desk.assert_untouched(row)
