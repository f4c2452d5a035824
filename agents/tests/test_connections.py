"""Database calls from foreign threads: few connections, none left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from agents import connections
from agents.models import Agent


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


@pytest.mark.django_db(transaction=True)
def test_a_call_runs_elsewhere_and_a_call_from_there_runs_at_once() -> None:
    assert connections.run(add, "one") != thread_id()
    outer, inner = connections.run(lambda: (thread_id(), connections.run(thread_id)))
    assert outer == inner
    assert Agent.objects.get().name == "one"


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
async def test_many_calls_share_a_few_threads() -> None:
    used = await asyncio.gather(*(connections.arun(add, f"agent-{number}") for number in range(40)))
    assert len(set(used)) <= connections.MAX_THREADS
    assert thread_id() not in used


def idle_connection() -> bool:
    return connection.connection is None


@pytest.mark.django_db(transaction=True)
def test_postgresql_gets_its_connection_back_and_sqlite_keeps_it() -> None:
    for number in range(connections.MAX_THREADS):
        connections.run(add, f"agent-{number}")
    assert connections.run(idle_connection) == (connection.vendor == "postgresql")


@pytest.mark.django_db(transaction=True)
def test_a_forked_child_makes_threads_of_its_own() -> None:
    connections.run(thread_id)
    child = os.fork()
    if child == 0:  # no assertion may leave this block: the child would run the rest of the tests
        os._exit(0 if connections.run(lambda: 7) == 7 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
