"""A process is told to go away while it holds runs, and while it takes one up."""

from __future__ import annotations

import uuid

from agents import runs
from agents.heartbeat import DEPLOY, Heartbeat
from agents.runs import Lease


def lease() -> Lease:
    return Lease(**dict.fromkeys(Lease.__dataclass_fields__) | {"run_id": str(uuid.uuid4())})  # type: ignore[arg-type]


def test_a_run_that_is_held_hears_of_the_drain_and_one_that_has_ended_does_not() -> None:
    heartbeat, held, over = Heartbeat(), list[runs.Beat](), list[runs.Beat]()
    with heartbeat.keep(lease(), over.append):
        pass
    with heartbeat.keep(lease(), held.append):
        heartbeat.drain()
    assert (held, over) == ([runs.Beat(lost=False, stop=DEPLOY)], [])


def test_a_run_that_is_taken_up_after_the_drain_hears_of_it_at_once() -> None:
    heartbeat, told = Heartbeat(), list[runs.Beat]()
    heartbeat.drain()
    with heartbeat.keep(lease(), told.append):
        assert told == [runs.Beat(lost=False, stop=DEPLOY)]
