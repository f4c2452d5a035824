"""A process that goes away still takes up runs that others left: it has to give them back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from agents import heartbeat, registry, runner, runs
from agents.models import Run
from agents.tests import graphs
from agents.tests.driving import start, step


def test_a_run_taken_up_twice_by_a_draining_process_is_given_back_both_times(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = heartbeat.Heartbeat()
    going.drain()
    with registry.override("paying", lambda: graphs.agent(graphs.into([]))):
        thread_id = start("paying", graphs.turns([("pay", {"amount": 5})]))
        with monkeypatch.context() as patch:
            patch.setattr(runner, "heartbeat", going)
            for _ in range(2):  # the first stores the message and no step; the second finds nothing to add
                lease = runs.claim(thread_id, "going away")
                assert lease is not None
                with pytest.raises(runner.Drained):
                    runner.advance(lease, emit=lambda event: None)
                runs.release(lease, requeue=True)
                run = Run.objects.get(thread=thread_id)
                assert (run.status, run.attempts, run.error) == ("pending", 0, "")
        outcome = step(thread_id)
    assert (outcome.status, len(outcome.asks)) == ("interrupted", 1)
