"""``make bench-timeline``: pages of a long thread's timeline, against those of a short one, and against LangGraph's.

Two threads, of 100 and of 10,000 checkpoints, each checkpoint with 200 kB of state. Pages are asked for as a browser
asks, and their figure is the server's time for the whole answer. Beside the first page: ``get_state_history`` over the
saver that LangGraph ships for the same database, for as many checkpoints; it has only the newest hundred to look among.
What a busy thread writes in hours is written in seconds here, so PostgreSQL is asked for the statistics that its
autovacuum takes within a minute; without them it walks through the whole thread to find one checkpoint by its id.
Everything is written to a test database that is made and dropped here.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.benchmarks.database import test_database

SMALL, LARGE = 100, 10_000  # checkpoints
MESSAGES = 400  # about 200 kB
GROWTH = 1.5  # most that a figure of the long thread may be, in those of the short one
LIMITS = {"first page": 50.0, "fork": 100.0}  # ms

Action = Callable[[int], object]


def main() -> None:
    parser = argparse.ArgumentParser(description="Pages of a long thread's timeline.")
    parser.add_argument("--checkpoints", type=int, default=LARGE, help="of the long thread")
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    with test_database():
        measure(large=chosen.checkpoints, rounds=chosen.rounds)


def measure(*, large: int, rounds: int) -> None:
    """Print two lines a case: the long thread against the short one, and the figure itself against its limit."""
    from django.db import connection

    from agents.benchmarks.measure import Target, race, report_limit, report_time
    from agents.benchmarks.savers import sides
    from agents.checkpointer import DjangoSaver

    bench = f"timeline on {connection.display_name}"
    with tempfile.TemporaryDirectory() as folder, sides(Path(folder)) as (_, peer, _loop):
        desk = _Desk.opened()
        short, long = (desk.thread(DjangoSaver(), count) for count in (SMALL, large))
        theirs = _peer_page(peer)
        if connection.vendor == "postgresql":
            connection.cursor().execute("analyze")
        for case in ("first page", "middle page", "one checkpoint", "comparison", "fork"):
            actions = [desk.action(case, thread) for thread in (long, short)]
            pair = race(*actions, rounds=rounds, warm=3)
            report_time(bench, f"{case}, {large} checkpoints against {SMALL}", pair, Target(GROWTH))
            if case == "first page":
                beside = race(actions[0], theirs, rounds=rounds // 3, warm=1)
                report_time(bench, f"{case}, beside get_state_history", beside, None)
            report_limit(bench, f"{case}, {large} checkpoints", ms=pair.ours * 1e3, limit=LIMITS.get(case))


# ------------------------------------------------------------------------------------------------------------- threads


def written(saver: Any, thread_id: str, count: int) -> list[str]:
    """Write ``count`` checkpoints, each with another last message than its parent. Returns their ids, oldest first."""
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.base import empty_checkpoint

    from agents.benchmarks.agent import messages, text

    told, ids, version = messages(MESSAGES), list[str](), None
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for step in range(count):
        version = saver.get_next_version(version, None)
        last = AIMessage(content=text(f"answer {step}"), id=f"answer-{step}")
        values, versions = {"messages": [*told, last]}, {"messages": version}
        saved: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
        config = saver.put(config, saved, {"source": "loop", "step": step, "parents": {}}, versions)
        ids.append(saved["id"])
    return ids


def _peer_page(peer: Any) -> Action:
    from agents.benchmarks.agent import build
    from reviews.timeline import PAGE

    written(peer.saver, "long", SMALL)
    graph = build(calls=1).copy(update={"checkpointer": peer.saver})
    return lambda _: [*graph.get_state_history({"configurable": {"thread_id": "long"}}, limit=PAGE)]


@dataclass(frozen=True)
class _Thread:
    id: str
    ids: list[str]


@dataclass(frozen=True)
class _Desk:
    """A person at the desk who may see and do everything."""

    client: Any

    @classmethod
    def opened(cls) -> _Desk:
        from django.contrib.auth import get_user_model
        from django.test import Client

        from agents import registry

        registry.sync()
        client = Client(headers={"host": "localhost"})
        client.force_login(get_user_model().objects.create_superuser("root"))
        return cls(client)

    def thread(self, saver: Any, count: int) -> _Thread:
        from agents import runs

        thread_id = runs.create_thread("support")
        return _Thread(thread_id, written(saver, thread_id, count))

    def action(self, case: str, thread: _Thread) -> Action:
        middle, base = thread.ids[len(thread.ids) // 2], f"/threads/{thread.id}/checkpoints/"
        match case:
            case "first page":
                return lambda _: self._get(base)
            case "middle page":
                return lambda _: self._get(f"{base}?before={middle}")
            case "one checkpoint":
                return lambda _: self._get(f"{base}{middle}/?show=state")
            case "comparison":
                return lambda _: self._get(f"{base}{middle}/?with={thread.id}:{thread.ids[1]}")
        return lambda _: _fork(thread.id, middle)

    def _get(self, address: str) -> None:
        found = self.client.get(address)
        assert found.status_code == 200, (address, found.status_code)  # noqa: S101  # else the figure means nothing


def _fork(thread_id: str, checkpoint_id: str) -> None:
    from agents import history

    history.fork(thread_id, checkpoint_id, author="root", go_on=False)


if __name__ == "__main__":
    main()
