"""Many people at once, in real threads with connections of their own: one decision, and everybody told the truth."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection

from agents.models import Run, ToolPermit
from reviews import audit
from reviews.decisions import AlreadyDecided, Receipt, Stale
from reviews.dialects import Verdict
from reviews.models import AuditEntry, Decision, Interrupt
from reviews.tests.cast import APPROVE, REJECT, Cast, ask_calls, decide, file_outcome, new_thread

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")
VERDICTS = {
    "ann": APPROVE,
    "ben": REJECT,
    "cara": Verdict("edit", args={"amount": 4}),
    "dora": Verdict("respond", message="Paid by hand."),
}


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Run each call in a thread of its own and return their results in order."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(_tidied, call) for call in calls]]


def _tidied(call: Callable[[], T]) -> T:
    try:
        return call()
    finally:
        connection.close()


def reviewers(cast: Cast) -> dict[str, User]:
    team = Group.objects.get(name="support reviewers")
    more = {name: User.objects.create_user(name) for name in ("cara", "dora")}
    team.user_set.add(*more.values())
    return {"ann": cast.ann, "ben": cast.ben, **more}


def questions(count: int, *, threads: int) -> list[Interrupt]:
    """File ``count`` open questions, spread over ``threads`` threads."""
    rows: list[Interrupt] = []
    for _ in range(threads):
        asks = [
            ask_calls(("pay", {"amount": 5}), interrupt_id=f"{number:032x}", message=f"ai-{number}")
            for number in range(count // threads)
        ]
        rows += file_outcome(new_thread(), *asks)
    return rows


@pytest.mark.long
@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.production)])  # 300 take half a minute
def test_four_reviewers_decide_on_the_same_questions_at_once(cast: Cast, count: int) -> None:
    """Fault 1: each question is recorded once, and the three others are told who was first."""
    people = reviewers(cast)
    rows = questions(count, threads=10)
    starting = threading.Barrier(len(people))

    def review(name: str) -> list[tuple[Interrupt, Receipt | AlreadyDecided]]:
        answers: list[tuple[Interrupt, Receipt | AlreadyDecided]] = []
        for row in rows:
            starting.wait(timeout=60)
            try:
                answers.append((row, decide(people[name], row, VERDICTS[name], token=f"{name}-{row.pk}")))
            except AlreadyDecided as late:
                answers.append((row, late))
        return answers

    told = [answer for answers in at_once(*(lambda name=name: review(name) for name in people)) for answer in answers]

    winners = {row.pk: answer.by for row, answer in told if isinstance(answer, Receipt)}
    late = [(row, answer) for row, answer in told if isinstance(answer, AlreadyDecided)]
    assert (len(winners), len(told) - len(late), len(late)) == (count, count, 3 * count)
    for row, answer in late:
        assert (answer.by, answer.verdicts) == (winners[row.pk], (VERDICTS[winners[row.pk]].type,))
    assert Decision.objects.count() == Run.objects.filter(kind="resume").count() == ToolPermit.objects.count() == count
    assert {row.pk: row.decided_by.username for row in Interrupt.objects.select_related("decided_by")} == winners  # type: ignore[union-attr]
    assert AuditEntry.objects.filter(kind=audit.Kind.DECIDED).count() == count
    assert audit.verify() == []


def test_the_same_submit_ten_times_at_once(cast: Cast) -> None:
    """Fault 2: one decision, ten equal receipts."""
    (row,) = questions(1, threads=1)
    starting = threading.Barrier(10)

    def click() -> Receipt:
        starting.wait(timeout=60)
        return decide(cast.ann, row, APPROVE)

    receipts = at_once(*[click] * 10)

    assert len(set(receipts)) == 1
    assert Decision.objects.count() == Run.objects.filter(kind="resume").count() == 1
    assert AuditEntry.objects.filter(kind=audit.Kind.DECIDED).count() == 1


@pytest.mark.long
def test_a_click_against_a_question_that_changes(cast: Cast) -> None:
    """Either the click was first, and the new arguments ask again; or it was late, and is told so. Never both."""
    endings: Counter[str] = Counter()
    for _ in range(10):
        thread = new_thread()
        (row,) = file_outcome(thread, ask_calls(("pay", {"amount": 5})))
        starting = threading.Barrier(2)

        def click(row: Interrupt = row, starting: threading.Barrier = starting) -> str:
            starting.wait(timeout=60)
            try:
                decide(cast.ann, row, APPROVE)
            except Stale as stale:
                return stale.reason
            return "recorded"

        def change(thread: Any = thread, starting: threading.Barrier = starting) -> str:
            starting.wait(timeout=60)
            file_outcome(thread, ask_calls(("pay", {"amount": 9})))
            return ""

        ending, _ = at_once(click, change)
        endings[ending] += 1
        live = Interrupt.objects.get(thread=thread, status__in=["open", "decided"])
        assert (live.version, live.status) == (2, "open")
        assert Decision.objects.filter(action__interrupt=row).exists() is (ending == "recorded")
    assert set(endings) <= {"recorded", "withdrawn"}
    assert audit.verify() == []


def test_entries_from_many_threads_make_one_chain(cast: Cast) -> None:
    starting = threading.Barrier(6)

    def write() -> None:
        starting.wait(timeout=60)
        for _ in range(15):
            audit.append(audit.Kind.MESSAGE_SENT, on=audit.On(thread=cast.thread))

    at_once(*[write] * 6)

    assert list(AuditEntry.objects.order_by("seq").values_list("seq", flat=True)) == list(range(1, 91))
    assert audit.verify() == []


def test_a_log_that_refuses_the_entry_takes_the_decision_with_it(cast: Cast) -> None:
    """Fault 16, with the database itself refusing: nothing is decided, nothing will be resumed, and the retry works."""
    (row,) = questions(1, threads=1)

    with refusing_log(), pytest.raises(DatabaseError):
        decide(cast.ann, row, APPROVE)

    row.refresh_from_db()
    assert (row.status, row.submit_token) == ("open", "")
    assert not (Decision.objects.exists() or Run.objects.filter(kind="resume").exists() or ToolPermit.objects.exists())
    decide(cast.ann, row, APPROVE)
    assert audit.verify() == []


class refusing_log:
    """While it lasts, the database refuses every audit entry."""

    SQLITE = (
        "CREATE TRIGGER refuse BEFORE INSERT ON reviews_auditentry BEGIN SELECT RAISE(ABORT, 'the log is full'); END",
        "DROP TRIGGER refuse",
    )
    POSTGRESQL = (
        "ALTER TABLE reviews_auditentry ADD CONSTRAINT refuse CHECK (seq < 0) NOT VALID",
        "ALTER TABLE reviews_auditentry DROP CONSTRAINT refuse",
    )

    def __init__(self) -> None:
        self.begin, self.end = self.SQLITE if connection.vendor == "sqlite" else self.POSTGRESQL

    def __enter__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.begin)

    def __exit__(self, *_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.end)
