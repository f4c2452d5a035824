"""What ann and ben decide: recorded once, whole and durable, whatever happens around it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import transaction

from agents.models import Run, ToolPermit
from agents.outcome import Call, CallKey, canonical_bytes
from reviews import audit, tasks
from reviews.decisions import AlreadyDecided, Invalid, Stale
from reviews.dialects import Verdict, call_digest
from reviews.models import AuditEntry, Decision, Draft, Interrupt
from reviews.tests.cast import (
    APPROVE,
    REJECT,
    Cast,
    ask,
    ask_calls,
    assert_untouched,
    codes,
    decide,
    effect,
    file_outcome,
    new_thread,
)

EDIT = Verdict("edit", args={"amount": 4})


# ------------------------------------------------------------------------------------------------------------- recorded


def test_ann_approves_and_all_of_it_is_stored(cast: Cast, payment: Interrupt) -> None:
    receipt = decide(cast.ann, payment, APPROVE)

    payment.refresh_from_db()
    assert (payment.status, payment.decided_by, payment.submit_token) == ("decided", cast.ann, "submit-1")
    decision = Decision.objects.get()
    assert (decision.verdict, decision.user, decision.role) == ("approve", cast.ann, "reviewer")
    run = Run.objects.get(kind="resume")
    assert (run.status, run.author, payment.resume) == ("pending", "ann", run)
    assert run.payload == {
        "interrupt_id": payment.interrupt_id,
        "namespace": "",
        "digest": payment.value_digest,
        "answer": {"decisions": [{"type": "approve"}]},
    }
    entry = AuditEntry.objects.latest("seq").seq
    assert (receipt.by, receipt.at, receipt.verdicts) == ("ann", payment.decided_at, ("approve",))
    assert (receipt.interrupt_id, receipt.run_id, receipt.entry) == (payment.pk, str(run.pk), entry)
    assert audit.verify() == []


def test_an_approval_permits_the_call_as_asked(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, APPROVE)

    permit = ToolPermit.objects.get()
    assert (permit.verdict, permit.name, permit.message_id, permit.tool_call_id) == ("approve", "pay", "ai-1", "call_0")
    assert permit.args == {"amount": 5}
    assert permit.digest == call_digest("pay", {"amount": 5}) == Decision.objects.get().digest


def test_an_edit_permits_what_ann_wrote_and_nothing_else(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, EDIT)

    decision, permit = Decision.objects.get(), ToolPermit.objects.get()
    assert decision.args == permit.args == {"amount": 4}
    assert decision.digest == permit.digest == call_digest("pay", {"amount": 4})
    assert Run.objects.get(kind="resume").payload["answer"] == {
        "decisions": [{"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 4}}}]
    }


@pytest.mark.parametrize("verdict", [REJECT, Verdict("respond", message="Paid by hand.")])
def test_a_refusal_permits_no_arguments(cast: Cast, payment: Interrupt, verdict: Verdict) -> None:
    decide(cast.ann, payment, verdict)

    permit = ToolPermit.objects.get()
    assert (permit.verdict, permit.args, permit.digest) == (verdict.type, None, "")
    assert Decision.objects.get().message == verdict.message
    assert audit.verify() == []


def test_mixed_batch_goes_out_in_the_order_of_the_request(cast: Cast) -> None:
    """HC-13."""
    pay, wipe, mail = ("pay", {"amount": 5}), ("wipe", {"path": "/srv/x"}), ("mail", {"to": "a@example.test"})
    (row,) = file_outcome(cast.thread, ask_calls(pay, wipe, mail))
    reason = 'Keep it.\nSecond line "quoted" مرحبا'

    decide(cast.ann, row, APPROVE, Verdict("reject", message=reason), Verdict("edit", args={"to": "b@example.test"}))

    answer = Run.objects.get(kind="resume").payload["answer"]
    assert [one["type"] for one in answer["decisions"]] == ["approve", "reject", "edit"]
    assert answer["decisions"][1]["message"] == reason
    assert [permit.args for permit in ToolPermit.objects.order_by("position")] == [
        {"amount": 5},
        None,
        {"to": "b@example.test"},
    ]
    assert AuditEntry.objects.get(kind=audit.Kind.DECIDED).verdict == "mixed"
    assert audit.verify() == []


def test_an_empty_reject_box_sends_no_message(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, Verdict("reject", message=" \n"))

    assert Run.objects.get(kind="resume").payload["answer"] == {"decisions": [{"type": "reject"}]}
    assert Decision.objects.get().message is None


@pytest.mark.parametrize(
    "answer", [{}, "", False, 0, None, [], {"0" * 32: "v"}, {"1": "x"}], ids=lambda value: repr(value)[:12]
)
def test_a_raw_answer_travels_unchanged(cast: Cast, answer: Any) -> None:
    """HC-21: whatever it looks like, it is the answer of this one interrupt."""
    (row,) = file_outcome(cast.thread, ask("q"))

    decide(cast.ann, row, Verdict("respond", value=answer))

    payload = Run.objects.get(kind="resume").payload
    assert (payload["interrupt_id"], type(payload["answer"])) == (row.interrupt_id, type(answer))
    assert canonical_bytes(payload["answer"]) == canonical_bytes(answer)
    assert Decision.objects.get().value == {"value": answer}
    assert audit.verify() == []


def test_only_the_gated_calls_of_a_turn_are_decided(cast: Cast) -> None:
    """HC-12: two of three calls are asked about."""
    keys = [CallKey("ai-1", "t1"), CallKey("ai-1", "t3")]
    calls = [Call("pay", {"amount": amount}, key) for amount, key in zip((5, 7), keys, strict=True)]
    value = ask_calls(("pay", {"amount": 5}), ("pay", {"amount": 7})).value
    question = ask(None, calls=calls)
    (row,) = file_outcome(cast.thread, type(question)(**{**question.__dict__, "value": value}))

    for wrong in ([APPROVE], [APPROVE] * 3):
        with pytest.raises(Invalid) as refused:
            decide(cast.ann, row, *wrong)
        assert codes(refused.value) == {(None, "decisions", "count")}
        assert_untouched(row)
    decide(cast.ann, row, APPROVE, APPROVE)

    assert len(Run.objects.get(kind="resume").payload["answer"]["decisions"]) == 2
    assert set(ToolPermit.objects.values_list("tool_call_id", flat=True)) == {"t1", "t3"}


def test_the_winners_drafts_are_gone_and_everybody_elses_kept(cast: Cast, payment: Interrupt) -> None:
    action = payment.actions.get()
    Draft.objects.create(user=cast.ann, action=action, data={"message": ["No"]})
    Draft.objects.create(user=cast.ben, action=action, data={"message": ["Keep 10 EUR"]})

    decide(cast.ann, payment, APPROVE)

    assert Draft.objects.get().user == cast.ben


# ------------------------------------------------------------------------------------------------------ second and late


def test_the_same_submit_gets_the_same_answer(cast: Cast, payment: Interrupt) -> None:
    """HC-23: the back button and the double click, also when the work is done meanwhile."""
    first = decide(cast.ann, payment, APPROVE)
    again = decide(cast.ann, payment, REJECT)
    file_outcome(cast.thread, effects=[effect(payment, "executed", args={"amount": 5})])
    later = decide(cast.ann, payment, APPROVE)

    assert first == again == later
    assert Run.objects.filter(kind="resume").count() == Decision.objects.count() == 1
    assert AuditEntry.objects.filter(kind=audit.Kind.DECIDED).count() == 1


def test_ben_is_told_that_ann_was_first(cast: Cast, payment: Interrupt) -> None:
    decide(cast.ann, payment, REJECT)

    for user, token in ((cast.ben, "submit-1"), (cast.ann, "submit-2")):
        with pytest.raises(AlreadyDecided) as late:
            decide(user, payment, APPROVE, token=token)
        assert (late.value.by, late.value.verdicts) == ("ann", ("reject",))
        assert late.value.at == Interrupt.objects.get(pk=payment.pk).decided_at
        assert late.value.decisions[0].message == "Not like this."
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    ("shown", "reason"), [({"digest": "0" * 64}, "digest"), ({"version": 2}, "version"), ({"digest": ""}, "digest")]
)
def test_a_form_made_on_something_else_is_stale(
    cast: Cast, payment: Interrupt, shown: dict[str, Any], reason: str
) -> None:
    before = AuditEntry.objects.count()

    with pytest.raises(Stale) as stale:
        decide(cast.ann, payment, APPROVE, **shown)

    assert stale.value.reason == reason
    assert AuditEntry.objects.count() == before + 1
    entry = AuditEntry.objects.latest("seq")
    assert (entry.kind, entry.actor, entry.interrupt) == (audit.Kind.STALE, "ann", payment)
    assert_untouched(payment)


def test_a_form_on_older_arguments_says_what_changed(cast: Cast, payment: Interrupt) -> None:
    (newer,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 9, "to": "x"})))

    with pytest.raises(Stale) as stale:
        decide(cast.ann, payment, APPROVE)

    assert (stale.value.reason, stale.value.current) == ("withdrawn", newer)
    assert stale.value.changed == ("pay.amount", "pay.to")
    assert not Decision.objects.exists()


def test_an_answer_to_a_question_that_is_gone(cast: Cast, payment: Interrupt) -> None:
    file_outcome(cast.thread)

    with pytest.raises(Stale) as stale:
        decide(cast.ann, payment, APPROVE)

    assert stale.value.current == payment


# ----------------------------------------------------------------------------------------------------- after the commit


class Sent(list[str]):
    def apply_async(self, args: tuple[str], **_: Any) -> None:
        self.append(args[0])


def test_workers_are_woken_after_the_commit_and_only_then(
    cast: Cast, payment: Interrupt, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """HC-32: nothing leaves before the commit, nothing at all after a rollback."""
    sent = Sent()
    monkeypatch.setattr(tasks, "advance", sent)

    with (
        django_capture_on_commit_callbacks(execute=True) as undone,
        pytest.raises(ZeroDivisionError),
        transaction.atomic(),
    ):
        decide(cast.ann, payment, APPROVE)
        raise ZeroDivisionError
    assert (undone, sent) == ([], [])
    assert_untouched(payment)

    with django_capture_on_commit_callbacks(execute=True):
        decide(cast.ann, payment, APPROVE)
        assert sent == []
    assert sent == [cast.thread.pk]


def test_a_broker_that_is_down_costs_no_decision(
    cast: Cast, payment: Interrupt, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """HC-32: the next poll finds the run, once."""

    class Down:
        def apply_async(self, *_: Any, **__: Any) -> None:
            raise OSError("no broker")

    monkeypatch.setattr(tasks, "advance", Down())
    monkeypatch.setattr(tasks, "unwoken", 0)

    with django_capture_on_commit_callbacks(execute=True):
        decide(cast.ann, payment, APPROVE)

    assert tasks.unwoken == 1
    assert Run.objects.get(kind="resume").status == "pending"


def test_a_broker_that_hangs_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the bytes of the first message and does not answer; the second is not even sent."""
    answers, sent = threading.Event(), []

    class Hangs:
        def apply_async(self, args: tuple[str], **_: Any) -> None:
            sent.append(args[0])
            answers.wait(30)

    monkeypatch.setattr(tasks, "advance", Hangs())
    monkeypatch.setattr(tasks, "unwoken", 0)
    monkeypatch.setattr(tasks, "_waking", tasks._Waking())
    before = time.monotonic()
    assert [tasks.wake("one"), tasks.wake("two")] == [False, False]
    assert time.monotonic() - before < 5
    assert (tasks.unwoken, sent) == (2, ["one"])
    answers.set()
    last = tasks._waking._last
    assert last is not None
    last.result(5)
    assert tasks.wake("three")
    assert (tasks.unwoken, sent) == (0, ["one", "three"])


def test_a_log_that_cannot_be_written_rolls_the_decision_back(
    cast: Cast, payment: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 16."""

    def broken(*_: Any) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(audit, "link", broken)

    with pytest.raises(OSError, match="disk full"):
        decide(cast.ann, payment, APPROVE)

    assert_untouched(payment)


def test_other_threads_are_left_alone(cast: Cast, payment: Interrupt) -> None:
    """A copied thread has the same interrupt id; it is another question."""
    (copy,) = file_outcome(new_thread("A copy"), ask_calls(("pay", {"amount": 5})))
    assert copy.interrupt_id == payment.interrupt_id

    decide(cast.ann, payment, APPROVE)

    copy.refresh_from_db()
    assert copy.status == "open"
