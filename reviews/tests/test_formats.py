"""Formats of JSON Schema: what people type has them, and what the agent gave is left alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connections

from agents.catalog import travel
from reviews import formats
from reviews.models import Decision
from reviews.schema_forms import answer_form, build, raw_form
from reviews.tests.cases.builders import hitl
from reviews.tests.door import Desk

GOOD = {
    "date": ["2027-05-31", "2028-02-29"],
    "date-time": [
        "2027-05-31T14:30:00Z",
        "2027-05-31T14:30:00.123456789+02:00",
        "2027-05-31 14:30",
        "2016-12-31T23:59:60Z",
    ],
    "time": ["14:30:00", "14:30Z", "00:00:00.5+01:00"],
    "duration": ["P3DT4H", "PT0.5S", "P2W"],
    "email": ["ann@example.org", "ann+box@mail.example.co"],
    "hostname": ["www.example.org", "localhost", "a-1"],
    "ipv4": ["192.0.2.1"],
    "ipv6": ["2001:db8::1", "::"],
    "uri": ["https://example.org/a?b=c#d", "mailto:ann@example.org", "urn:isbn:1"],
    "uri-reference": ["/page", "page?x=1", "https://example.org"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "no-such-format": ["anything", ""],
}
BAD = {
    "date": [
        "2027-13-01",
        "2027-02-29",
        "31.05.2027",
        "2027-5-1",
        "",
        "2027-05-31T00:00:00",
        "２０２７-05-31",
    ],
    "date-time": ["2027-05-31", "2027-05-31T25:00:00Z", "2027-02-30T10:00:00Z", "now", "2027-05-31T14:30:00+2"],
    "time": ["25:00", "2 pm", "14", "14:60"],
    "duration": ["P", "3 days", "PT", "P1H"],
    "email": ["ann", "ann@", "@example.org", "ann@example.org, ben@example.org", "a b@example.org"],
    "hostname": ["-a", "a_b.org", "a..b", "x" * 64, "a b"],
    "ipv4": ["1.2.3", "256.1.1.1", "1.2.3.4/8"],
    "ipv6": ["2001:db8", "1.2.3.4"],
    "uri": ["example.org", "https://exa mple.org", "/page", "http:"],
    "uri-reference": ["a page", "<x>"],
    "uuid": ["123e4567", "123e4567e89b12d3a456426614174000"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_what_has_a_format(name: str, text: str) -> None:
    assert formats.fits(name, text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_has_not(name: str, text: str) -> None:
    assert not formats.fits(name, text)
    example = re.search(r"such as (\S+)$", formats.words_of(name))
    assert example is not None
    assert formats.fits(name, example[1])


DAY: dict[str, Any] = {"type": "string", "format": "date"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "day": DAY,
        "to": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
        "stops": {"type": "array", "items": {"type": "object", "properties": {"day": DAY}}},
        "nights": {"type": "integer"},
    },
}
ASKED = {"day": "soon", "to": "ann@example.org", "stops": [{"day": "later"}, {"day": "2027-01-01"}], "nights": 2}


def posted(**typed: str) -> Any:
    fields = {"a-day": "soon", "a-to": "ann@example.org", "a-nights": "2"}
    fields["a-stops"] = str(build(ASKED, schema=SCHEMA, prefix="a")["stops"].value())
    return build(ASKED, schema=SCHEMA, prefix="a", data=fields | {f"a-{name}": text for name, text in typed.items()})


def test_a_typed_value_has_its_format_or_says_so_at_its_field() -> None:
    form = posted(day="31.05.2027", to="ann")
    assert not form.is_valid()
    assert form.errors["day"] == ["31.05.2027 is not a date, such as 2027-05-31."]
    assert form.errors["to"] == ["ann is not an e-mail address, such as ann@example.org."]
    assert posted(day="2027-05-31", to="ben@example.org").is_valid()


def test_a_value_of_the_agent_is_only_told() -> None:
    form = posted(nights="3")
    assert form.is_valid()
    assert form.edited == ASKED | {"nights": 3}
    told = [problem.message for problem in form.asked_problems]
    assert told == ["soon is not a date, such as 2027-05-31.", "[0].day: later is not a date, such as 2027-05-31."]


def test_inside_a_changed_value_only_what_is_new_is_held() -> None:
    kept = posted(stops='[{"day": "later"}, {"day": "2027-02-02"}]')
    assert kept.is_valid()
    wrong = posted(stops='[{"day": "later"}, {"day": "2027-02-30"}]')
    assert wrong.errors["stops"] == ["[1].day: 2027-02-30 is not a date, such as 2027-05-31."]


def test_raw_json_is_held_too() -> None:
    wrong = raw_form({"day": "soon", "nights": 1}, schema=SCHEMA, text='{"day": "sooner", "nights": 1}')
    assert wrong.wrong == {"day": ["sooner is not a date, such as 2027-05-31."]}
    assert raw_form({"day": "soon", "nights": 1}, schema=SCHEMA, text='{"day": "soon", "nights": 2}').is_valid()


def test_an_answer_by_a_schema_is_all_typed() -> None:
    form = answer_form({"type": "string", "format": "date"}, data={"a-answer": "2027-02-30"}, prefix="a")
    assert not form.is_valid()


# ------------------------------------------------------------------------------------------------- through the door


@pytest.mark.django_db(transaction=True)
def test_a_wrong_date_never_reaches_the_travel_agent(desk: Desk) -> None:
    row = desk.ask(travel.build)
    page = desk.ann.open(row)
    trip: dict[str, Any] = {"city": "Oslo", "nights": "2"}
    wrong = desk.ann.press(page, "respond", **trip, departure="2027-02-30")
    assert wrong.status == 422
    assert "2027-02-30 is not a date, such as 2027-05-31." in wrong
    assert wrong.typed("departure") == "2027-02-30"
    desk.assert_untouched(row)

    assert desk.ann.press(wrong, "respond", **trip, departure="2027-02-28").status == 303
    desk.work()
    row.refresh_from_db()
    assert row.status == "applied"
    connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_an_edit_is_refused_by_the_service_itself(desk: Desk) -> None:
    row = desk.asks(hitl({"day": "soon", "nights": 1}, "approve", "edit"))
    row.actions.update(schema=SCHEMA)
    page = desk.ann.open(row, raw=1)
    held = desk.ann.press(page, "approve", json='{"day": "sooner", "nights": 1}')
    assert held.status == 422
    assert "sooner is not a date" in held
    again = desk.ann.open(row)  # what was typed is kept as a draft
    assert desk.ann.press(again, "edit").status == 422
    assert not Decision.objects.exists()
    assert desk.ann.press(again, "edit", json='{"day": "soon", "nights": 3}').status == 303
    assert Decision.objects.get().args == {"day": "soon", "nights": 3}


@pytest.mark.django_db(transaction=True)
def test_the_page_tells_of_a_format_that_the_agent_broke(desk: Desk) -> None:
    row = desk.asks(hitl({"day": "soon", "nights": 1}, "approve", "edit"))
    row.actions.update(schema=SCHEMA)
    assert "As asked, it does not fit the tool’s schema: soon is not a date" in desk.ann.open(row)
    changed = desk.ann.press(desk.ann.open(row), "approve", nights="3")
    assert "As asked, it does not fit the tool’s schema: soon is not a date" in changed
    assert desk.ann.press(changed, "edit").status == 303
