"""The embedded desk: web server, worker and poller in one process, on one machine. ``python -m project.embedded``.

It runs the same code as production, over SQLite, an in-memory broker and an in-memory channel layer.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

HOST = "127.0.0.1"
WORKERS = 4  # threads that run agents
DRAIN_SECONDS = 5.0  # for runs to reach a safe point after Ctrl-C; what does not is taken up again at the next start
SWITCH_SECONDS = 0.0005  # a thread that waits for its turn asks for it after this; ten times that is Python's own
LEAVE_SECONDS = 12.0  # from Ctrl-C to the end, whatever hangs


class CannotStart(Exception):
    """The desk cannot start, and the message says in plain words what to do about it."""


def main() -> int:
    """Run the desk until Ctrl-C. Returns the exit code: 0 when stopped by a person, 1 when it could not start."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    ctrl_c = CtrlC()
    ctrl_c.listen()
    try:
        port = chosen_port()
        lock = prepare()
    except CannotStart as reason:
        print(f"Countersign did not start. {reason}", file=sys.stderr)
        return 1
    sys.setswitchinterval(SWITCH_SECONDS)
    worker = Worker()
    serve(port, ctrl_c, worker.start)
    print("\nStopping; what is under way is kept and goes on at the next start.", flush=True)
    worker.stop()
    lock.close()
    return 0


class CtrlC:
    """Ctrl-C or SIGTERM, heard by a thread of its own.

    As Python's exception it got lost where a library catches all, as Twisted does at its start, and it came late while
    the main thread waited for the database. The first press ends the process in order, or at once while nothing runs
    yet. It is over at once at the second press, and LEAVE_SECONDS after the first.
    """

    def __init__(self) -> None:
        self.pressed = threading.Event()
        self._in_order: Callable[[], object] | None = None
        self._heard, self._interpreter = socket.socketpair()

    def listen(self) -> None:
        self._interpreter.setblocking(False)
        signal.set_wakeup_fd(self._interpreter.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._hear, name="ctrl-c", daemon=True).start()

    def then(self, end_in_order: Callable[[], object]) -> None:
        """Have a press end the process in order from now on: with this, which must not wait."""
        self._in_order = end_in_order

    def _hear(self) -> None:
        self._wait(None)
        self.pressed.set()
        if self._in_order is not None:
            self._in_order()
            self._wait(LEAVE_SECONDS)
        os._exit(0)

    def _wait(self, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while select.select([self._heard], [], [], None if end is None else max(0, end - time.monotonic()))[0]:
            if self._heard.recv(1)[0] in (signal.SIGINT, signal.SIGTERM):
                return


# ------------------------------------------------------------------------------------------------- before anything runs


def chosen_port() -> int:
    """Return the port of the environment, 8000 by default. Raises CannotStart where it is no port, or is in use."""
    text = os.environ.get("PORT", "8000")
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise CannotStart(f"PORT is {text!r}, which is no port. Choose a number from 1 to 65535: PORT=8001 make run")
    port = int(text)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise CannotStart(f"Port {port} is reserved for root. Choose another: PORT=8001 make run") from None
        except OSError:
            other = port + 1 if port < 65_535 else 8001
            raise CannotStart(f"Port {port} is in use. Choose another: PORT={other} make run") from None
    return port


def prepare() -> IO[str]:
    """Read the settings, take the data folder for this process alone, bring the database up to date.

    Returns the lock, to be held while the desk runs. Raises CannotStart.
    """
    import django
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        django.setup()
        lock = _locked(Path(settings.DATA_DIR))
    except ImproperlyConfigured as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(
            f"Its data folder cannot be written: {error.strerror} ({error.filename}). "
            "Make it writable, or choose another: DATA_DIR=~/countersign make run"
        ) from None
    if not settings.EMBEDDED:
        raise CannotStart(
            "DATABASE_URL or REDIS_URL is set, which asks for a production desk; README.md says how to run one. "
            "For the desk on one machine unset both."
        )
    _migrate(Path(settings.DATABASES["default"]["NAME"]))
    return lock


def _locked(folder: Path) -> IO[str]:
    """Two desks on one SQLite file would not hear each other's hints, so the second one is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CannotStart(
            f"Another desk runs on {folder}. Stop that one, or give this one a folder of its own: "
            "DATA_DIR=~/countersign make run"
        ) from None
    return lock


def _migrate(database: Path) -> None:
    from django.core.management import call_command
    from django.db import DatabaseError

    try:
        call_command("migrate", interactive=False, verbosity=0)
        _seed()
    except DatabaseError as error:
        raise CannotStart(
            f"The database {database} could not be brought up to date: {error}. "
            "Make the file and its folder writable, or move the file away to begin with an empty desk."
        ) from error


def _seed() -> None:
    """Bring the agents up to date. Give a new desk something to decide on; one with threads keeps what it has."""
    from django.core.management import call_command

    from agents.models import Thread

    command = "sync_agents" if Thread.objects.exists() else "seed_demo"
    call_command(command, stdout=io.StringIO())


# ---------------------------------------------------------------------------------------------------------- the process


class Worker:
    """The poller and a Celery worker, in threads of this process."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        from agents.runs import claimable
        from reviews.tasks import start_poller, wake

        self._stops.append(start_poller().stop)
        self._stops.append(_start_celery())
        for thread_id in claimable():  # what waits since the last stop need not wait for the first poll
            wake(thread_id)

    def stop(self) -> None:
        """Let runs come to a safe point, then leave, even when a tool still blocks; the next start takes its run up."""
        stopping = threading.Thread(target=lambda: [stop() for stop in self._stops], name="drain", daemon=True)
        stopping.start()
        stopping.join(DRAIN_SECONDS)
        if stopping.is_alive():
            sys.stdout.flush()
            os._exit(0)  # the interpreter would wait for the blocked thread, however long


def _start_celery() -> Callable[[], None]:
    """Start a Celery worker in a thread. Returns what stops it and waits until it has stopped."""
    from celery.worker import WorkController, state

    from project.celery import app

    app.set_default()
    worker = WorkController(
        app=app,
        pool="threads",
        concurrency=WORKERS,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
    )
    thread = threading.Thread(target=worker.start, name="celery", daemon=True)
    thread.start()

    def stop() -> None:
        while state.reserved_requests:  # they are drained; Celery walks over this set while tasks would leave it
            time.sleep(0.01)
        state.should_stop = 0  # read by its own thread: stopped from ours, it would still take messages
        thread.join()

    return stop


def serve(port: int, ctrl_c: CtrlC, begin: Callable[[], None]) -> None:
    """Begin the work, and serve pages and sockets, until Ctrl-C."""
    from daphne.server import Server, reactor, twisted_loop

    from project.asgi import application

    server = Server(
        application=application,
        endpoints=[f"tcp:port={port}:interface={HOST}"],
        signal_handlers=False,
        ready_callable=lambda: print(welcome(f"http://{HOST}:{port}"), flush=True),
        application_close_timeout=2,
        websocket_connect_timeout=20,  # after a restart all pages open theirs at once: 500 took 5 seconds
        server_name="countersign",
    )
    # Called by the reactor once it runs, or by the loop below where it never did.
    ctrl_c.then(lambda: reactor.callFromThread(lambda: reactor.running and reactor.stop()))
    begin()
    if not ctrl_c.pressed.is_set():
        server.run()
    twisted_loop.run_until_complete(_close_sockets())


async def _close_sockets() -> None:
    """End what open pages left waiting: daphne stops its loop before they are done, and Python crashes at its exit."""
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=2)


def welcome(address: str) -> str:
    """Return what a person reads at the start: where the desk is, and a link that signs in once."""
    from django.conf import settings

    from reviews.signin import create_link

    return (
        f"\nCountersign runs at {address}/\n\n"
        f"Open this link to sign in. It works once; the next start prints a new one.\n\n"
        f"    {address}{create_link()}\n\n"
        f"Everything is kept in {settings.DATA_DIR}. Ctrl-C stops the desk.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
