"""An administrator erases what the audit log only commits to, and the log still verifies."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from reviews import audit
from reviews.dialects import Verdict
from reviews.models import AuditEntry, AuditSecret, Decision, Interrupt
from reviews.tests.cast import Cast, ask_calls, decide, file_outcome, new_thread

SECRET = "IBAN DE89370400440532013000"  # what a person may ask to have forgotten


@pytest.fixture
def decided(cast: Cast) -> AuditEntry:
    """The entry of a rejection whose reason, and whose arguments, hold the secret; another thread's beside it."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5, "memo": SECRET})))
    decide(cast.ann, row, Verdict("reject", message=SECRET))
    (other,) = file_outcome(new_thread("another"), ask_calls(("pay", {"amount": 6})))
    decide(cast.ann, other, Verdict("reject", message="no"), token="submit-2")
    return AuditEntry.objects.get(interrupt=row, kind="decision recorded")


def erase(*given: Any, **options: Any) -> str:
    told = StringIO()
    call_command("erase_audit", *given, stdout=told, **options)
    return told.getvalue()


def left(entry: AuditEntry) -> int:
    return AuditSecret.objects.filter(entry=entry, erased_at=None).count()


def test_an_entry_is_erased_by_its_number_and_the_log_tells_of_it(cast: Cast, decided: AuditEntry) -> None:
    before = left(decided)
    assert before
    told = erase(decided.seq, by="root", yes=True)
    assert f"{decided.seq} decision recorded: " in told
    assert f"Erased {before} values of 1 entries" in told
    assert SECRET not in told
    assert left(decided) == 0
    newest = AuditEntry.objects.latest("seq")
    assert (newest.kind, newest.actor) == ("secrets erased", "root")
    assert json.loads(newest.body)["facts"] == {"count": before, "entry": decided.seq}
    assert audit.verify() == []
    assert "nothing that could be erased" in erase(decided.seq, by="root", yes=True)


def test_a_thread_is_erased_and_others_keep_theirs(cast: Cast, decided: AuditEntry) -> None:
    erase(thread=str(cast.thread.pk), by="root", yes=True)
    assert not AuditSecret.objects.filter(entry__thread=cast.thread, erased_at=None).exists()
    assert AuditSecret.objects.filter(erased_at=None).exists()
    assert audit.verify() == []
    assert Decision.objects.filter(message=SECRET).exists()  # the thread's own rows are another matter
    assert Interrupt.objects.filter(thread=cast.thread, status="decided").exists()


@pytest.mark.parametrize(("typed", "erased"), [("erase", True), ("yes", False), ("", False)])
def test_it_asks_first(decided: AuditEntry, monkeypatch: pytest.MonkeyPatch, typed: str, erased: bool) -> None:
    monkeypatch.setattr("builtins.input", lambda question: typed)
    if erased:
        erase(decided.seq, by="root")
    else:
        with pytest.raises(CommandError, match="Nothing was erased"):
            erase(decided.seq, by="root")
    assert (left(decided) == 0) is erased


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ((), {"by": "root"}, "Name entries"),
        ((1,), {"by": "root", "thread": "t"}, "Name entries"),
        ((1,), {"by": "ann"}, "ann is no administrator"),
        ((1,), {"by": "nobody"}, "nobody is no administrator"),
        ((999,), {"by": "root"}, "no entry 999"),
        ((), {"by": "root", "thread": "none"}, "no thread none"),
    ],
)
def test_what_is_not_meant_is_refused(decided: AuditEntry, given: Any, options: dict[str, Any], said: str) -> None:
    before = AuditEntry.objects.count()
    with pytest.raises(CommandError, match=said):
        erase(*given, **options, yes=True)
    assert (AuditEntry.objects.count(), left(decided) > 0) == (before, True)
