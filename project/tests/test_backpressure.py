"""A browser that does not read makes the application wait, behind a real daphne."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from project.backpressure import Patient
from project.services import free_port

# Sends a mebibyte at a time and says how many have left; one socket is enough to fill it.
_SERVER = """
import sys
from daphne.server import Server
from project.backpressure import Patient

async def flood(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    for number in range(1, 41):
        await send({"type": "websocket.send", "text": "x" * 1_048_576})
        print(number, flush=True)
    await send({"type": "websocket.close"})

port = int(sys.argv[1])
ready = lambda: print("ready", flush=True)
Server(Patient(flood), [f"tcp:port={port}:interface=127.0.0.1"], signal_handlers=False, ready_callable=ready).run()
"""
_ASK = (
    b"GET /ws/ HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.long
def test_what_a_browser_does_not_read_waits_in_the_application_and_arrives_when_it_does() -> None:
    port = free_port()
    command = [sys.executable, "-c", _SERVER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = _Said(server)
            said.wait_for("ready")
            with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
                line.sendall(_ASK)
                said.wait_for("1")
                assert not said.comes("35", within=1.0)  # the kernel's buffers take some, no matter how many are sent
                read = 0
                while read < 40 * 1_048_576:
                    read += len(line.recv(1_048_576))
                said.wait_for("40")
        finally:
            server.kill()


class _Said:
    """What a process prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self.news = threading.Condition()
        threading.Thread(target=self._read, args=[process], daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self.news:
                self.lines.append(line.strip())
                self.news.notify_all()

    def comes(self, line: str, *, within: float) -> bool:
        with self.news:
            return self.news.wait_for(lambda: line in self.lines, within)

    def wait_for(self, line: str) -> None:
        assert self.comes(line, within=60), self.lines


async def test_another_server_is_left_as_it_is() -> None:
    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(send)

    async def send(message: Any) -> None: ...

    await Patient(inner)({}, None, send)
    assert seen == [send]
