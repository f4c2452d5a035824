"""Compiled queries return what the ORM returns, on each database, and write their text once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Cast, Coalesce, Now
from django.db.models.sql.compiler import SQLCompiler, SQLInsertCompiler

from agents.compiled import Compiled, CompiledDelete, CompiledUpdate, attach, insert
from agents.models import Agent, LedgerIncident, Run, Thread, ToolPermit

pytestmark = pytest.mark.django_db

RUN = Compiled(lambda pk: Run.objects.filter(pk=pk).select_related("thread", "follows"))


@pytest.fixture
def run() -> Run:
    agent = Agent.objects.create(name="clerk", version="1")
    thread = Thread.objects.create(agent=agent, title="It's 100 % “theirs”", author="ann")
    return Run.objects.create(
        thread=thread, kind="input", position=1, payload={"a": [1, None]}, context={"b": "\u2028"}
    )


def test_an_object_is_the_one_that_the_orm_returns(run: Run) -> None:
    [ours] = RUN(run.pk)
    theirs = Run.objects.select_related("thread", "follows").get(pk=run.pk)
    ours_state, theirs_state = (vars(one) | {"_state": None} for one in (ours, theirs))
    assert ours_state == theirs_state
    assert vars(ours.thread) | {"_state": None} == vars(theirs.thread) | {"_state": None}
    assert ours._state.adding is False
    assert ours._state.fields_cache["follows"] is None  # asked with it, and not there: never asked again
    assert ours.created_at.tzinfo is not None


def test_a_parameter_is_prepared_as_its_column_wants_it(run: Run) -> None:
    assert RUN(str(run.pk)) == RUN(run.pk) == [run]  # a UUID is 32 letters on SQLite
    since = Compiled(lambda at, thread: Run.objects.filter(created_at__gte=at, thread=thread).values_list("pk"))
    assert since(run.created_at - timedelta(seconds=1), run.thread_id) == [(run.pk,)]
    assert since(models.DateTimeField().to_python("2200-01-01T00:00:00+00:00"), run.thread_id) == []


def test_a_list_is_one_parameter(run: Run) -> None:
    some = Compiled(lambda ids: Run.objects.filter(pk__any_of=ids).values_list("pk", flat=True))
    other = Run.objects.create(thread=run.thread, kind="input", position=2)
    assert sorted(some([run.pk, str(other.pk)])) == sorted([run.pk, other.pk])
    assert some([other.pk]) == [other.pk]
    assert some([]) == []
    in_threads = Compiled(lambda ids: Run.objects.filter(thread__any_of=ids).values_list("pk", flat=True))
    assert sorted(in_threads([run.thread_id, "another"])) == sorted([run.pk, other.pk])


def test_parameters_inside_subqueries_and_annotations_know_their_columns(run: Run) -> None:
    mine = Run.objects.filter(thread=OuterRef("pk"))
    busy = Compiled(
        lambda kind, last, author: (
            Thread.objects.filter(Exists(mine.filter(kind=kind)), author=author)
            .annotate(late=Exists(mine.filter(position__gt=last)), word=Value("x"))
            .order_by("-created_at")[:1]
        )
    )
    found = busy.first("input", 0, "ann")
    assert found is not None
    assert (found.pk, found.late, found.word) == (run.thread_id, True, "x")
    assert [one.late for one in busy("input", 1, "ann")] == [False]
    assert busy.first("resume", 0, "ann") is None
    of_author = Compiled(
        lambda author, kind: Run.objects.filter(
            Q(kind=kind) | Q(thread__in=Thread.objects.filter(author=author).values("pk"))
        )
    )
    assert of_author("ann", "replay") == of_author("ben", "input") == [run]
    assert of_author("ben", "replay") == []


def test_an_update_writes_given_and_fixed_values_and_counts(run: Run) -> None:
    move = CompiledUpdate(
        lambda pk, title, was: (
            Thread.objects.filter(pk=pk, status=was),
            {"title": title, "token": F("token") + 1, "updated_at": Now(), "error": "said"},
        )
    )
    before = Thread.objects.get(pk=run.thread_id)
    assert move(before.pk, "A 'new' one", before.status) == 1
    after = Thread.objects.get(pk=before.pk)
    assert (after.title, after.token, after.error) == ("A 'new' one", before.token + 1, "said")
    assert after.updated_at > before.updated_at
    assert move(before.pk, "never", "no such status") == 0
    point = CompiledUpdate(lambda pk, run: (Run.objects.filter(pk=pk), {"follows": run, "payload": None}))
    assert point(run.pk, str(run.pk)) == 1
    run.refresh_from_db()
    assert (run.follows_id, run.payload) == (run.pk, None)


def test_an_update_may_keep_what_stands_where_none_is_given(run: Run) -> None:
    close = CompiledUpdate(
        lambda pk, waits, head: (
            Thread.objects.filter(pk=pk),
            {"waits": Coalesce(waits, F("waits")), "head": Coalesce(head, F("head"))},
        )
    )
    assert close(run.thread_id, True, "c1") == close(run.thread_id, None, None) == 1
    thread = Thread.objects.get(pk=run.thread_id)
    assert (thread.waits, thread.head) == (True, "c1")
    assert close(run.thread_id, False, "c2") == 1
    thread.refresh_from_db()
    assert (thread.waits, thread.head) == (False, "c2")


def test_a_deletion_takes_its_rows_only_and_counts(run: Run) -> None:
    for kind in ("late", "late", "rejected"):
        LedgerIncident.objects.create(thread=run.thread, kind=kind)
    forget = CompiledDelete(lambda kind, author: LedgerIncident.objects.filter(kind=kind, thread__author=author))
    assert forget("late", "ben") == 0
    assert forget("late", "ann") == 2
    assert [one.kind for one in LedgerIncident.objects.all()] == ["rejected"]


def _permit(run: Run, **more: Any) -> ToolPermit:
    return ToolPermit(run=run, thread=run.thread, interrupt_id="i 'q' %s", verdict="approve", **more)


def test_an_insert_stores_what_the_orm_stores(run: Run) -> None:
    first = _permit(run, args={"a": [1.0, None]}, position=3)
    insert([first])
    assert first.pk is not None
    assert first._state.adding is False
    theirs = _permit(run, args={"a": [1.0, None]}, position=3)
    theirs.save(force_insert=True)
    ours, theirs = (ToolPermit.objects.get(pk=one.pk) for one in (first, theirs))
    differing = {"_state": None, "id": None, "created_at": None}
    assert vars(ours) | differing == vars(theirs) | differing
    assert timedelta() <= theirs.created_at - ours.created_at < timedelta(seconds=10)
    insert([_permit(run, pk=first.pk + 100)])
    assert ToolPermit.objects.latest("pk").pk == first.pk + 100
    child = Run(thread_id=run.thread_id, kind="resume", follows_id=str(run.pk), payload={"b": 2})
    insert([child])
    stored = Run.objects.get(pk=child.pk)
    assert (stored.follows_id, stored.payload, stored.context) == (run.pk, {"b": 2}, None)


def test_an_insert_may_hold_expressions_and_keeps_their_texts_apart(run: Run) -> None:
    insert([_permit(run, name="said")])
    insert([_permit(run, name=Value("in SQL"))])
    insert([_permit(run, name=Value("otherwise"), created_at=run.created_at)])
    found = ToolPermit.objects.order_by("pk")
    assert [one.name for one in found] == ["said", "in SQL", "otherwise"]
    assert found[2].created_at == run.created_at


def test_several_rows_are_inserted_at_once_and_one_is_written_once(run: Run, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        insert([_permit(run, position=place) for place in range(3)])
    with django_assert_num_queries(0):
        insert([])
    assert [one.position for one in ToolPermit.objects.order_by("pk")] == [0, 1, 2]
    insert([_permit(run)])
    with patch.object(SQLInsertCompiler, "as_sql", side_effect=AssertionError), django_assert_num_queries(1):
        insert([_permit(run)])
    assert ToolPermit.objects.count() == 5


def test_attached_rows_are_asked_for_no_more(run: Run, django_assert_num_queries: Any) -> None:
    insert([_permit(run, position=place) for place in range(2)])
    permits = list(ToolPermit.objects.order_by("position"))
    attach(run, "permits", permits)
    with django_assert_num_queries(0):
        assert list(run.permits.all()) == permits
        assert all(one.run is run for one in run.permits.all())


def test_the_orm_writes_the_text_once(run: Run, django_assert_num_queries: Any) -> None:
    mine = Compiled(lambda pk: Run.objects.filter(pk=pk).values_list("pk", "kind"))
    assert mine(run.pk) == [(run.pk, "input")]
    with patch.object(SQLCompiler, "as_sql", side_effect=AssertionError), django_assert_num_queries(1):
        assert mine(run.pk) == [(run.pk, "input")]


def test_what_cannot_be_compiled_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="are not: word"):
        Compiled(lambda word: Run.objects.annotate(word=Cast(word, models.TextField())))("x")
    with pytest.raises(TypeError, match="without prefetched others"):
        Compiled(lambda: Thread.objects.prefetch_related("runs"))()
    with pytest.raises(TypeError, match="can be compiled"):
        Compiled(lambda: Thread.objects.values("pk"))()
    with pytest.raises(ValueError, match="shorter"):
        RUN()
