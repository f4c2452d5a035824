"""HC-24 and HC-26: what runs again, said before and counted after; a history of thousands, walked through."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents import history
from agents.checkpointer import DjangoSaver
from agents.models import Checkpoint, Run
from agents.tests import graphs
from agents.tests.test_timeline import put
from reviews.tests.door import Desk
from reviews.tests.test_checkpoint_pages import asked_at, ids, paid, place
from reviews.tests.test_fork_pages import go, new_thread_of, rewind, start


@pytest.mark.long
def test_work_before_a_pause_runs_again_and_each_page_says_so_first(desk: Desk) -> None:
    """HC-24: a node acts, then asks. One answer is one resume; a replay wants a confirmation and is one run."""
    row = desk.ask(lambda: graphs.acts_then_asks(graphs.into(desk.ran)))
    page = desk.ann.open(row)
    assert "runs again from its top when you decide" in page
    desk.ann.press(page, "respond", result="yes")
    desk.work()
    assert len(desk.resumes) == 1
    assert [name for name, _ in desk.ran] == ["act", "act"]
    steps = history.timeline(row.thread_id).steps
    assert [one.nodes for one in steps] == [("act",), ("__start__",), ()]  # the second attempt is no second step

    old, before = asked_at(row), ids(row.thread)
    address = start(row.thread, old, "rewind")
    assert "act" in desk.olga.open(address)
    assert desk.olga.post(address, {"go": "plain", "submit_token": "unread"}).status == 409  # the sheet was not seen
    desk.work()
    assert (ids(row.thread), len(desk.ran)) == (before, 2)
    assert rewind(desk.olga, row.thread, old, sure="1").status == 302
    desk.work()
    assert Run.objects.filter(thread=row.thread, kind="replay").count() == 1
    assert [name for name, _ in desk.ran] == ["act"] * 3
    assert len(desk.resumes) == 1


@pytest.mark.long
def test_a_fork_where_nothing_runs_sent_twice_is_one_fork(desk: Desk) -> None:
    row = paid(desk)
    page = desk.olga.open(start(row.thread, ids(row.thread)[0]))  # the thread is done
    first, again = (desk.olga.press(page, "plain", name="go") for _ in range(2))
    assert new_thread_of(first) == new_thread_of(again)
    assert not Run.objects.filter(thread=new_thread_of(first)).exists()
    other = go(desk.olga, start(row.thread, ids(row.thread)[0]))  # another form is another fork
    assert new_thread_of(other) != new_thread_of(first)


@pytest.mark.long
def test_a_history_of_thousands_is_walked_page_by_page_while_it_grows(desk: Desk) -> None:
    """HC-26: 3,000 checkpoints with 20 kB each, three branches, times that are the same, and one answered pause."""
    row = paid(desk)
    saver, thread_id = DjangoSaver(), row.thread_id
    lengthen(saver, thread_id, 3_000, branches=3)
    Checkpoint.objects.filter(thread_id=thread_id).update(created_at=row.created_at)
    expected = list(
        Checkpoint.objects.filter(thread_id=thread_id, ns="").order_by("-pk").values_list("checkpoint_id", flat=True)
    )
    seen: list[str] = []
    cursor, head = "", expected[0]
    tracemalloc.start()
    while True:
        with CaptureQueriesContext(connection) as queries:
            page = history.timeline(thread_id, before=cursor, limit=50)
        read = [one["sql"] for one in queries if "order by" in one["sql"] and "next_nodes" in one["sql"]]
        assert read and all("limit 51" in sql for sql in read)
        assert not any("blob" in one["sql"] for one in queries)
        seen += [one.point.checkpoint_id for one in page.steps]
        head = place_of(put(saver, thread_id, history.Point(thread_id, head).config, 1))  # a worker goes on meanwhile
        if not (cursor := page.older):
            break
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == expected
    assert peak < 100 * 2**20
    begins = [one for one in history.tree(thread_id).branches if one.parent_id]
    assert len(begins) == 3
    assert all(newer.number > older.number for newer, older in pairwise(begins))

    old = desk.ann.open(place(row.thread, asked_at(row)))
    assert "Decide" not in old.page.text and old.offers == set()
    fields = {"version": row.version, "digest": row.digest, "action": 1, "decision": "approve", "submit_token": "late"}
    assert desk.ann.post(reverse("reviews:interrupt", args=[row.pk]), fields).status == 409
    assert desk.paid() == [5]


def lengthen(saver: DjangoSaver, thread_id: str, count: int, *, branches: int) -> None:
    """Append checkpoints of 20 kB to a thread; at ``branches`` places it goes on from twenty steps back."""
    config: Any = history.timeline(thread_id, limit=1).steps[0].point.config
    made: list[Any] = []
    for number in range(count):
        if number and number % (count // (branches + 1)) == 0:
            config = made[-20]
        values = {"number": number, "text": f"{number % 7}" + "x" * 20_000}
        made.append(config := put(saver, thread_id, config, number, values=values))


def place_of(config: Any) -> str:
    return str(config["configurable"]["checkpoint_id"])
