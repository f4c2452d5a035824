"""What holds for the whole test session: no test reaches a model, or anything else outside this machine."""

from __future__ import annotations

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
