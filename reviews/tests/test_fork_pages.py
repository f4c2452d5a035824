"""Time travel to act, told through the door: forks, rewinds, and going back before what was rejected."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest
from django.db import connections
from django.urls import reverse
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from agents.models import Checkpoint, CheckpointWrite, Run, Thread
from agents.tests import graphs
from reviews import forks
from reviews.models import AuditEntry, Decision, Interrupt
from reviews.tests.door import Answer, Desk, Visitor, entries, waiting
from reviews.tests.test_checkpoint_pages import PAY, asked_at, ids, paid, place

pytestmark = pytest.mark.long


def start(thread: Thread, checkpoint: str, how: str = "fork") -> str:
    return reverse(f"reviews:{how}", args=[thread.pk, checkpoint])


def go(visitor: Visitor, address: str) -> Answer:
    return visitor.press(visitor.open(address), "plain", name="go")


def new_thread_of(answer: Answer) -> Thread:
    assert answer.status == 302, answer.page.text
    return Thread.objects.get(pk=answer.response["Location"].strip("/").split("/")[1])


def everything(thread: Thread) -> list[list[tuple[Any, ...]]]:
    """All that is stored of a thread's history, byte for byte, and of what was asked and decided in it."""
    tables = (
        Checkpoint.objects.filter(thread=thread),
        CheckpointWrite.objects.filter(thread=thread),
        Interrupt.objects.filter(thread=thread),
        Decision.objects.filter(action__interrupt__thread=thread),
        Run.objects.filter(thread=thread),
    )
    return [sorted(map(_plain, rows.values_list()), key=str) for rows in tables]


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(bytes(one) if isinstance(one, memoryview) else one for one in row)


def rejected(desk: Desk) -> Interrupt:
    row = desk.ask(text=PAY)
    desk.ann.press(desk.ann.open(row), "reject", why="Not like this.")
    desk.work()
    row.refresh_from_db()
    assert desk.paid() == []
    return row


def correct(visitor: Visitor, row: Interrupt, message: str) -> Answer:
    on = visitor.open(row)
    form = next(form for form in on.page.forms if form.action == reverse("reviews:correct", args=[row.pk]))
    return visitor.post(form.action, {**form.fields, "message": message})


# ----------------------------------------------------------------------------------------------------- corrective fork


def test_reject_go_back_approve_in_the_fork_and_the_original_is_what_it_was(desk: Desk) -> None:
    row = rejected(desk)
    before = everything(row.thread)
    answer = correct(desk.ann, row, graphs.turns([("pay", {"amount": 3})]))
    fork = new_thread_of(answer)
    assert Run.objects.get(thread=fork).status == "pending"  # at work before anybody looks
    desk.work()
    (question,) = waiting(fork)
    assert question.actions.get().args == {"amount": 3}
    desk.ben.press(desk.ben.open(question), "approve")
    desk.work()
    assert desk.paid() == [3]
    assert everything(row.thread) == before
    beside = desk.ann.open(f"{reverse('reviews:beside', args=[row.thread_id])}?b={fork.pk}")
    assert "ann rejected" in beside
    assert "ben approved" in beside
    both = desk.ann.open(f"{place(fork, ids(fork)[0])}?with={row.thread_id}:{ids(row.thread)[0]}")
    assert both.status == 200
    assert "agent call pay" in both


def test_the_rejected_proposal_is_not_in_the_fork(desk: Desk) -> None:
    row = rejected(desk)
    fork = new_thread_of(correct(desk.ann, row, "Say hello instead."))
    desk.work()
    said = [message.text for message in desk.state(fork).values["messages"]]
    assert said == [PAY, "Say hello instead.", "You said: Say hello instead."]


def test_fork_and_original_lead_to_each_other(desk: Desk) -> None:
    row = rejected(desk)
    fork = new_thread_of(correct(desk.ann, row, "Say hello instead."))
    assert reverse("reviews:thread", args=[fork.pk]) in desk.aude.open(row.thread).html
    page = desk.aude.open(fork)
    assert reverse("reviews:thread", args=[row.thread_id]) in page.html
    assert "Say hello instead." in page
    assert f"Instead of: {row.title}" in page


def test_a_corrective_message_is_its_authors_and_not_an_outsiders(desk: Desk) -> None:
    row = rejected(desk)
    fork = new_thread_of(correct(desk.ann, row, "Say hello instead."))
    desk.work()
    html = desk.aude.open(fork).html.partition('id="talk"')[2]
    hands = [part.partition("<strong>")[2].partition("<")[0] for part in html.split('class="hand"')[1:]]
    assert hands == ["olga", "ann"]
    assert 'data-from="outside"' not in html


def test_who_may_go_back_before_a_rejection(desk: Desk) -> None:
    row = rejected(desk)
    address = reverse("reviews:correct", args=[row.pk])
    assert "Go back before this" in desk.olga.open(row)
    assert "Go back before this" not in desk.aude.open(row)
    assert desk.aude.post(address, {"message": "No."}).status == 403
    assert Visitor(desk.cast.otto).post(address, {"message": "No."}).status == 404
    assert Thread.objects.filter(ancestor=row.thread).count() == 0
    new_thread_of(correct(desk.ben, row, "Say hello."))
    new_thread_of(correct(desk.olga, row, "Say goodbye."))


def test_what_was_approved_offers_no_way_back_here(desk: Desk) -> None:
    row = paid(desk)
    assert "Go back before this" not in desk.ann.open(row)
    answer = desk.ann.post(reverse("reviews:correct", args=[row.pk]), {"message": "Other."})
    assert answer.status == 302
    assert "Nothing was started" in desk.ann.open(row)
    assert not Thread.objects.filter(ancestor=row.thread).exists()


def test_the_same_correction_sent_twice_is_one_fork(desk: Desk) -> None:
    row = rejected(desk)
    fields = {"message": "Say hello.", "submit_token": "once"}
    first, again = (desk.ann.post(reverse("reviews:correct", args=[row.pk]), fields) for _ in range(2))
    assert new_thread_of(first) == new_thread_of(again)
    assert len(entries("thread forked")) == 1


# ----------------------------------------------------------------------------------------------------------------- fork


def test_a_fork_at_the_pause_asks_again_and_a_decision_of_the_original_lets_nothing_run(desk: Desk) -> None:
    row = paid(desk)
    before = everything(row.thread)
    page = desk.olga.open(start(row.thread, asked_at(row)))
    assert "Asks" in page
    fork = new_thread_of(desk.olga.press(page, "plain", name="go"))
    desk.work()
    (question,) = waiting(fork)
    assert question.interrupt_id != row.interrupt_id
    assert desk.paid() == [5]
    assert everything(row.thread) == before


def test_a_fork_has_a_name_a_note_and_an_author_and_is_in_the_log(desk: Desk) -> None:
    row = paid(desk)
    on = desk.olga.open(start(row.thread, asked_at(row)))
    form = on.page.form_with("go", "plain")
    fields = {**form.fields, "name": "Cheaper", "note": "Because of the shade", "go": "plain"}
    fork = new_thread_of(desk.olga.post(form.action, fields))
    assert (fork.title, fork.note, fork.author) == ("Cheaper", "Because of the shade", "olga")
    (entry,) = entries("thread forked")
    assert fork.pk in entry.body
    assert "shade" not in entry.body  # only committed to
    assert "Cheaper" in desk.ann.open(place(row.thread))
    assert "Because of the shade" in desk.ann.open(place(fork))


def test_edited_values_go_into_the_fork_and_a_wrong_one_is_told_at_its_field(desk: Desk) -> None:
    row = desk.asks("well?")
    desk.ann.press(desk.ann.open(row), "respond", result="yes")
    desk.work()
    address = start(row.thread, ids(row.thread)[0])
    on = desk.olga.open(f"{address}?edit=1")
    form = on.page.form_with("go", "look")
    wrong = desk.olga.post(address, {**form.fields, "v-log": "[1", "go": "look"})
    assert wrong.status == 422
    assert 'id="v-log-error"' in wrong.html
    assert wrong.typed("v-log") == "[1"
    unfit = desk.olga.post(address, {**form.fields, "v-log": "5", "go": "look"})
    assert unfit.status == 422
    looked = desk.olga.post(address, {**form.fields, "v-log": '{"kept": 1}', "go": "look"})
    assert looked.status == 200
    done = looked.page.form_with("go", "values")
    fork = new_thread_of(desk.olga.post(address, {**done.fields, "go": "values"}))
    desk.work()
    assert desk.state(fork).values["log"] == {"kept": 1}
    assert desk.state(row.thread).values["log"] == {"ask": "yes"}


def test_a_form_whose_sheet_is_not_what_is_true_now_does_nothing(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    on = desk.olga.open(start(row.thread, ids(row.thread)[1]))
    form = on.page.form_with("go", "plain")
    answer = desk.olga.post(form.action, {**form.fields, "seen-plain": "0" * 64, "go": "plain", "note": "kept"})
    assert answer.status == 409
    assert "it has changed since you looked" in answer
    assert 'value="kept"' in answer.html
    assert not Thread.objects.filter(ancestor=row.thread).exists()


def test_a_fork_where_the_call_runs_unasked_says_so_in_red(desk: Desk) -> None:
    gated = {name: how for name, how in graphs.POLICY.items() if name != "wipe"}
    row = desk.ask(text=graphs.turns([("wipe", {"path": "/x"})], [("pay", {"amount": 1})]), policy=gated)
    assert [name for name, _ in desk.ran] == ["wipe"]
    before = ids(row.thread)[-2]
    page = desk.olga.open(start(row.thread, before))
    assert "Runs again, unasked: wipe ×1" in page
    assert "Fork, and run wipe again" in page
    new_thread_of(desk.olga.press(page, "plain", name="go"))
    desk.work()
    assert [name for name, _ in desk.ran] == ["wipe", "wipe"]


# --------------------------------------------------------------------------------------------------------------- rewind


def rewind(visitor: Visitor, thread: Thread, checkpoint: str, **more: str) -> Answer:
    on = visitor.open(start(thread, checkpoint, "rewind"))
    form = on.page.form_with("go", "plain")
    return visitor.post(form.action, {**form.fields, "go": "plain", **more})


def test_a_rewind_names_what_it_hides_and_withdraws_it(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    first = ids(row.thread)[-2]
    page = desk.olga.open(start(row.thread, first, "rewind"))
    assert "Hides 1 open question" in page
    assert row.title in page
    unsure = rewind(desk.olga, row.thread, first)
    assert unsure.status == 422
    row.refresh_from_db()
    assert row.status == "open"
    answer = rewind(desk.olga, row.thread, first, sure="1")
    assert answer.status == 302
    row.refresh_from_db()
    assert (row.status, row.withdrawn_reason) == ("withdrawn", "Rewound by olga to an earlier step.")
    late = desk.ann.open(row)
    assert late.offers == set()
    assert "Rewound by olga" in late
    desk.work()
    (again,) = waiting(row.thread)
    assert again.interrupt_id != row.interrupt_id
    (entry,) = entries("thread rewound")
    assert entry.user == desk.cast.olga
    assert "branch 1" in desk.ann.open(place(row.thread)).page.text


def test_a_decision_on_a_page_from_before_the_rewind_is_refused(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    old = desk.ann.open(row)
    rewind(desk.olga, row.thread, ids(row.thread)[-2], sure="1")
    assert desk.ann.press(old, "approve").status == 409
    desk.work()
    assert desk.ann.press(old, "approve").status == 409
    desk.work()
    assert desk.paid() == []
    assert not Decision.objects.exists()


def test_a_rewind_on_a_page_from_before_the_decision_is_refused(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    on = desk.olga.open(start(row.thread, ids(row.thread)[-2], "rewind"))
    form = on.page.form_with("go", "plain")
    desk.ann.press(desk.ann.open(row), "approve")
    answer = desk.olga.post(form.action, {**form.fields, "go": "plain", "sure": "1"})
    assert answer.status == 409
    desk.work()
    assert desk.paid() == [5]
    row.refresh_from_db()
    assert row.status == "applied"
    assert not entries("thread rewound")


def test_of_a_rewind_and_a_decision_at_one_moment_exactly_one_wins(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    old = desk.ann.open(row)
    form = desk.olga.open(start(row.thread, ids(row.thread)[-2], "rewind")).page.form_with("go", "plain")
    together, got = threading.Barrier(2), {}

    def act(name: str, deed: Any) -> None:
        together.wait(timeout=60)
        try:
            got[name] = deed().status
        finally:
            connections.close_all()

    deeds = {
        "decide": lambda: desk.ann.press(old, "approve"),
        "rewind": lambda: desk.olga.post(form.action, {**form.fields, "go": "plain", "sure": "1"}),
    }
    threads = [threading.Thread(target=act, args=one) for one in deeds.items()]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=60)
    row.refresh_from_db()
    decided = Decision.objects.filter(action__interrupt=row).exists()
    assert (got["decide"] == 303) == decided == (row.status == "decided")
    assert (got["rewind"] == 302) == (not decided) == (row.status == "withdrawn")
    assert {got["decide"], got["rewind"]} in ({303, 409}, {302, 409})


def test_a_rewind_with_a_word_lets_the_agent_go_another_way(desk: Desk) -> None:
    row = desk.ask(text=PAY)
    on = desk.olga.open(start(row.thread, ids(row.thread)[-2], "rewind"))
    form = on.page.form_with("go", "message")
    empty = desk.olga.post(form.action, {**form.fields, "go": "message", "sure": "1"})
    assert empty.status == 422
    told = {**form.fields, "go": "message", "sure": "1", "message": "Say hello."}
    assert desk.olga.post(form.action, told).status == 302
    desk.work()
    assert desk.state(row.thread).values["messages"][-1].text == "You said: Say hello."
    assert "First line" in desk.ann.open(place(row.thread))


# ---------------------------------------------------------------------------------------------- old checkpoints, rights


def test_no_address_resumes_a_superseded_checkpoint(desk: Desk) -> None:
    """Whatever is sent to an old checkpoint: the answer given there reaches no graph again."""
    row = paid(desk)
    resumes = list(desk.resumes)
    old = asked_at(row)
    sent = {"decision": "approve", "go": "plain", "checkpoint": old, "resume": "1", "interrupt_id": row.interrupt_id}
    for name in ("checkpoint", "raw", "label", "fork", "rewind"):
        desk.root.post(reverse(f"reviews:{name}", args=[row.thread_id, old]), sent)
    for name in ("thread", "replay"):
        desk.root.post(reverse(f"reviews:{name}", args=[row.thread_id]), sent)
    page = desk.root.open(place(row.thread, old), show="state")
    assert page.offers == set()
    fields = {**sent, "version": row.version, "digest": row.digest, "action": 1, "submit_token": "again"}
    assert desk.root.post(reverse("reviews:interrupt", args=[row.pk]), fields).status == 409
    new_thread_of(go(desk.olga, start(row.thread, old)))
    rewind(desk.olga, row.thread, old)
    desk.work()
    assert desk.resumes == resumes
    assert desk.paid() == [5]


@pytest.mark.parametrize("how", ["fork", "rewind"])
def test_who_may_start_again(desk: Desk, how: str) -> None:
    row = paid(desk)
    address = start(row.thread, asked_at(row), how)
    before = (Thread.objects.count(), Run.objects.count(), AuditEntry.objects.count())
    for visitor, status in ((desk.ann, 403), (desk.aude, 403), (Visitor(desk.cast.otto), 404)):
        assert visitor.open(address).status == status
        assert visitor.post(address, {"go": "plain"}).status == status
    assert Visitor().open(address).status == 302
    assert (Thread.objects.count(), Run.objects.count(), AuditEntry.objects.count()) == before
    assert "can fork this step" in desk.ann.open(place(row.thread, asked_at(row)))
    assert desk.olga.open(address).status == 200
    assert desk.olga.open(start(row.thread, "1ef00000-0000-6000-8000-000000000000", how)).status == 404


def test_where_a_fork_before_the_proposal_begins(desk: Desk) -> None:
    row = rejected(desk)
    point = forks.point_before(row)
    state = desk.ann.open(place(row.thread, point), show="state")
    assert "pay" not in state.page.text.partition("The conversation as it stood")[2].replace(PAY, "")


# --------------------------------------------------------------------------------------------------------------- replay


def test_before_a_replay_of_the_head_the_page_says_what_runs_again(desk: Desk) -> None:
    row = desk.ask(text=graphs.turns([("read", {"id": 1}), ("pay", {"amount": 5})]))
    Thread.objects.filter(pk=row.thread_id).update(stuck=True, status="error", error="bad saved answer")
    page = desk.olga.open(row.thread)
    said = page.page.text.partition("This thread is stuck")[2].partition("I read what runs again")[0]
    assert "Asks: pay" in said
    assert "I read what runs again" not in desk.ann.open(row.thread)


def test_a_value_that_is_not_set_yet_has_a_field_too(desk: Desk) -> None:
    row = desk.asks("well?")
    address = start(row.thread, asked_at(row))
    form = desk.olga.open(f"{address}?edit=1").page.form_with("go", "look")
    assert "v-log" in form.fields
    looked = desk.olga.post(address, {**form.fields, "v-log": '{"kept": 1}', "as_node": "__start__", "go": "look"})
    assert (looked.status, "v-log" in looked.page.form_with("go", "values").fields) == (200, True)


class Order(MessagesState):
    amount: int
    urgent: bool
    size: Literal["small", "large"]


def ordering(desk: Desk) -> graphs.Graph:
    """Fill a typed state, ask, and then act on the state as it is."""

    def take(state: Order) -> dict[str, Any]:
        return {"amount": 5, "urgent": False, "size": "small"}

    def send(state: Order) -> dict[str, Any]:
        desk.ran.append(("send", {name: state[name] for name in ("amount", "urgent", "size")}))
        return {}

    builder = StateGraph(Order)
    builder.add_node("take", take)
    builder.add_node("ask", lambda state: {"amount": state["amount"] if interrupt("well?") else 0})
    builder.add_node("send", send)
    for before, after in ((START, "take"), ("take", "ask"), ("ask", "send"), ("send", END)):
        builder.add_edge(before, after)
    return builder.compile()


def test_edited_values_get_the_fields_of_the_states_own_types(desk: Desk) -> None:
    row = desk.ask(lambda: ordering(desk))
    address = start(row.thread, asked_at(row))
    on = desk.olga.open(f"{address}?edit=1")
    assert all(words in on for words in ("whole number", "small", "large"))
    form = on.page.form_with("go", "look")
    wrong = desk.olga.post(address, {**form.fields, "v-amount": "many", "go": "look"})
    assert (wrong.status, wrong.typed("v-amount")) == (422, "many")
    assert 'id="v-amount-error"' in wrong.html
    assert not Thread.objects.filter(ancestor=row.thread).exists()

    looked = desk.olga.post(address, {**form.fields, "v-amount": "7", "go": "look"})
    made = new_thread_of(desk.olga.press(looked, "values", name="go"))
    desk.work()
    (question,) = waiting(made)
    desk.ann.press(desk.ann.open(question), "respond", result="yes")
    desk.work()
    assert desk.ran == [("send", {"amount": 7, "urgent": False, "size": "small"})]
    assert desk.state(row.thread).values["amount"] == 5
