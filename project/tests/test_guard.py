"""No test reaches a model."""

from __future__ import annotations

import socket

import pytest

from conftest import OutsideCall


@pytest.mark.parametrize("address", [("192.0.2.1", 443), ("model.example", 443)])
def test_a_connection_out_of_the_machine_is_refused(address: tuple[str, int]) -> None:
    with socket.socket() as link, pytest.raises(OutsideCall):
        link.connect(address)
    with socket.socket() as link, pytest.raises(OutsideCall):
        link.connect_ex(address)


def test_an_http_client_cannot_get_out_either() -> None:
    import httpx

    with pytest.raises((OutsideCall, httpx.ConnectError)):
        httpx.get("http://192.0.2.1/v1/models", trust_env=False, timeout=2)


def test_this_machine_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as link:
        link.connect(server.getsockname())
