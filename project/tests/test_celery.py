"""Real workers of a production desk: woken through Redis, found by polling, drained by a deploy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.fixups.django import DjangoWorkerFixup
from django.db import connection

from agents import registry, runs
from agents.catalog import ENTRIES
from agents.models import Run
from project.celery import app, fork_without_connections, give_connections_back

pytestmark = [pytest.mark.production, pytest.mark.crash, pytest.mark.django_db(transaction=True)]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Start]:
    """Starts Celery workers on the test's database, with a place in Redis of their own; kills what is left."""
    base = os.environ["DATABASE_URL"].rsplit("/", 1)[0]
    own = {
        "DATABASE_URL": f"{base}/{connection.settings_dict['NAME']}",
        "REDIS_PREFIX": f"test-{uuid.uuid4().hex}",
        "DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "POLL_SECONDS": "0.5",
    }
    workers: list[subprocess.Popen[str]] = []

    def start(**environment: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "project",
            "worker",
            "--concurrency",
            "1",
            "--loglevel",
            "WARNING",
        ]
        process = subprocess.Popen(
            command,
            env={**os.environ, **own, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        workers.append(process)
        return process

    yield start
    for worker in workers:
        if worker.poll() is None:
            os.kill(worker.pid, signal.SIGQUIT)  # cold: its processes end with it
        worker.communicate(timeout=60)


def message(agent: str = "support") -> Run:
    """Somebody writes to an agent; no worker is told."""
    registry.sync()
    thread_id = runs.create_thread(agent, author="olga")
    say = ENTRIES[agent].openings[0].say
    return Run.objects.get(pk=runs.enqueue(thread_id, kind="input", payload={"text": say}, author="olga"))


def becomes(run: Run, *statuses: str, within: float = 60) -> str:
    """Wait until another process has brought ``run`` to one of ``statuses``; returns which."""
    deadline = time.monotonic() + within
    while True:
        run.refresh_from_db()
        if run.status in statuses:
            return str(run.status)
        assert time.monotonic() < deadline, f"still {run.status}: {run.error}"
        time.sleep(0.05)


def ended(worker: subprocess.Popen[str]) -> str:
    """Deploy: SIGTERM. Returns what the worker had to say, once it is gone in good order."""
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 0, errors
    assert "Traceback" not in errors, errors
    return errors


def test_a_worker_that_nobody_woke_finds_the_run_and_leaves_in_good_order(start_worker: Start) -> None:
    run = message()
    worker = start_worker()
    assert becomes(run, "interrupted", "error") == "interrupted"
    ended(worker)


def test_a_worker_that_is_woken_does_not_wait_for_its_poll(start_worker: Start, settings: Any) -> None:
    prefix = f"test-{uuid.uuid4().hex}"
    worker = start_worker(POLL_SECONDS="3600", REDIS_PREFIX=prefix)
    run = message()
    options = {**settings.CELERY_BROKER_TRANSPORT_OPTIONS, "global_keyprefix": f"{prefix}:"}
    with app.connection_for_write(transport_options=options) as link:
        app.send_task("reviews.advance", (str(run.thread_id),), connection=link)
    assert becomes(run, "interrupted", "error") == "interrupted"
    ended(worker)


def test_a_task_leaves_its_connection_in_the_pool_for_the_next() -> None:
    fixup = DjangoWorkerFixup(app)
    fixup.worker = SimpleNamespace(pool_cls="prefork")
    task = SimpleNamespace(request=SimpleNamespace(is_eager=False))
    pool = connection.pool  # type: ignore[attr-defined]
    for _ in range(3):
        fixup.on_task_prerun(task)
        connection.ensure_connection()
        fixup.on_task_postrun(task)
        give_connections_back(task=task)
        assert connection.connection is None  # another thread may have it
        assert connection.pool is pool  # type: ignore[attr-defined]
    assert not pool.closed


def test_a_worker_forks_without_connections() -> None:
    connection.ensure_connection()
    link, pool = connection.connection, connection.pool  # type: ignore[attr-defined]
    fork_without_connections()
    assert link.closed
    assert pool.closed


def test_a_deploy_stops_a_run_between_two_steps_and_the_next_worker_goes_on(start_worker: Start) -> None:
    run = message()
    slow = start_worker(AGENT_WORD_DELAY="0.5")
    becomes(run, "running")
    ended(slow)
    run.refresh_from_db()
    assert run.status == "pending"  # given back, not left to its lease
    start_worker()
    assert becomes(run, "interrupted", "error") == "interrupted"
