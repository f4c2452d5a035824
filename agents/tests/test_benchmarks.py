"""The benchmark reports what it measured: one line of JSON a case, judged by its target."""

from __future__ import annotations

import json

import pytest

from agents.benchmarks import agent, measure
from agents.benchmarks.measure import Pair, Target


def test_each_goes_first_in_every_other_round_and_warming_up_does_not_count() -> None:
    heard: list[str] = []
    pair = measure.race(lambda n: heard.append(f"o{n}"), lambda n: heard.append(f"p{n}"), rounds=2, warm=1)
    assert heard == ["o0", "p0", "p1", "o1", "o2", "p2"]
    assert min(pair.ours, pair.peer, pair.ratio) > 0


def test_a_line_says_whether_the_target_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair(ours=0.001, peer=0.004, ratio=0.25)
    measure.report_time("b", "slow", pair, Target(0.2))
    measure.report_rate("b", "fast", pair, Target(3.0, at_least=True))
    measure.report_rate("b", "free", pair, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {
        "bench": "b", "case": "slow", "unit": "ms", "ours": 1.0, "peer": 4.0, "ratio": 0.25,
        "target": "<= 0.2", "ok": False,
    }  # fmt: skip
    assert (lines[1]["ours"], lines[1]["ratio"], lines[1]["ok"]) == (1000.0, 4.0, True)
    assert (lines[2]["target"], lines[2]["ok"]) == (None, None)


def test_the_words_are_the_same_each_time_and_hardly_repeat() -> None:
    assert agent.text("x") == agent.text("x") != agent.text("y")
    told = agent.messages(8)
    assert [message.type for message in told] == ["human", "ai", "tool", "ai"] * 2
    assert len({message.text for message in told}) == 8


def test_the_agent_takes_twice_as_many_steps_as_it_calls_and_one() -> None:
    found = agent.build(calls=10).invoke({"messages": agent.messages(1)})
    assert [message.type for message in found["messages"]] == ["human", *["ai", "tool"] * 10, "ai"]
