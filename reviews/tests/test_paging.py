"""Pages by time: rows that were written in the same moment are neither lost nor shown twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from agents.models import Run
from reviews import inbox
from reviews.inbox import Filters
from reviews.models import Interrupt
from reviews.paging import by_time
from reviews.tests.cast import Cast, ask, file_outcome, new_thread

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
