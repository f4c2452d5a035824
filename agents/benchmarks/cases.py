"""What is measured of checkpoints: runs, puts, a long conversation's bytes, and reading from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Command

from agents.benchmarks.agent import build, messages, text
from agents.benchmarks.measure import Target, race, report, report_rate, report_time
from agents.benchmarks.savers import Loop, Side

PAGE = 50
TURNS = (100, 200, 400)  # four messages and five steps each
READ_AT = 200  # turns
APPROVAL = {"decisions": [{"type": "approve"}]}

Action = Callable[[int], object]


@dataclass(frozen=True)
class Bench:
    """Both sides. ``only``: cases whose name does not hold it are left out."""

    ours: Side
    peer: Side
    loop: Loop
    name: str
    only: str = ""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.ours, self.peer

    @property
    def postgres(self) -> bool:
        return self.peer.path is None

    def wants(self, case: str) -> bool:
        return self.only in case


# ---------------------------------------------------------------------------------------------------------------- runs


def runs(bench: Bench, *, rounds: int = 40, warm: int = 5) -> None:
    """Interrupt and resume, and 20 steps: a new thread each round, as sync and as async graphs."""
    target = Target(1.0 if bench.postgres else 1.1)
    cases: list[tuple[str, Any, Callable[..., Action]]] = [
        ("interrupt and resume", build(calls=1, asks=True), _paused),
        ("run of 20 steps", build(calls=10), _straight),
    ]
    for case, graph, act in cases:
        for kind in ("sync", "async"):
            if not bench.wants(label := f"{case}, {kind}"):
                continue
            for side in bench.sides:
                side.begin(*(f"{label} {number}" for number in range(warm + rounds)))
            ours, peer = (act(bench, side, graph, label) for side in bench.sides)
            report_time(bench.name, label, race(ours, peer, rounds=rounds, warm=warm), target)


def _driver(bench: Bench, side: Side, graph: Any, label: str) -> Callable[[Any, Any], Any]:
    """Return a function that runs the graph to its next stop."""
    is_async = label.endswith("async")
    ready = graph.copy(update={"checkpointer": side.async_saver if is_async else side.saver})

    def drive(value: Any, config: Any) -> Any:
        if is_async:
            return bench.loop.run(ready.ainvoke(value, config, durability="sync"))
        return ready.invoke(value, config, durability="sync")

    return drive


def _paused(bench: Bench, side: Side, graph: Any, label: str) -> Action:
    drive = _driver(bench, side, graph, label)

    def action(number: int) -> object:
        config = side.at(f"{label} {number}")
        [asked] = drive(_said("Please look this up."), config)["__interrupt__"]
        return drive(Command(resume={asked.id: APPROVAL}), config)

    return action


def _straight(bench: Bench, side: Side, graph: Any, label: str) -> Action:
    drive = _driver(bench, side, graph, label)
    return lambda number: drive(_said("Please look ten things up."), side.at(f"{label} {number}"))


def _said(words: str, number: int = 0) -> dict[str, Any]:
    return {"messages": [HumanMessage(content=words, id=f"human-{number}")]}


# ---------------------------------------------------------------------------------------------------------------- puts


def puts(bench: Bench) -> None:
    """Checkpoints a second, each with one message more than its parent."""
    for count, target in ((10, None), (800, Target(3.0, at_least=True))):
        if bench.wants(case := f"put at {count} messages"):
            ours, peer = (_putting(side, f"put {count}", count) for side in bench.sides)
            report_rate(bench.name, case, race(ours, peer, rounds=60, warm=5), target)


def _putting(side: Side, thread_id: str, count: int) -> Action:
    side.begin(thread_id)
    told = messages(count + 100)
    version, config = None, side.at(thread_id)

    def action(number: int) -> None:
        nonlocal version, config
        version = side.saver.get_next_version(version, None)
        versions = {"messages": version}
        values = {"messages": told[: count + number]}
        saved = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
        placed = side.saver.put(config, saved, {"source": "loop", "step": number, "parents": {}}, versions)
        config = side.at(thread_id, checkpoint_id=placed["configurable"]["checkpoint_id"])

    action(-1)
    return action


# ------------------------------------------------------------------------------------------------------ bytes and reads


def conversation(bench: Bench, *, peer_turns: int) -> None:
    """One long conversation on each side: its bytes as it grows, and reading from it at 200 turns."""
    if not bench.wants("bytes read history"):
        return
    graph = build(calls=1)
    before = {side.name: side.size() for side in bench.sides}
    taken: dict[int, int] = {}
    for first, turns in zip((0, *TURNS), TURNS, strict=False):
        _talk(bench.ours, graph, range(first, turns))
        taken[turns] = bench.ours.size() - before["ours"]
        if turns <= peer_turns:
            _talk(bench.peer, graph, range(first, turns))
            _report_bytes(bench, turns, taken[turns], bench.peer.size() - before["peer"])
        if turns == READ_AT:
            reads(bench)
    case = f"bytes at {TURNS[2]} turns, against ours at {TURNS[1]}"
    report(bench.name, case, unit="bytes", ours=taken[TURNS[2]], peer=taken[TURNS[1]], target=Target(2.1))


def _talk(side: Side, graph: Any, turns: range) -> None:
    ready = graph.copy(update={"checkpointer": side.saver})
    if turns.start == 0:
        side.begin("long")
    for turn in turns:
        ready.invoke(_said(text(f"turn {turn}"), turn), side.at("long"), durability="sync")


def _report_bytes(bench: Bench, turns: int, ours: int, peer: int) -> None:
    target = Target(1 / 35 if bench.postgres else 1 / 60) if turns == READ_AT else None
    report(bench.name, f"bytes at {turns} turns", unit="bytes", ours=ours, peer=peer, target=target)


def reads(bench: Bench) -> None:
    """The head, one old checkpoint, and a page of history, with all values."""
    cases: list[tuple[str, Callable[[Side], Action], int, Target]] = [
        ("read the head at 800 messages", _head, 40, Target(1.3)),
        ("read an old checkpoint of 200 messages", _old, 60, Target(1.3)),
        (f"history page of {PAGE}", _page, 5, Target(0.1)),
    ]
    for case, reading, rounds, target in cases:
        report_time(bench.name, case, race(*map(reading, bench.sides), rounds=rounds), target)


def _head(side: Side) -> Action:
    return lambda _: side.saver.get_tuple(side.at("long"))


def _old(side: Side) -> Action:
    """The checkpoint after 50 turns: the first one is step -1."""
    [found] = side.saver.list(side.at("long"), filter={"step": 5 * 50 - 2})
    assert len(found.checkpoint["channel_values"]["messages"]) == 200  # noqa: S101  # else the comparison means nothing
    config = side.at("long", checkpoint_id=found.config["configurable"]["checkpoint_id"])
    return lambda _: side.saver.get_tuple(config)


def _page(side: Side) -> Action:
    return lambda _: [*side.saver.list(side.at("long"), limit=PAGE)]
