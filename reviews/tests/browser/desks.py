"""Desks as processes of their own: the embedded shape, and the production shape of daphne and a Celery worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.test import override_settings

from agents import demo
from project.services import free_port

LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S{20,}")
# What a test run sets for itself; a desk gets none of it.
OF_THE_RUN = {
    "DATABASE_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "HTTPS",
    "COLLECT_STATIC",
    "DJANGO_SETTINGS_MODULE",
    "DATA_DIR",
}
START_SECONDS = 60


@dataclass(frozen=True)
class Desk:
    """A desk that runs at ``url`` on ``data``. ``link`` is its one-time sign-in link, ``environment`` its variables.

    ``processes``: those of a production desk, ``web`` and ``worker``; ``log`` is what they say.
    """

    url: str
    data: Path
    link: str
    environment: dict[str, str]
    processes: Mapping[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return (self.data / "log").read_text()

    def effects(self, thread_id: str, kind: str = "") -> list[tuple[str, dict[str, Any]]]:
        """Return what tools really did in a thread, as (kind, arguments); reading does not count, unless asked for."""
        with override_settings(DATA_DIR=str(self.data)):
            found = demo.effects(kind, thread_id=thread_id)
        return [(effect["kind"], effect["args"]) for effect in found if effect["kind"] != "read" or kind]

    def run(self, *module: str) -> str:
        """Run a Python module with the desk's environment; returns what it printed."""
        return _run(self.environment, *module)


def _run(environment: dict[str, str], *module: str) -> str:
    command = [sys.executable, "-m", *module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _environment(data: Path, **own: str) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if name not in OF_THE_RUN}
    return {**base, "DATA_DIR": str(data), "POLL_SECONDS": "0.5", "DJANGO_SETTINGS_MODULE": "project.settings", **own}


# ------------------------------------------------------------------------------------------------------------- embedded


@contextmanager
def embedded(data: Path, module: str = "project.embedded", **own: str) -> Iterator[Desk]:
    """Run the embedded desk on ``data`` for as long as the block lasts."""
    port = free_port()
    environment = _environment(data, PORT=str(port), **own)
    with (data.parent / f"{data.name}.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        with process:
            try:
                yield Desk(f"http://127.0.0.1:{port}", data, _printed_link(process, log.name), environment)
            finally:
                _stop(process)
        assert "Traceback" not in Path(log.name).read_text(), Path(log.name).read_text()


def _printed_link(process: subprocess.Popen[str], log: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := LINK.search(line):
            return found.group()
    raise AssertionError(f"no link was printed: {Path(log).read_text()}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


# ----------------------------------------------------------------------------------------------------------- production


@contextmanager
def production(data: Path, module: str = "project", *, concurrency: int = 2, **own: str) -> Iterator[Desk]:
    """Run daphne and a Celery worker on a database of their own beside the one that DATABASE_URL names.

    ``module`` has the worker's application, and its agents; ``own`` are variables, those of the servers too.
    """
    port, name = free_port(), f"browser_{uuid.uuid4().hex[:12]}"
    with _database(own.pop("DATABASE_URL", "") or os.environ["DATABASE_URL"], name) as url:
        fixed = {
            "DATABASE_URL": url,
            "REDIS_URL": own.pop("REDIS_URL", "") or os.environ["REDIS_URL"],
            "REDIS_PREFIX": name,
            "SECRET_KEY": "only-for-this-run-" + uuid.uuid4().hex,
            "HTTPS": "false",
            "COLLECT_STATIC": "false",
        }
        environment = _environment(data, **(fixed | own))
        data.mkdir()
        _run(environment, "django", "migrate", "--verbosity", "0")
        _run(environment, *(["django"] if module == "project" else [module]), "seed_demo")
        address = f"http://127.0.0.1:{port}"
        with _processes(
            data, environment, port, worker=[module, "worker", "--concurrency", str(concurrency)]
        ) as processes:
            link = address + _run(environment, "django", "sign_in_link").strip()
            yield Desk(address, data, link, environment, processes)


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    try:
        yield f"{server.rsplit('/', 1)[0]}/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:  # anew: the test may have stopped the server
            connection.execute(f'drop database "{name}" with (force)')


@contextmanager
def _processes(
    data: Path, environment: dict[str, str], port: int, *, worker: list[str]
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    commands = {
        "web": ["daphne", "-b", "127.0.0.1", "-p", str(port), "project.asgi:application"],
        "worker": ["celery", "-A", *worker, "--loglevel", "WARNING"],
    }
    started: dict[str, subprocess.Popen[str]] = {}
    with (data / "log").open("w") as log:
        try:
            for name, command in commands.items():
                line = [sys.executable, "-m", *command]
                started[name] = subprocess.Popen(line, env=environment, stdout=log, stderr=log, text=True)
            _wait_for(port, Path(log.name))
            yield started
        finally:
            for process in reversed(started.values()):
                process.terminate()
                process.wait(timeout=60)


def _wait_for(port: int, log: Path) -> None:
    import socket

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)  # another process tells nobody that it listens
