"""The log holds, and whoever changes one letter of it is found out."""

from __future__ import annotations

import hashlib
import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction

from agents.outcome import canonical_bytes
from reviews import audit, audit_walk
from reviews.audit import Kind, On
from reviews.chain import START, link
from reviews.jcs import NotJcs, to_jcs
from reviews.models import AuditEntry, AuditSecret, Decision, Interrupt
from reviews.tests.cast import APPROVE, REJECT, Cast, ask_calls, decide, file_outcome, new_thread


@pytest.fixture
def log(cast: Cast, payment: Interrupt) -> list[AuditEntry]:
    """Five entries: two questions, two decisions, and a note on the thread."""
    decide(cast.ann, payment, APPROVE)
    (other,) = file_outcome(new_thread(), ask_calls(("pay", {"amount": 7})))
    decide(cast.ben, other, REJECT)
    audit.append(Kind.MESSAGE_SENT, on=On(thread=cast.thread), user=cast.olga, role="operator")
    return list(AuditEntry.objects.order_by("seq"))


def rechain(entry: AuditEntry, **body: Any) -> None:
    """Forge an entry as well as one can without its successors: body and hash fit each other."""
    text = to_jcs(json.loads(entry.body) | body)
    AuditEntry.objects.filter(pk=entry.pk).update(body=text, hash=link(entry.previous, text))


def first_fault() -> tuple[int | None, str]:
    fault = audit.verify()[0]
    return fault.seq, fault.kind


# -------------------------------------------------------------------------------------------------------------- holding


def test_it_holds(log: list[AuditEntry]) -> None:
    assert [entry.seq for entry in log] == [1, 2, 3, 4, 5]
    assert log[0].previous == START
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert out.getvalue() == f"OK: 5 entries, head {log[-1].hash}.\n"


def test_an_empty_log_holds(db: None) -> None:
    assert (audit.examine().count, audit.verify()) == (0, [])


def test_anybody_can_compute_a_hash_again(log: list[AuditEntry]) -> None:
    entry = log[3]
    body = json.loads(entry.body)
    again = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)  # JCS, for ASCII keys
    assert hashlib.sha256((log[2].hash + again).encode()).hexdigest() == entry.hash


def test_an_entry_says_who_did_what_to_what(cast: Cast, log: list[AuditEntry], payment: Interrupt) -> None:
    body = json.loads(log[1].body)

    assert (body["kind"], body["who"]["name"], body["role"]) == ("decision recorded", "ann", "reviewer")
    assert body["agent"] == {"name": "support", "version": "2.4.1"}
    assert (body["thread"], body["checkpoint"]) == (cast.thread.pk, "checkpoint-1")
    assert body["interrupt"]["id"] == payment.interrupt_id
    assert (body["before"], body["after"]) == ("open", "decided")
    assert body["calls"][0]["shown"] == body["calls"][0]["decided"] == payment.actions.get().digest


def test_arguments_and_reasons_stand_in_it_as_commitments_only(log: list[AuditEntry]) -> None:
    body = json.loads(log[3].body)
    secret = log[3].secrets.get()

    assert "Not like this" not in log[3].body
    assert secret.value == "Not like this."
    assert body["commitments"] == {
        "message.0": hashlib.sha256(bytes(secret.salt or b"") + canonical_bytes("Not like this.")).hexdigest()
    }


def test_equal_reasons_are_committed_to_differently(cast: Cast) -> None:
    assert audit.commit("no")[0] != audit.commit("no")[0]


def test_erasing_keeps_the_chain(cast: Cast, log: list[AuditEntry]) -> None:
    assert audit.erase(log[3], user=cast.root) == 1
    assert audit.erase(log[3], user=cast.root) == 0

    secret = log[3].secrets.get()
    assert (secret.salt, secret.value) == (None, None)
    assert AuditEntry.objects.latest("seq").kind == Kind.ERASED
    assert audit.verify() == []


def test_the_walk_takes_pieces(log: list[AuditEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_walk, "PIECE", 2)
    assert (audit.examine().count, audit.verify()) == (5, [])
    AuditEntry.objects.filter(pk=5).update(hash="0" * 64)
    assert first_fault() == (5, "hash")


# ------------------------------------------------------------------------------------------------------------ found out


def test_a_changed_body(log: list[AuditEntry]) -> None:
    AuditEntry.objects.filter(pk=2).update(body=log[1].body.replace('"ann"', '"ben"'))
    assert first_fault() == (2, "hash")


def test_a_changed_body_with_its_hash(log: list[AuditEntry]) -> None:
    rechain(log[1], role="administrator")
    assert first_fault() == (3, "link")


def test_a_full_rechain_is_held_against_the_decisions(log: list[AuditEntry]) -> None:
    """Who writes the whole chain anew must also change the decisions."""
    previous = log[2].hash
    for entry in log[3:]:
        body = json.loads(entry.body)
        for call in body["calls"]:
            call["verdict"] = "approve"
        entry.previous, entry.body = previous, to_jcs(body)
        entry.hash = previous = link(entry.previous, entry.body)
        entry.verdict = "approve" if body["calls"] else ""
        entry.save()
    assert first_fault() == (4, "digest")


def test_a_missing_entry(log: list[AuditEntry]) -> None:
    AuditEntry.objects.filter(pk=5).update(seq=6)
    assert first_fault()[1] == "gap"


def test_a_cut_tail_is_missed_by_its_decision(log: list[AuditEntry]) -> None:
    AuditSecret.objects.filter(entry__gte=4).delete()
    AuditEntry.objects.filter(seq__gte=4).delete()
    assert first_fault() == (None, "decision")


def test_an_entry_before_the_first(log: list[AuditEntry]) -> None:
    for seq in (0, -3):
        AuditEntry.objects.create(
            seq=seq, body="{}", previous=START, hash=f"{seq}", kind="x", at=log[0].at, actor="nobody"
        )
    assert first_fault() == (-3, "gap")


@pytest.mark.parametrize(
    "columns", [{"kind": "incident"}, {"actor": "ben"}, {"verdict": "reject"}, {"thread": None}, {"user": None}]
)
def test_a_column_that_says_something_else(log: list[AuditEntry], columns: dict[str, Any]) -> None:
    AuditEntry.objects.filter(pk=2).update(**columns)
    assert (2, "body") in [(fault.seq, fault.kind) for fault in audit.verify()]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"a": 1.5}', "null", "[" * 100_000])
def test_a_body_that_is_none(log: list[AuditEntry], body: str) -> None:
    AuditEntry.objects.filter(pk=5).update(body=body, hash=link(log[4].previous, body))
    assert first_fault() == (5, "body")


def test_a_body_with_blanks_is_not_canonical(log: list[AuditEntry]) -> None:
    text = log[4].body.replace(":", ": ", 1)
    AuditEntry.objects.filter(pk=5).update(body=text, hash=link(log[4].previous, text))
    assert first_fault() == (5, "body")


def test_a_changed_secret(log: list[AuditEntry]) -> None:
    AuditSecret.objects.filter(entry=4).update(value="Go ahead.")
    assert first_fault() == (4, "secret")


def test_a_lost_or_added_secret(log: list[AuditEntry]) -> None:
    AuditSecret.objects.create(entry=log[4], name="message.0", value="x", salt=b"s")
    assert first_fault() == (5, "secret")
    AuditSecret.objects.filter(entry=4).delete()
    assert first_fault() == (4, "secret")


def test_a_decision_without_an_entry(cast: Cast, log: list[AuditEntry]) -> None:
    (row,) = file_outcome(new_thread(), ask_calls(("pay", {"amount": 8})))
    Decision.objects.create(
        action=row.actions.get(), verdict="approve", user=cast.ann, role="reviewer", digest="f" * 64
    )
    assert first_fault() == (None, "decision")


def test_an_entry_without_a_decision(log: list[AuditEntry]) -> None:
    Decision.objects.get(user__username="ben").delete()
    assert first_fault() == (4, "entry")


def test_an_interrupt_decided_twice_in_the_log(cast: Cast, log: list[AuditEntry], payment: Interrupt) -> None:
    decision = Decision.objects.select_related("action").get(action__interrupt=payment)
    calls = [audit.told(decision.action, decision)]
    secrets = {"arguments.0": {"amount": 5}}
    audit.append(Kind.DECIDED, on=On(interrupt=payment, calls=calls), user=cast.ann, secrets=secrets)
    assert first_fault() == (6, "entry")


@pytest.mark.parametrize("changed", [{"verdict": "approve"}, {"message": "Go ahead."}, {"value": {"value": 1}}])
def test_a_decision_that_was_changed_afterwards(log: list[AuditEntry], changed: dict[str, Any]) -> None:
    Decision.objects.filter(user__username="ben").update(**changed)
    assert first_fault() == (4, "digest")


def test_the_command_names_the_fault_and_fails(log: list[AuditEntry]) -> None:
    AuditEntry.objects.filter(pk=3).update(previous="0" * 64)
    err = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("verify_audit", stderr=err)

    assert ended.value.code == 1
    assert err.getvalue().startswith("link at entry 3")


# -------------------------------------------------------------------------------------------------------------- writing


def test_an_entry_is_gone_with_what_it_tells_of(cast: Cast, log: list[AuditEntry]) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        audit.append(Kind.FORKED, on=On(thread=cast.thread))
        raise ZeroDivisionError
    entry = audit.append(Kind.FORKED, on=On(thread=cast.thread), secrets={"note": None})

    assert entry.seq == 6  # no gap
    assert audit.verify() == []


def test_the_vocabulary_is_closed(cast: Cast) -> None:
    with pytest.raises(ValueError, match="no word"):
        audit.append(Kind.FORKED, on=On(thread=cast.thread, facts={"mood": "good"}))
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, -0]}, '{"a":[true,null,0],"b":1}'),
        ({"\ufb33": 1, "\U0001f600": 2, "\xf6": 3}, '{"\xf6":3,"\U0001f600":2,"\ufb33":1}'),  # by UTF-16 code units
        ('\u20ac$\x0f\nA\'B"\\"/\x7f', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\"/\x7f"'),
        (2**53 - 1, "9007199254740991"),
        ((), "[]"),
    ],
)
def test_rfc_8785(value: Any, text: str) -> None:
    assert to_jcs(value) == text


@pytest.mark.parametrize("value", [1.0, 2**53, -(2**53), "\ud800", {"\ud800": 1}, {1: 1}, b"x", {"a": [float("nan")]}])
def test_what_no_body_holds(value: Any) -> None:
    with pytest.raises(NotJcs):
        to_jcs(value)
