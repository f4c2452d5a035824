"""Pages by time: rows that were written in the same moment are neither lost nor shown twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from agents.models import Run
from reviews import inbox, looks
from reviews.inbox import Filters
from reviews.models import Interrupt
from reviews.paging import by_time
from reviews.tests.cast import ALL, APPROVE, Cast, ask, ask_calls, decide, file_outcome, hitl, new_thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def moments(cast: Cast) -> list[str]:
    """Seven runs: four of one moment of the database's clock, one each of clocks that write other digits."""
    thread = cast.thread
    Run.objects.all().delete()
    for position in range(7):
        Run.objects.create(thread=thread, kind="input", position=position, payload={})
    keys = [str(pk) for pk in Run.objects.order_by("pk").values_list("pk", flat=True)]
    Run.objects.filter(pk__in=keys[:4]).update(created_at=Now())
    whole = (timezone.now() + timedelta(days=1)).replace(microsecond=0)
    for seconds, key in enumerate(keys[4:]):
        Run.objects.filter(pk=key).update(created_at=whole + timedelta(seconds=seconds // 2, microseconds=seconds))
    return keys


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("newest_first", [True, False])
def test_every_row_is_on_one_page(moments: list[str], size: int, newest_first: bool) -> None:
    seen: list[str] = []
    after = ""
    for _ in moments:
        page = by_time(Run.objects.all(), field="created_at", after=after, newest_first=newest_first, size=size)
        seen += [str(row.pk) for row in page.rows]
        after = page.after
        if not after:
            break
    whole = [str(pk) for pk in Run.objects.order_by("created_at", "pk").values_list("pk", flat=True)]
    assert seen == (whole[::-1] if newest_first else whole)


@pytest.mark.parametrize(
    "after", ["x", "2026-12-01~1", "~", "2026-12-01 10:00:00", "2026-13-01 10:00:00.1~x", "\x00~1"]
)
def test_a_cursor_that_cannot_be_read_leads_to_the_first_page(moments: list[str], after: str) -> None:
    page = by_time(Run.objects.all(), field="created_at", after=after, newest_first=True, size=7)
    assert len(page.rows) == 7


def test_questions_of_one_moment_have_each_its_place(cast: Cast) -> None:
    rows = [row for _ in range(3) for row in file_outcome(new_thread(), ask("Which?"))]
    Interrupt.objects.update(created_at=Now())
    places = [inbox.place_of(cast.ann, Interrupt.objects.get(pk=row.pk), Filters()) for row in rows]
    keys = [row.pk for row in rows]
    assert [(one.number, one.previous, one.next) for one in places] == [
        (1, None, keys[1]),
        (2, keys[0], keys[2]),
        (3, keys[1], None),
    ]


def test_a_place_is_the_same_by_hand_and_in_a_filter_that_hides_nothing(cast: Cast) -> None:
    """A pause of two questions, one that somebody else looks at, one of another agent, one that is decided."""
    rows = [row for _ in range(3) for row in file_outcome(new_thread(), ask_calls(("pay", {"amount": 5})))]
    value = hitl(("pay", {"amount": 5}), allowed=ALL)
    rows += file_outcome(new_thread(), *(ask(value, interrupt_id=letter * 32) for letter in "ab"))
    rows += file_outcome(new_thread(), ask_calls(("pay", {"amount": 5})))
    looks.arrive(cast.ben, [rows[2]])
    decide(cast.ann, rows[1], APPROVE)
    hidden = file_outcome(new_thread("Invoice", agent="billing"), ask_calls(("pay", {"amount": 5})))
    seen = []
    for row in (Interrupt.objects.get(pk=one.pk) for one in [*rows, *hidden]):
        plain, narrow = (inbox.place_of(cast.ann, row, one) for one in (Filters(), Filters(agent="support")))
        assert plain == narrow
        seen.append(plain)
    assert {(one.number, one.total) for one in seen} == {(1, 4), (2, 4), (3, 4), (4, 4), (5, 4)}
    paused, last = rows[3], rows[5]
    assert (seen[0].previous, seen[0].next) == (None, paused.pk)  # past the one that ben looks at
    assert (seen[4].previous, seen[4].next) == (rows[2].pk, last.pk)  # past the other of its pause
    assert (seen[5].previous, seen[5].next) == (paused.pk, None)
