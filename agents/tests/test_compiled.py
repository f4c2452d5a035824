"""Compiled queries return what the ORM returns, on each database, and write their text once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import models
from django.db.models import Exists, F, OuterRef, Value
from django.db.models.functions import Cast, Now
from django.db.models.sql.compiler import SQLCompiler

from agents.compiled import Compiled, CompiledUpdate
from agents.models import Agent, Run, Thread

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
