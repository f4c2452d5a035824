"""The durable stream: what is told of a run, how often it is written, and that nobody reads it twice, or with a gap."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import F
from django.db.models.functions import Now
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.config import get_stream_writer

from agents import history, registry, runs, streams
from agents.models import Run, RunEvent, Thread
from agents.outcome import StreamEvent
from agents.store import Fenced
from agents.streams import rows
from agents.streams.events import MOST_BYTES, PIECE, Told, cut, plain
from agents.testing import ScriptedChatModel, Turn
from agents.tests import graphs
from agents.tests.driving import answer, decisions, start, step, until
from agents.tests.screen import Screen

SPEECH = "The cat sat on the mat, and then it went home again because it rained. " * 6


def told(thread_id: str) -> list[StreamEvent]:
    return list(streams.since(thread_id, 0).events)


def shown(thread_id: str) -> list[tuple[str, str]]:
    """Return what a reload shows: (id, text) of each message."""
    return [(message.id, message.content) for message in history.conversation(thread_id)]


def paying(ran: list[Any], **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into(ran), **options)


def calling(*calls: tuple[str, dict[str, Any]]) -> str:
    return graphs.turns(list(calls))


# --------------------------------------------------------------------------------------------- what is told


def test_a_run_is_told_from_its_start_to_its_end_under_rising_numbers(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("read", {"id": 1})))
        step(thread_id)
    events = told(thread_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].kind == "status"
    assert (events[-1].kind, events[-1].data["status"]) == ("end", "success")
    kinds = [event.kind for event in events]
    assert {"node", "delta", "call", "message", "tool", "checkpoint"} <= set(kinds)
    assert kinds.index("call") < kinds.index("tool")


def test_the_live_page_and_a_reload_show_the_same(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("read", {"id": 1})))
        step(thread_id)
    screen = Screen().play(told(thread_id))
    assert screen.bubbles() == shown(thread_id)
    (tool,) = [event for event in told(thread_id) if event.data.get("state") == "finished" and event.kind == "tool"]
    assert tool.data["text"] == "record 1"
    assert "{" not in json.dumps([event.data.get("name") for event in told(thread_id) if event.kind == "call"])


def test_a_question_ends_the_stream_and_its_answer_goes_on_with_it(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("pay", {"amount": 5})))
        (ask,) = step(thread_id).asks
        first = told(thread_id)
        assert [event.kind for event in first[-2:]] == ["interrupt", "end"]
        assert first[-2].data["interrupt"] == ask.interrupt_id
        answer(thread_id, ask, decisions({"type": "approve"}), ["approve"])
        step(thread_id)
    later = streams.since(thread_id, first[-1].seq).events
    assert later[0].seq == first[-1].seq + 1
    results = [event.data for event in later if event.kind == "tool"]
    assert [(one["state"], one["message"]) for one in results] == [
        ("started", results[0]["message"]),
        ("finished", results[0]["message"]),
    ]
    assert results[0]["message"] == history.conversation(thread_id)[1].id
    assert Screen().play(told(thread_id)).bubbles() == shown(thread_id)


def test_an_answer_in_a_tools_place_is_told_as_its_result(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("ask_user", {"question": "Which?"})))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions({"type": "respond", "message": "The blue one"}), ["respond"])
        step(thread_id)
    (result,) = [event.data for event in told(thread_id) if event.kind == "tool"]
    assert (result["state"], result["text"]) == ("finished", "The blue one")


def test_an_error_is_told_in_words_and_then_the_end(shop: Any) -> None:
    with registry.override("failing", lambda: graphs.fails("boom")):
        thread_id = start("failing", "go")
        step(thread_id)
    *_, error, end = told(thread_id)
    assert (error.kind, end.kind, end.data["status"]) == ("error", "end", "error")
    assert "boom" in error.data["error"]


def test_a_run_that_cannot_even_begin_has_an_end(shop: Any) -> None:
    with registry.override("passing", graphs.parallel):
        thread_id = start("passing", "")
    step(thread_id)
    assert [event.kind for event in told(thread_id)] == ["error", "end"]


def test_what_happens_in_a_subgraph_is_told_in_a_lane_of_its_own(shop: Any) -> None:
    """A model speaks inside a subgraph; its message comes up to the graph around it, and is shown once."""
    inner = graphs.chain(("talk", talking("inner", SPEECH)))
    with registry.override("outer", lambda: graphs.chain(("sub", inner))):
        thread_id = start("outer", "go")
        step(thread_id)
    events = told(thread_id)
    lanes = {event.data["lane"] for event in events if event.kind == "delta"}
    assert len(lanes) == 1
    assert next(iter(lanes)).startswith("sub:")
    assert Screen().play(events).bubbles() == shown(thread_id)


def talking(message_id: str, text: str) -> Any:
    model = ScriptedChatModel(script=lambda messages: Turn(text))

    def node(state: graphs.Log) -> dict[str, Any]:
        return {"messages": [model.invoke([HumanMessage("say it")])]}

    return node


def test_custom_parts_are_told_as_strict_json(shop: Any) -> None:
    def note(state: graphs.Log) -> dict[str, Any]:
        get_stream_writer()({"share": float("nan"), "big": 2**60, "half": "\ud800", "many": list(range(10_000))})
        return {}

    with registry.override("noting", lambda: graphs.chain(("note", note))):
        thread_id = start("noting", "go")
        step(thread_id)
    (event,) = [event for event in told(thread_id) if event.kind == "custom"]
    assert event.data["channel"] == ""
    data = event.data["data"]
    assert (data["share"], data["big"], data["half"], len(data["many"])) == ("nan", str(2**60), "\ufffd", 200)
    json.dumps(event.data, allow_nan=False).encode()


@pytest.mark.parametrize(
    "value", [object(), {1: {2, 3}}, b"abc", [[[["deep"]]]] * 3, "x" * 100_000, {"a": AIMessage("x")}]
)
def test_any_value_becomes_short_json(value: Any) -> None:
    assert len(json.dumps(plain(value), allow_nan=False)) <= MOST_BYTES


def test_a_long_text_is_cut_and_stays_whole() -> None:
    text = "Größe 𝄞 " * 2_000
    pieces = cut(text)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= PIECE
    assert max(len(json.dumps(piece)) for piece in pieces) < 48_100


# ------------------------------------------------------------------------------------------------ writes and their pace


class Written:
    """Counts what a recorder writes, and may fail on the way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[int] = []
        self.fail_next: list[BaseException] = []
        self.really = rows.write
        monkeypatch.setattr(rows, "write", self._write)

    def _write(self, *args: Any, **told: Any) -> None:
        if self.fail_next:
            raise self.fail_next.pop(0)
        self.batches.append(len(told["told"]))
        self.really(*args, **told)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    return Written(monkeypatch)


def delta(text: str, *, message_id: str = "m") -> Told:
    return Told("delta", {"lane": "", "id": message_id, "node": "model", "block": 0, "type": "text", "text": text})


def recorder(thread_id: str, heard: list[StreamEvent]) -> streams.Recorder:
    lease = runs.claim(thread_id, "worker")
    assert lease is not None
    return streams.Recorder(
        thread_id=thread_id, run_id=lease.run_id, token=lease.token, emit=heard.append, lost=lambda: heard.clear()
    )


def test_two_hundred_tokens_of_one_moment_are_few_rows_and_one_text(shop: Any, written: Written) -> None:
    """HC-27: 200 tokens within a millisecond, 20 events of a subgraph, the final state, the end."""
    thread_id, heard = start("support", "hi"), list[StreamEvent]()
    with recorder(thread_id, heard) as tape:
        tape.tell(delta(f"{number} ") for number in range(200))
        tape.tell(Told("node", {"lane": "sub:1", "node": str(number), "state": "started"}) for number in range(20))
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))
    text = "".join(event.data["text"] for event in heard if event.kind == "delta")
    assert text == "".join(f"{number} " for number in range(200))
    assert sum(event.kind == "node" for event in heard) == 20
    assert len(written.batches) <= 3
    assert [(event.seq, event.data) for event in told(thread_id)] == [(event.seq, event.data) for event in heard]


def test_a_steady_stream_is_written_less_than_twelve_times_a_second(shop: Any, written: Written) -> None:
    thread_id, heard = start("support", "hi"), list[StreamEvent]()
    began = time.monotonic()
    with recorder(thread_id, heard) as tape:
        for number in range(60):
            tape.tell([delta(f"{number} "), *([Told("tool", {"lane": "", "state": "started"})] * (number % 10 == 0))])
            time.sleep(0.02)  # 50 tokens a second are what is measured here
    took = time.monotonic() - began
    assert len(written.batches) <= 12 * took + 6


def test_what_happens_in_one_moment_is_one_write_and_a_result_waits_for_nothing(
    shop: Any, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id, heard = start("support", "hi"), list[StreamEvent]()
    monkeypatch.setattr("agents.streams.recorder.GATHER_SECONDS", 3600.0)  # a moment, however busy the machine is
    tape = recorder(thread_id, heard)
    tape.tell([Told("node", {"lane": "", "node": "tools", "state": "started"})])
    tape.tell([Told("tool", {"lane": "", "state": "started"})])
    assert tape._seconds_left() > 60
    with tape:
        tape.tell([Told("tool", {"lane": "", "state": "finished", "text": "paid"})])
        until(lambda: len(heard) == 3)
        assert written.batches == [3]
        monkeypatch.setattr("agents.streams.recorder.GATHER_SECONDS", 0.02)
        tape.tell([Told("node", {"lane": "", "node": "tools", "state": "finished"})])
        until(lambda: len(heard) == 4)  # and the last one does not wait for ever


def test_text_of_two_lanes_side_by_side_is_joined_within_each(shop: Any) -> None:
    thread_id, heard = start("support", "hi"), list[StreamEvent]()
    with recorder(thread_id, heard) as tape:
        tape.tell(delta(letter, message_id=letter.lower()) for letter in "aAbBaAbB" * 20)
    joined: dict[str, str] = {}
    for event in heard:
        joined[event.data["id"]] = joined.get(event.data["id"], "") + event.data["text"]
    assert joined == {"a": "aAaA" * 20, "b": "bBbB" * 20}
    assert len(heard) < 20


def test_a_late_workers_events_are_refused(shop: Any) -> None:
    thread_id, heard, lost = start("support", "hi"), list[StreamEvent](), threading.Event()
    lease = runs.claim(thread_id, "late")
    assert lease is not None
    with streams.Recorder(
        thread_id=thread_id, run_id=lease.run_id, token=lease.token, emit=heard.append, lost=lost.set
    ) as tape:
        tape.tell([Told("status", {"lane": "", "status": "running", "checkpoint": ""})])
        Thread.objects.filter(pk=thread_id).update(token=F("token") + 1)
        tape.tell([delta("too late")])
    assert lost.is_set()
    assert "delta" not in {event.kind for event in [*heard, *told(thread_id)]}
    with pytest.raises(Fenced):
        rows.write(thread_id, lease.run_id, token=lease.token, first=9, told=[delta("x")])


def test_a_database_that_is_away_for_a_moment_costs_no_event(shop: Any, written: Written) -> None:
    from django.db import OperationalError

    thread_id, heard = start("support", "hi"), list[StreamEvent]()
    written.fail_next = [OperationalError("away")]
    with recorder(thread_id, heard) as tape:
        tape.tell([delta("kept")])
    assert [event.data["text"] for event in told(thread_id)] == ["kept"]


def test_an_answer_of_the_database_that_was_lost_doubles_nothing(
    shop: Any, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    thread_id, heard, failed = start("support", "hi"), list[StreamEvent](), list[Any]()

    def stored_but_not_told(*args: Any, **told: Any) -> None:
        written.really(*args, **told)
        if not failed:
            failed.append(1)
            raise OperationalError("the connection broke after the commit")

    monkeypatch.setattr(rows, "write", stored_but_not_told)
    with recorder(thread_id, heard) as tape:
        tape.tell([delta("once")])
        tape.tell([Told("status", {"lane": "", "status": "running"})])
    assert [event.kind for event in told(thread_id)] == ["delta", "status"]
    assert [event.seq for event in heard] == [1, 2]


# --------------------------------------------------------------------------------------------- readers and gaps


def test_a_reader_that_comes_back_gets_the_rest_in_pages(shop: Any) -> None:
    thread_id = start("support", "hi")
    with recorder(thread_id, []) as tape:
        tape.tell(Told("node", {"lane": "", "node": str(number), "state": "started"}) for number in range(700))
    seen, page = list[int](), streams.since(thread_id, 70, limit=200)
    while True:
        seen += [event.seq for event in page.events]
        if not page.more:
            break
        page = streams.since(thread_id, page.last, limit=200)
    assert seen == list(range(71, 701))
    assert streams.since(thread_id, 700) == rows.Page((), 700, 700)


def test_a_gap_that_cannot_be_filled_is_said(shop: Any) -> None:
    thread_id = start("support", "hi")
    with recorder(thread_id, []) as tape:
        tape.tell(Told("node", {"lane": "", "node": str(number), "state": "started"}) for number in range(10))
    RunEvent.objects.filter(thread_id=thread_id, seq__lt=6).delete()
    assert streams.since(thread_id, 2).gap
    assert not streams.since(thread_id, 5).gap
    assert streams.since(thread_id, 99).gap  # a number of another life of this database
    RunEvent.objects.filter(thread_id=thread_id, seq=8).delete()
    page = streams.since(thread_id, 5)
    assert ([event.seq for event in page.events], page.more) == ([6, 7], True)
    assert streams.since(thread_id, page.last).gap


def test_events_are_kept_for_a_while_after_their_run_and_the_sequence_goes_on(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("read", {"id": 1})))
        step(thread_id)
        newest = streams.last_seq(thread_id)
        assert streams.prune() == 0
        Run.objects.filter(thread_id=thread_id).update(finished_at=Now() - timedelta(days=2))
        assert streams.prune() == newest - 1
        runs.enqueue(thread_id, kind="input", payload={"text": "again"}, author="olga")
        step(thread_id)
    assert streams.since(thread_id, newest).events[0].seq == newest + 1


def test_the_command_deletes_what_is_older_than_it_is_told_to_keep(shop: Any, capsys: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", "hello")
        step(thread_id)
    newest = streams.last_seq(thread_id)
    call_command("prune_events")
    call_command("prune_events", "--keep", "-1")
    assert capsys.readouterr().out == f"0 events deleted.\n{newest - 1} events deleted.\n"


def test_what_a_failed_run_told_is_kept_longer_for_it_stands_nowhere_else(shop: Any) -> None:
    with registry.override("failing", graphs.fails):
        thread_id = start("failing", "go")
        step(thread_id)
    Run.objects.filter(thread_id=thread_id).update(finished_at=Now() - timedelta(days=2))
    assert streams.prune() == 0
    Run.objects.filter(thread_id=thread_id).update(finished_at=Now() - timedelta(days=20))
    assert streams.prune() > 0


def test_a_newcomer_starts_at_a_checkpoint_and_hears_what_came_after_it_once(shop: Any) -> None:
    """HC-27: a client with no position gets a snapshot plus the tail, not both twice. At every moment of the run."""
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("read", {"id": 1})))
        step(thread_id)
    events = told(thread_id)
    whole = Screen().play(events)
    RunEvent.objects.filter(thread_id=thread_id).delete()
    for event in events:
        RunEvent.objects.create(
            thread_id=thread_id, run_id=event.run_id, seq=event.seq, kind=event.kind, data=event.data
        )
        seq, checkpoint = streams.base(thread_id)
        screen = Screen.of(history.conversation_at(thread_id, checkpoint or ""))
        tail = [one for one in events[: event.seq] if one.seq > seq]
        screen.play(tail)
        assert screen.bubbles() == Screen().play(events[: event.seq]).bubbles(), event
    assert screen.bubbles() == whole.bubbles() == shown(thread_id)


# --------------------------------------------------------------------------------------------- a second attempt


def test_a_run_that_is_taken_up_again_goes_on_in_the_same_stream(shop: Any) -> None:
    """A worker dies in the middle of its speech; what it had not finished is taken back when the next one begins."""
    with registry.override("paying", paying([])):
        thread_id = start("paying", calling(("read", {"id": 1})))
        heard: list[StreamEvent] = []
        with recorder(thread_id, heard) as tape:
            tape.tell([Told("status", {"lane": "", "status": "running", "checkpoint": "", "attempt": 1})])
            tape.tell([delta("half a sen")])
        Thread.objects.filter(pk=thread_id).update(lease_until=Now() - timedelta(seconds=1))
        step(thread_id)
    events = told(thread_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.data["attempt"] for event in events if event.data.get("status") == "running"] == [1, 2]
    assert Screen().play(events).bubbles() == shown(thread_id)


def test_two_runs_of_one_thread_share_the_sequence(shop: Any) -> None:
    with registry.override("paying", paying([])):
        thread_id = start("paying", "hello")
        runs.enqueue(thread_id, kind="input", payload={"text": "and again"}, author="olga")
        step(thread_id), step(thread_id)
    events = told(thread_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.run_id for event in events}) == 2
    assert Screen().play(events).bubbles() == shown(thread_id)
