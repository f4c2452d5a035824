"""Each kind of pause through each verdict that it allows, by real clicks; then what the tool really received."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from reviews.tests.browser.people import SOON, Person

REFUND = {"order_id": 10482, "amount": 129.0, "method": "original_card", "note": "Shade broken."}
MAIL = {
    "recipient": "tom.abel@example.test",
    "subject": "Your order 10490",
    "body": "Hello,\n\nthe replacement is on its way.\n\nKind regards\nSupport",
    "copies": ["stock@example.test"],
    "urgent": True,
}


def see_said(person: Person, *words: str) -> None:
    """Find each of these texts in the conversation."""
    for text in words:
        expect(person.page.locator("#talk")).to_contain_text(text)


# ------------------------------------------------------------------------------------------------------------- one call


@pytest.fixture
def refund(ann: Person) -> str:
    """A thread that waits with one question: issue_refund, 129 EUR."""
    thread = ann.start("support", "Refund order 10482. The customer wrote: Shade broken.")
    ann.take_up(thread)
    return thread


def test_a_refund_is_approved(ann: Person, refund: str) -> None:
    ann.press("Run as asked")
    ann.see_recorded("approved")
    ann.watch(refund)
    assert ann.desk.effects(refund) == [("refund", REFUND)]


def test_a_refund_is_edited(ann: Person, refund: str) -> None:
    ann.change("amount", "99.5")
    ann.change("method", "voucher")
    ann.press("Run with my changes")
    ann.see_recorded("changed and approved")
    ann.watch(refund)
    see_said(ann, "99.50 EUR")
    assert ann.desk.effects(refund) == [("refund", REFUND | {"amount": 99.5, "method": "voucher"})]


def test_a_refund_is_rejected_with_feedback(ann: Person, refund: str) -> None:
    ann.box("Reject with feedback").get_by_role("textbox").fill("Repair comes first.")
    ann.press("Reject and tell Support why")
    ann.see_recorded("rejected")
    ann.watch(refund)
    see_said(ann, "I leave out the refund", "Repair comes first.")
    assert ann.desk.effects(refund) == []


def test_a_refund_is_answered_in_the_tools_place(ann: Person, refund: str) -> None:
    ann.box("Respond in its place").get_by_role("textbox").fill("Paid by hand, receipt 4711.")
    ann.press("Give this as the result")
    ann.see_recorded("answered")
    ann.watch(refund)
    see_said(ann, "a colleague answered: Paid by hand, receipt 4711.")
    assert ann.desk.effects(refund) == []


@pytest.mark.parametrize("verdict", ["approve", "edit", "reject", "respond"])
def test_an_email_meets_each_verdict(ann: Person, verdict: str) -> None:
    news = "that the replacement is on its way. Copy to stock@example.test, urgent."
    thread = ann.start("support", f"Tell the customer of order 10490 {news}")
    ann.take_up(thread)
    match verdict:
        case "approve":
            ann.press("Run as asked")
        case "edit":
            ann.change("copies", '["stock@example.test", "qa@example.test"]')
            ann.change("urgent", "false")
            ann.press("Run with my changes")
        case "reject":
            ann.box("Reject with feedback").get_by_role("textbox").fill("Too short.")
            ann.press("Reject and tell Support why")
        case "respond":
            ann.box("Respond in its place").get_by_role("textbox").fill("I wrote to him.")
            ann.press("Give this as the result")
    ann.see_recorded()
    ann.watch(thread)
    sent = {
        "approve": [("email", MAIL)],
        "edit": [("email", MAIL | {"copies": ["stock@example.test", "qa@example.test"], "urgent": False})],
    }
    assert ann.desk.effects(thread) == sent.get(verdict, [])


# ------------------------------------------------------------------------------------------ several calls, one decision

CARTS = "updated_at < '2026-09-01' AND order_id IS NULL"
DELETE = ("sql", {"statement": "DELETE FROM carts WHERE " + CARTS})  # noqa: S608
COUNT = ("sql", {"statement": "SELECT count(*) FROM carts WHERE " + CARTS})  # noqa: S608
CREATE = ("sql", {"statement": "CREATE TABLE IF NOT EXISTS cleanups (day text, what text)"})
LOG = ("file", {"path": "log/carts.md", "overwrite": True, "content": "Clean-up proposed.\n"})
REPORT = {
    "path": "/srv/reports/carts.md",
    "overwrite": True,
    "content": "# Stale carts\n\n- Carts older than 90 days are deleted\n- Next clean-up: 1 March 2027\n",
}


@pytest.fixture
def batch(ann: Person) -> str:
    """A thread that waits with one question of three calls; three more run by themselves."""
    thread = ann.start("operations", "Clean up the stale carts, and leave a note in the reports.")
    ann.take_up(thread)
    return thread


def mark(person: Person, number: int, verb: str) -> None:
    """Press one of the marking buttons on action ``number``, and see that the page took note."""
    expect(person.page.get_by_role("heading", name=re.compile(f"^Action {number} of 3"))).to_be_visible()
    person.press(f"Mark: {verb}")
    expect(person.page.get_by_text(f"{number} of 3 decided")).to_be_visible()


def submit(person: Person, thread: str) -> set[tuple[str, str]]:
    person.press("Submit 3 decisions")
    person.see_recorded("3 decisions")
    person.watch(thread)
    return as_set(person.desk.effects(thread))


def as_set(effects: list[tuple[str, dict[str, Any]]]) -> set[tuple[str, str]]:
    """Tools of one turn run side by side: their order says nothing. Twice the same is not lost."""
    found = [(kind, str(sorted(args.items()))) for kind, args in effects]
    assert len(set(found)) == len(found), found
    return set(found)


def test_a_batch_is_approved_as_a_whole(ann: Person, batch: str) -> None:
    for number in (1, 2, 3):
        mark(ann, number, "run as asked")
    assert submit(ann, batch) == as_set([DELETE, COUNT, CREATE, LOG, ("file", REPORT)])


def test_a_batch_is_decided_call_by_call(ann: Person, batch: str) -> None:
    ann.box("Reject with feedback").get_by_role("textbox").fill("Not before the audit.")
    mark(ann, 1, "reject with this")
    ann.change("path", "/srv/reports/today.md")
    mark(ann, 2, "run with my change")
    mark(ann, 3, "run as asked")
    edited = ("file", REPORT | {"path": "/srv/reports/today.md"})
    assert submit(ann, batch) == as_set([COUNT, CREATE, LOG, edited])
    see_said(ann, "Not before the audit.")


def test_a_batch_is_rejected_and_nothing_of_it_runs(ann: Person, batch: str) -> None:
    submit_button = ann.page.get_by_role("button", name="Submit 3 decisions")
    for number in (1, 2, 3):
        expect(submit_button).to_have_attribute("aria-disabled", "true")
        ann.box("Reject with feedback").get_by_role("textbox").fill(f"No to {number}.")
        mark(ann, number, "reject with this")
    assert submit(ann, batch) == as_set([COUNT, LOG])


# -------------------------------------------------------------------------------------- several questions, call by call


def question(person: Person, words: str) -> Locator:
    """Return one of several open questions on the page, by words that stand on it."""
    return person.page.locator("[id^=interrupt-]:has(form)").filter(has_text=words)


@pytest.fixture
def calls(ann: Person) -> str:
    thread = ann.start("operations-per-call", "Archive the payments of last year.")
    ann.take_up(thread)
    expect(ann.page.get_by_text("3 questions of one pause")).to_be_visible()
    return thread


def test_calls_are_decided_one_by_one(ann: Person, calls: str) -> None:
    ann.press("Run as asked", within=question(ann, "CREATE TABLE archive"))
    ann.see_recorded("approved")
    rejected = question(ann, "DELETE FROM payments")
    ann.box("Reject with feedback", within=rejected).get_by_role("textbox").fill("Keep them.")
    ann.press(re.compile("^Reject and tell"), within=rejected)
    ann.see_recorded("rejected")
    ann.change("content", "Archived: 2025, by Ann.\n", within=question(ann, "write_file"))
    ann.press("Run with my change", within=question(ann, "write_file"))
    ann.see_recorded("changed and approved")
    ann.watch(calls)
    archive = "CREATE TABLE archive AS SELECT * FROM payments WHERE day < '2026-01-01'"
    report = {"path": "../reports/payments.md", "overwrite": True, "content": "Archived: 2025, by Ann.\n"}
    assert as_set(ann.desk.effects(calls)) == as_set([("sql", {"statement": archive}), ("file", report)])


def test_calls_are_all_rejected(ann: Person, calls: str) -> None:
    for left in (3, 2, 1):
        forms = ann.page.locator("[id^=interrupt-]:has(form)").filter(has_text="as asked")
        expect(forms).to_have_count(left)
        ann.box("Reject with feedback", within=forms.first).get_by_role("textbox").fill("Not today.")
        ann.press(re.compile("^Reject and tell"), within=forms.first)
        ann.see_recorded("rejected")
    ann.watch(calls)
    assert ann.desk.effects(calls) == []


# ------------------------------------------------------------------------------------------------------------ questions


def answer(person: Person, text: str, *, within: Locator | None = None) -> None:
    box = person.box("Answer", within=within)
    box.get_by_label("Your answer").fill(text)
    box.get_by_role("button", name="Give this answer").click()
    person.see_recorded()


def choose(person: Person, choice: str) -> None:
    box = person.box("Answer")
    box.get_by_label(choice, exact=True).check()
    box.get_by_role("button", name="Give this answer").click()
    person.see_recorded()


def next_question(person: Person, thread: str, words: str) -> None:
    """Wait on the thread's page until it asks again, and go there."""
    page = person.open(f"/threads/{thread}/")
    link = page.locator("#talk").get_by_role("link", name="Decide")
    expect(link).to_be_visible(timeout=SOON)
    link.click()
    expect(page.get_by_text(words).first).to_be_visible()


def test_an_open_question_of_an_agent(ann: Person) -> None:
    thread = ann.start("ask-user", "Write the churn report for the fourth quarter.")
    ann.take_up(thread)
    ann.box("Respond in its place").get_by_role("textbox").fill("30 November")
    ann.press("Give this as the result")
    ann.see_recorded()
    ann.watch(thread)
    text = "Question: Which cut-off date for the churn report?\n\nAnswer: 30 November"
    assert ann.desk.effects(thread) == [("note", {"title": "Churn", "text": text})]


@pytest.mark.parametrize("choice", ["Thursday", "Something else, written below"])
def test_a_question_with_choices(ann: Person, choice: str) -> None:
    thread = ann.start("ask-user", "Plan the team lunch.")
    ann.take_up(thread)
    box = ann.box("Respond in its place")
    box.get_by_label(choice).check()
    if choice != "Thursday":
        box.get_by_role("textbox").fill("Friday, outside")
    ann.press("Give this as the result")
    ann.see_recorded()
    ann.watch(thread)
    ((kind, args),) = ann.desk.effects(thread)
    assert kind == "note"
    assert args["text"].endswith("Answer: Thursday" if choice == "Thursday" else "Answer: Friday, outside")


def test_free_questions_one_after_the_other(ann: Person) -> None:
    thread = ann.start("release", "Ship build 77.")
    ann.take_up(thread)
    answer(ann, "yes, please")
    next_question(ann, thread, "Which region gets build 77 first?")
    choose(ann, "eu")
    ann.watch(thread)
    assert ann.desk.effects(thread) == [("deployment", {"build": "build 77", "region": "eu"})]


def test_a_free_question_answered_with_no(ann: Person) -> None:
    thread = ann.start("release", "Ship build 78.")
    ann.take_up(thread)
    answer(ann, "not before Monday")
    ann.watch(thread)
    see_said(ann, "I do not ship build 78. You said: not before Monday")
    assert ann.desk.effects(thread) == []


def test_a_free_question_answered_with_json(ann: Person) -> None:
    thread = ann.start("release", "Ship build 79.")
    ann.take_up(thread)
    box = ann.box("Answer")
    box.get_by_label("JSON: a number").check()
    answer(ann, "true")
    next_question(ann, thread, "Which region gets build 79 first?")
    choose(ann, "us")
    ann.watch(thread)
    assert ann.desk.effects(thread) == [("deployment", {"build": "build 79", "region": "us"})]


def test_a_question_with_a_form(ann: Person) -> None:
    thread = ann.start("travel", "Book the trip to the autumn meeting in Oslo.")
    page = ann.take_up(thread)
    page.get_by_label("city", exact=True).select_option("Oslo")
    page.get_by_label("departure", exact=True).fill("2026-12-10")
    page.get_by_label("nights", exact=True).fill("15")
    page.get_by_label("companions", exact=True).fill('["Jo", "Mara"]')
    page.get_by_label("seat", exact=True).select_option("window")
    ann.press("Give this answer")
    expect(page.get_by_label("nights", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("nights", exact=True)).to_be_focused()
    expect(page.get_by_label("departure", exact=True)).to_have_value("2026-12-10")
    page.get_by_label("nights", exact=True).fill("3")
    ann.press("Give this answer")
    ann.see_recorded()
    ann.watch(thread)
    trip = {
        "city": "Oslo",
        "departure": "2026-12-10",
        "nights": 3,
        "budget": 900.0,
        "seat": "window",
        "companions": ["Jo", "Mara"],
        "send_itinerary": True,
        "remarks": None,
    }
    assert ann.desk.effects(thread) == [("booking", trip)]


def _answer_all_three(person: Person, agreed: str) -> None:
    answer(person, "yes", within=question(person, "Legal: may we publish this?"))
    brand = question(person, "Brand: is this our tone?")
    brand.get_by_label("agreed", exact=True).select_option(agreed)
    brand.get_by_label("remark", exact=True).fill("too loud")
    brand.get_by_role("button", name="Give this answer").click()
    person.see_recorded()
    answer(person, "yes", within=question(person, "Security: is it safe"))


def test_parallel_branches_all_agree(ann: Person) -> None:
    text = "On Monday we open at nine."
    thread = ann.start("publishing", text)
    ann.take_up(thread)
    _answer_all_three(ann, "true")
    ann.watch(thread)
    verdicts = {"legal": "agreed", "brand": "agreed", "security": "agreed"}
    assert ann.desk.effects(thread) == [("publication", {"text": text, "verdicts": verdicts})]


def test_one_of_the_parallel_branches_objects(ann: Person) -> None:
    thread = ann.start("publishing", "On Tuesday we open at ten.")
    ann.take_up(thread)
    _answer_all_three(ann, "false")
    ann.watch(thread)
    see_said(ann, "Not published: brand objected: too loud.")
    assert ann.desk.effects(thread) == []


@pytest.mark.parametrize("said", ["yes", "these are somebody else's"])
def test_a_question_from_a_subgraph(ann: Person, said: str) -> None:
    applicant = "Open an account for Mara Lind, mara.lind@example.test."
    thread = ann.start("onboarding", applicant)
    ann.take_up(thread)
    answer(ann, said)
    ann.watch(thread)
    assert ann.desk.effects(thread) == ([("account", {"applicant": applicant})] if said == "yes" else [])


def test_a_loop_asks_until_somebody_agrees(ann: Person) -> None:
    thread = ann.start("naming", "Find a name for the new shelf.")
    ann.take_up(thread)
    answer(ann, "too shiny")
    next_question(ann, thread, "Do we take Halo?")
    answer(ann, "yes")
    ann.watch(thread)
    see_said(ann, "You said: too shiny.", "Halo it is, after 2 proposals.")
    assert ann.desk.effects(thread) == [("name", {"subject": "Find a name for the new shelf.", "name": "Halo"})]


@pytest.mark.parametrize("payer", ["Sales", "Nobody"])
def test_a_question_from_inside_a_tool(ann: Person, payer: str) -> None:
    thread = ann.start("buyer", "Buy 3 lamps.")
    ann.take_up(thread)
    choose(ann, payer)
    ann.watch(thread)
    bought = ("purchase", {"item": "lamp", "quantity": 3, "total": 387.0, "payer": "Sales"})
    assert ann.desk.effects(thread) == ([bought] if payer == "Sales" else [])


# ---------------------------------------------------------------------------------------------------------- breakpoints


@pytest.mark.parametrize("verdict", ["go on", "stop"])
def test_a_breakpoint_after_a_step(ann: Person, verdict: str) -> None:
    thread = ann.start("rollout", "Roll out search 9.")
    ann.take_up(thread)
    ann.press("Run the next step" if verdict == "go on" else "Stop the agent here")
    ann.see_recorded()
    ann.watch(thread)
    one, all_of_them = ({"what": "Roll out search 9.", "machines": machines} for machines in (1, 12))
    ran = [("deployment", one), ("deployment", all_of_them)]
    assert ann.desk.effects(thread) == (ran if verdict == "go on" else ran[:1])


@pytest.mark.parametrize("verdict", ["go on", "stop"])
def test_a_breakpoint_before_the_tools(ann: Person, verdict: str) -> None:
    thread = ann.start("night-shift", "Restart the mailer.")
    ann.take_up(thread)
    if verdict == "stop":
        ann.box("Stop the agent here").get_by_role("textbox").fill("It only looks dead.")
    ann.press("Run the next step" if verdict == "go on" else "Stop the agent here")
    ann.see_recorded()
    ann.watch(thread)
    restarted = ("restart", {"service": "mailer", "grace_seconds": 10})
    assert ann.desk.effects(thread) == ([restarted] if verdict == "go on" else [])


# ---------------------------------------------------------------------------------------------------- the same id again


def test_three_calls_that_bear_the_same_id(ann: Person) -> None:
    thread = ann.start("mailroom", "Sort the post of today.")
    ann.take_up(thread)
    ann.press("Run as asked")
    ann.see_recorded("approved")
    next_question(ann, thread, "Warning from a lawyer")
    ann.box("Reject with feedback").get_by_role("textbox").fill("I take it myself.")
    ann.press("Reject and tell Mail room why")
    ann.see_recorded("rejected")
    next_question(ann, thread, "Price list of a supplier")
    ann.change("department", "accounts")
    ann.press("Run with my change")
    ann.see_recorded("changed and approved")
    ann.watch(thread)
    letters = [("Invoice of the carrier, November", "accounts"), ("Price list of a supplier", "accounts")]
    assert ann.desk.effects(thread) == [
        ("letter", {"letter": letter, "department": department, "registered": False}) for letter, department in letters
    ]
