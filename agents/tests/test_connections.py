"""Database calls from foreign threads: few connections, none left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.db import connections as django_connections

from agents import connections, statements
from agents.models import Agent
from agents.tests.driving import until
from agents.tests.forking import DONE, in_child


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    connections.close_all()


def thread_id() -> int:
    return threading.get_ident()


def add(name: str, *, fail: bool = False) -> int:
    Agent.objects.create(name=name, title=name)
    if fail:
        raise KeyError(name)
    return threading.get_ident()


def link() -> int:
    return id(connections.current())


@pytest.mark.django_db(transaction=True)
def test_a_call_has_a_connection_that_is_not_the_callers_and_shares_it_with_calls_from_there() -> None:
    assert connections.run(add, "one") == thread_id()
    assert connections.run(link) != link()
    outer, inner = connections.run(lambda: (link(), connections.run(link)))
    assert outer == inner
    assert Agent.objects.get().name == "one"


@pytest.mark.django_db(transaction=True)
def test_a_plain_call_leaves_django_alone_until_one_inside_of_it_needs_it() -> None:
    def plain() -> tuple[int, int, int, int]:
        return link(), id(django_connections["default"]), connections.run(link), connections.run(django_link)

    def django_link() -> int:
        return id(django_connections["default"])

    mine = django_link()
    lent, seen, inner, seen_inside = connections.run_plain(plain)
    assert lent != mine
    assert seen == mine
    assert inner == seen_inside == lent
    assert django_link() == mine


@pytest.mark.django_db(transaction=True)
async def test_an_event_loop_waits_where_it_is_and_runs_on() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(SynchronousOnlyOperation):
        add("refused by Django")
    assert connections.run(add, "one") == thread_id()
    assert await connections.arun(add, "two") == thread_id()
    with pytest.raises(KeyError, match="three"):
        await connections.arun(add, "three", fail=True)
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)
    with pytest.raises(SynchronousOnlyOperation):
        add("still refused")


@pytest.mark.django_db(transaction=True)
def test_a_caller_without_a_connection_is_left_without_one() -> None:
    found: list[Any] = []

    def call() -> None:
        connections.run(add, "one")
        found.extend(django_connections.all(initialized_only=True))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found == []
    assert Agent.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_caller_in_a_transaction_keeps_it() -> None:
    with pytest.raises(KeyError), transaction.atomic():
        assert connections.run(add, "one") == thread_id()
        raise KeyError
    assert not Agent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_error_comes_back_and_leaves_the_thread_usable() -> None:
    with pytest.raises(KeyError, match="one"):
        connections.run(add, "one", fail=True)
    connections.run(add, "two")
    assert set(Agent.objects.values_list("name", flat=True)) == {"one", "two"}


@pytest.mark.django_db(transaction=True)
def test_few_connections_are_kept_open_and_the_others_go_back_to_the_pool() -> None:
    both = threading.Barrier(connections.MAX_CALLS if connection.vendor == "postgresql" else 1)

    def together() -> int:
        both.wait(timeout=20)
        return link()

    with ThreadPoolExecutor(both.parties) as threads:
        used = [*threads.map(lambda _: connections.run(together), range(both.parties))]
    assert len(set(used)) == both.parties
    again = [connections.run(link) for _ in range(5)]
    assert len(set(again)) == 1
    assert set(again) <= set(used)
    assert len(connections._desk.idle) == min(connections.KEPT, both.parties)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="SQLite has no server that restarts")
def test_a_connection_that_its_server_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TRUST", 0.0)
    [[pid]] = connections.run(statements.execute, "select pg_backend_pid()")
    assert connections.run(statements.execute, "select pg_backend_pid()") == [(pid,)]
    statements.execute("select pg_terminate_backend(%s)", [pid])
    until(lambda: not statements.execute("select 1 from pg_stat_activity where pid = %s", [pid]))
    [[other]] = connections.run(statements.execute, "select pg_backend_pid()")
    assert other != pid


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="SQLite has no server to ask")
def test_a_connection_is_asked_only_when_it_was_long_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def is_usable(self: Any) -> bool:
        asked.append(id(self))
        return True

    monkeypatch.setattr(type(django_connections["default"]), "is_usable", is_usable)
    kept = connections.run(link)
    assert (connections.run(link), asked) == (kept, [])
    monkeypatch.setattr(connections, "_TRUST", 0.0)
    assert (connections.run(link), asked) == (kept, [])
    monkeypatch.setattr(connections, "_DOUBT", 0.0)
    assert (connections.run(link), asked) == (kept, [kept])


@pytest.mark.django_db(transaction=True)
def test_a_forked_child_has_seats_of_its_own() -> None:
    connections.run(thread_id)
    while not connections._desk.seats.empty():  # as if calls were under way in other threads
        connections._desk.seats.get()
    assert in_child(lambda: connections.run(thread_id), close=False) == DONE  # would hang, waiting for a seat
