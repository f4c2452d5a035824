"""What holds for the whole test session: no test reaches a model, or anything else outside this machine."""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import close_old_connections


class OutsideCall(AssertionError):
    """A test tried to leave the machine."""


def _is_local(address: Any) -> bool:
    if not isinstance(address, tuple):  # a Unix socket
        return True
    host = address[0]
    try:
        return host in ("", "localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def forbid_model_calls() -> Iterator[None]:
    """Let sockets connect to loopback addresses only, in all threads; processes that tests start have no guard."""
    patch = pytest.MonkeyPatch()
    for name in ("connect", "connect_ex"):
        patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def sockets_give_their_connections_back() -> Iterator[None]:
    """Undo that channels.testing keeps the connections of sockets open, in dead threads: the pool ran empty."""
    patch = pytest.MonkeyPatch()
    patch.setattr("channels.testing.application.no_op", close_old_connections)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def nothing_is_done_again_for_each_test() -> Iterator[None]:
    """Leave out what takes a third of the time of a test that opens pages, and shows nothing to any of them."""
    from django.test import TransactionTestCase

    from project.static import StaticFiles
    from project.tests.emptying import empty_tables

    patch = pytest.MonkeyPatch()
    patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
    patch.setattr(StaticFiles, "add_files_from_finders", _once(StaticFiles.add_files_from_finders))
    patch.setattr("django.test.client.store_rendered_templates", lambda *given, **rendered: None)  # copies each context
    yield
    patch.undo()


def _once(add_files: Any) -> Any:
    """Each client of Django's has a handler of its own, which would look at each static file on the disk."""
    found: dict[str, Any] = {}

    def add_found(static_files: Any) -> None:
        if not found:
            add_files(static_files)
            found.update(static_files.files)
        static_files.files.update(found)

    return add_found


def pytest_collection_finish() -> None:
    """What is imported stays until the end: the collector of garbage took a tenth of the time to walk through it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of production need its services; `make test` starts both, a plain pytest run leaves these out."""
    missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]
    if missing:
        skip = pytest.mark.skip(reason=f"needs {' and '.join(missing)}; `make test` or `make services` sets them")
        for item in items:
            if item.get_closest_marker("production"):
                item.add_marker(skip)


def _guarded(connect: Any) -> Any:
    def local_only(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address):
            self.close()  # clients close it on an OSError only, and a leak would be reported in its place
            raise OutsideCall(f"A test must not leave this machine, and tried to reach {address!r}.")
        return connect(self, address)

    return local_only
