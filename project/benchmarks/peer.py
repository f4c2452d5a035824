"""The peer of ``make bench-click``: the same agent under ``langgraph dev``, LangGraph's own server for development."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from project.services import free_port

START_SECONDS = 120
ROOT = Path(__file__).resolve().parent.parent.parent
WARM = 2


def measure(command: str, *, rounds: int) -> list[float]:
    """Return the milliseconds from the request that resumes a thread to the tool's message, for each round."""
    with _running(command) as http:
        return [_resume(http, number) for number in range(WARM + rounds)][WARM:]


@contextmanager
def _running(command: str) -> Iterator[httpx.Client]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="countersign-peer-") as folder:
        graphs = {"till": f"{ROOT / 'agents' / 'benchmarks' / 'players.py'}:graph"}
        Path(folder, "langgraph.json").write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": graphs}))
        options = ["dev", "--host", "127.0.0.1", "--port", str(port), "--no-browser", "--no-reload"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        log = Path(folder, "log")
        with log.open("w") as said:
            process = subprocess.Popen(  # noqa: S603  # the command is the bench's own
                [Path(command).absolute(), *options], cwd=folder, env=environment, stdout=said, stderr=said
            )
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                    _wait(http, process, log)
                    yield http
            finally:
                process.terminate()
                process.wait(timeout=30)


def _wait(http: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if http.get("/ok").status_code == 200:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"langgraph dev did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


def _resume(http: httpx.Client, number: int) -> float:
    thread = http.post("/threads", json={}).json()["thread_id"]
    said = {"messages": [{"role": "human", "content": str(number)}]}
    http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "till", "input": said}).raise_for_status()
    (interrupts,) = http.get(f"/threads/{thread}").json()["interrupts"].values()
    answer = {interrupts[0]["id"]: {"decisions": [{"type": "approve"}]}}
    body = {"assistant_id": "till", "command": {"resume": answer}, "stream_mode": ["updates"]}
    before = time.perf_counter()
    with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as answer_stream:
        for line in answer_stream.iter_lines():
            if f"Paid number {number}." in line:
                return (time.perf_counter() - before) * 1e3
    raise AssertionError("The tool's result did not come.")
