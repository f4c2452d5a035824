"""The desk's state: what runs and waits, what was lost on the way, and what is told to those who watch from outside."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from agents import connections, registry, runs, workers
from agents.heartbeat import Heartbeat
from agents.models import Run, Thread, Worker
from agents.tests import graphs
from agents.tests.driving import until
from project.logs import JsonFormatter
from reviews import live, status, tasks, threads
from reviews.decisions import Stale
from reviews.dialects import Verdict
from reviews.models import Interrupt
from reviews.tests.cast import APPROVE, REJECT, Cast, ask_calls, decide, file_outcome, new_thread
from reviews.views import health

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(cast: Cast) -> Iterator[None]:
    with registry.override("support", lambda: graphs.agent(graphs.into([]))):
        yield
    connections.close_all()


def in_as(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


def line_up(thread: Thread, text: str = "hello") -> str:
    return runs.enqueue(thread.pk, kind="input", payload={"text": text}, author="olga")


def age(row: Any, **columns: float) -> None:
    """Let columns of a row be that many seconds older."""
    type(row).objects.filter(pk=row.pk).update(
        **{name: F(name) - timedelta(seconds=seconds) for name, seconds in columns.items()}
    )


# --------------------------------------------------------------------------------
# Numbers.


def test_the_overview_counts_what_runs_waits_is_held_and_failed(cast: Cast, worker: None) -> None:
    busy, held, failing = (new_thread(name) for name in ("busy", "held", "failing"))
    line_up(busy), line_up(busy, "second")
    lease = runs.claim(busy.pk, "w1")
    file_outcome(held, ask_calls(("pay", {"amount": 5})))
    line_up(held)
    file_outcome(failing, status="error", error="boom", known=False)
    seen = status.overview(cast.olga)
    assert {name: seen.counts[name] for name in ("pending", "held", "running", "error")} == {
        "pending": 1,
        "held": 1,
        "running": 1,
        "error": 1,
    }
    assert (seen.threads["busy"], seen.threads["interrupted"], seen.threads["error"]) == (1, 1, 1)
    (run,) = seen.running
    assert lease is not None
    assert (run.run_id, run.worker, run.attempts, run.is_late) == (lease.run_id, "w1", 1, False)
    assert run.last_beat is not None
    assert abs((seen.now - run.last_beat).total_seconds()) < 20
    assert sorted((row.title, row.held) for row in seen.pending) == [("busy", False), ("held", True)]
    assert [(row.title, row.error) for row in seen.failed] == [("failing", "boom")]
    assert sum(minute.begun for minute in seen.minutes) == 3
    assert sum(minute.failed for minute in seen.minutes) == 1
    assert len(seen.minutes) == 60


def test_everybody_sees_their_own_agents_only(cast: Cast, worker: None) -> None:
    line_up(cast.thread)
    line_up(new_thread("other", agent="billing"))
    assert [len(status.overview(who).pending) for who in (cast.olga, cast.aude, cast.root)] == [1, 1, 2]
    assert [status.overview(who).counts["pending"] for who in (cast.ann, cast.otto)] == [0, 0]  # they review only
    assert [status.may_look(who) for who in (cast.olga, cast.aude, cast.root, cast.ann)] == [True, True, True, False]


def test_the_waiting_time_is_that_of_what_began(cast: Cast, worker: None) -> None:
    run = Run.objects.get(pk=line_up(cast.thread))
    age(run, created_at=40)
    runs.claim(cast.thread.pk, "w1")
    waits = [minute.wait for minute in status.overview(cast.olga).minutes if minute.wait is not None]
    assert len(waits) == 1
    assert 39 <= waits[0] <= 70


# --------------------------------------------------------------------------------
# Workers.


def test_a_poller_and_a_heartbeat_say_that_their_process_is_there(
    cast: Cast, worker: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "heartbeat", Heartbeat())  # a poller that stops drains it for good
    settings.POLL_SECONDS = settings.HEARTBEAT_SECONDS = settings.STOP_SECONDS = 0.02
    monkeypatch.setattr(registry, "_built", {})
    assert "No worker" in status.banner()
    poller = tasks.start_poller()
    until(lambda: workers.alive().exists())
    assert "support" in registry._built  # nobody's first run waits for that
    assert status.banner() == ""
    poller.stop()
    until(lambda: not Worker.objects.exists())
    line_up(cast.thread)
    lease = runs.claim(cast.thread.pk, "busy-process")
    assert lease is not None
    with Heartbeat().keep(lease, lambda beat: None):
        until(lambda: Worker.objects.filter(pk="busy-process").exists())


def test_a_process_that_says_nothing_is_not_alive_and_forgotten_after_a_day(cast: Cast) -> None:
    for name in ("quick", "dead", "quick"):
        workers.seen(name)
    age(Worker.objects.get(pk="dead"), last_seen=workers.alive_seconds() + 5)
    assert [one.name for one in workers.alive()] == ["quick"]
    age(Worker.objects.get(pk="dead"), last_seen=workers.FORGET_SECONDS)
    assert workers.sweep() == 1


def test_wake_ups_that_nobody_took_are_on_every_page(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    workers.seen("one")
    monkeypatch.setattr(tasks, "unwoken", 2)
    assert "not woken" in status.banner()


# --------------------------------------------------------------------------------
# What was lost.


def kinds(cast: Cast) -> list[tuple[str, str]]:
    return [(one.kind, one.verb) for one in status.lost(cast.olga)]


def test_nothing_is_lost_while_all_goes_well(cast: Cast, worker: None) -> None:
    line_up(cast.thread, graphs.turns([("pay", {"amount": 5})]))
    assert kinds(cast) == []
    tasks.poll_once()
    assert kinds(cast) == []
    decide(cast.ann, Interrupt.objects.get(), APPROVE)
    assert kinds(cast) == []
    tasks.poll_once()
    assert kinds(cast) == []


def test_an_interrupted_thread_without_a_question_is_found_and_repaired(cast: Cast, worker: None) -> None:
    line_up(cast.thread, graphs.turns([("pay", {"amount": 5})]))
    tasks.poll_once()
    Interrupt.objects.update(status="withdrawn")
    assert kinds(cast) == [("thread without a question", "look")]
    threads.look_again(cast.olga, cast.thread, submit_token="l")
    assert kinds(cast) == []  # somebody is on it
    tasks.poll_once()
    assert kinds(cast) == []
    assert Interrupt.objects.filter(status="open").count() == 1


def test_a_question_whose_interrupt_is_gone_is_found_and_withdrawn(cast: Cast, worker: None) -> None:
    line_up(cast.thread, graphs.turns([("pay", {"amount": 5})]))
    tasks.poll_once()
    graph = registry.get("support").graph
    graph.update_state({"configurable": {"thread_id": cast.thread.pk}}, None, as_node="__end__")
    Thread.objects.update(waits=False, status="idle")
    assert kinds(cast) == [("question without an interrupt", "look")]
    threads.look_again(cast.olga, cast.thread, submit_token="l")
    tasks.poll_once()
    assert kinds(cast) == []
    assert Interrupt.objects.get().status == "withdrawn"


def test_a_decision_without_a_run_is_found_and_goes_on(cast: Cast, worker: None) -> None:
    line_up(cast.thread, graphs.turns([("pay", {"amount": 5})]))
    tasks.poll_once()
    question = Interrupt.objects.get()
    decide(cast.ann, question, APPROVE)
    Run.objects.filter(kind="resume").update(status="cancelled", finished_at=Now())
    assert kinds(cast) == [("decision without a run", "go on")]
    threads.go_on(cast.olga, cast.thread, submit_token="g")
    tasks.poll_once()
    assert kinds(cast) == []
    assert Interrupt.objects.filter(status="open").count() == 1  # it was never sent, so it is asked again


def test_a_silent_worker_and_a_run_that_nobody_takes_are_found(cast: Cast, worker: None) -> None:
    silent, ignored = new_thread("silent"), new_thread("ignored")
    line_up(silent)
    runs.claim(silent.pk, "w1")
    age(Thread.objects.get(pk=silent.pk), lease_until=300, updated_at=300)
    run = Run.objects.get(pk=line_up(ignored))
    age(run, created_at=300)
    age(Thread.objects.get(pk=ignored.pk), updated_at=300)
    assert kinds(cast) == [("run without a worker", "worker")] * 2
    assert [row.title for row in status.overview(cast.olga).stuck] == ["silent", "ignored"]
    assert status.overview(cast.olga).running[0].is_late


def test_a_stuck_thread_is_found_with_the_one_thing_that_helps(cast: Cast, worker: None) -> None:
    Thread.objects.filter(pk=cast.thread.pk).update(stuck=True, status="error")
    assert kinds(cast) == [("stuck thread", "replay")]


def test_what_was_lost_elsewhere_is_not_told(cast: Cast) -> None:
    Thread.objects.filter(pk=new_thread("theirs", agent="billing").pk).update(stuck=True)
    assert kinds(cast) == []
    assert len(status.lost(cast.root)) == 1


# --------------------------------------------------------------------------------
# From outside.


def test_a_process_is_alive_whatever_the_database_does(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> bool:
        raise OperationalError("away")

    monkeypatch.setattr(health, "_has_database", away)
    assert Client().get("/healthz").content == b"ok\n"
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, False)


def test_ready_means_database_migrations_and_a_worker(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"database": True, "migrations": True, "workers": False})
    assert Client().get("/readyz?without=workers").status_code == 200
    workers.seen("one")
    assert Client().get("/readyz").status_code == 200
    monkeypatch.setattr(health, "_is_migrated", lambda: False)
    assert Client().get("/readyz").status_code == 503
    assert Client().post("/readyz").status_code == 405


def test_metrics_are_for_administrators_and_who_brings_the_token(cast: Cast, settings: Any) -> None:
    assert in_as(cast, "root").get("/metrics").status_code == 200
    for client in (Client(), in_as(cast, "olga"), Client(headers={"Authorization": "Bearer "})):
        assert client.get("/metrics").status_code == 404
    settings.METRICS_TOKEN = "let-me-measure"
    assert Client(headers={"Authorization": "Bearer let-me-measure"}).get("/metrics").status_code == 200
    assert Client(headers={"Authorization": "Bearer other"}).get("/metrics").status_code == 404


def test_metrics_tell_numbers_in_prometheus_format(cast: Cast) -> None:
    file_outcome(cast.thread, ask_calls(("pay", {"amount": 5, "memo": "a secret"})))
    age(Interrupt.objects.get(), created_at=90)
    lines = in_as(cast, "root").get("/metrics").content.decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["countersign_interrupts_open"] == "1"
    assert float(values["countersign_interrupt_oldest_seconds"]) >= 90
    assert values['countersign_runs{status="interrupted"}'] == "1"
    assert values['countersign_threads{status="interrupted"}'] == "1"
    assert {name.partition("{")[0] for name in values} == {
        line.split()[2] for line in lines if line.startswith("# TYPE")
    }
    assert "secret" not in "\n".join(lines)


def test_a_log_line_has_ids_and_no_arguments(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    """The graph fails with what was written in its words, as validation errors do."""
    secret = "IBAN DE89370400440532013000"

    def failing(name: str, args: dict[str, Any], runtime: Any) -> None:
        raise ValueError(f"bad path {args['path']}")

    with (
        registry.override("support", lambda: graphs.agent(failing, policy={})),
        caplog.at_level(logging.DEBUG),
    ):
        line_up(cast.thread, graphs.turns([("wipe", {"path": secret})]))
        tasks.poll_once()
    connections.close_all()
    own = [record for record in caplog.records if record.name.split(".")[0] in ("agents", "reviews", "project")]
    lines = [JsonFormatter().format(record) for record in own]
    assert secret not in "\n".join(lines)
    run = str(Run.objects.get().pk)
    told = [json.loads(line) for line in lines]
    assert {one["message"] for one in told if one.get("run") == run} >= {"advance", "the graph raised", "outcome filed"}


def test_a_decision_can_be_followed_through_the_log_by_its_ids(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    secret = "IBAN DE89370400440532013000"
    with registry.override("support", lambda: graphs.agent(graphs.into([]))), caplog.at_level(logging.DEBUG):
        line_up(cast.thread, graphs.turns([("wipe", {"path": secret})]))
        tasks.poll_once()
        row = Interrupt.objects.get()
        with pytest.raises(Stale):
            decide(cast.ann, row, REJECT, version=row.version + 1)
        decide(cast.ann, row, Verdict("reject", message=f"Never to {secret}"))
        tasks.poll_once()
    connections.close_all()
    own = [record for record in caplog.records if record.name.split(".")[0] in ("agents", "reviews", "project")]
    lines = [JsonFormatter().format(record) for record in own]
    assert secret not in "\n".join(lines)
    told = [json.loads(line) for line in lines]
    about = [one["message"] for one in told if row.pk in (one.get("interrupt"), *one.get("interrupts", ()))]
    assert about == ["outcome filed", "not decided", "decided", "decisions took effect"]
    (decided,) = (one for one in told if one["message"] == "decided")
    assert (decided["on_thread"], decided["run"]) == (str(row.thread_id), str(Run.objects.get(kind="resume").pk))
    assert [one["code"] for one in told if one["message"] == "not decided"] == ["version"]


def test_what_is_not_listed_never_reaches_a_log_line() -> None:
    record = logging.LogRecord("desk", logging.INFO, __file__, 1, "said", (), None)
    record.__dict__ |= {"args_of_call": {"iban": "DE89"}, "payload": "DE89", "run": "r-1", "interrupts": [1, 2]}
    line = json.loads(JsonFormatter().format(record))
    assert set(line) == {"time", "level", "logger", "message", "run", "interrupts"}
    assert (line["run"], line["interrupts"]) == ("r-1", [1, 2])


def test_an_exceptions_words_stay_out_of_the_log_and_its_place_does_not() -> None:
    try:
        try:
            raise ValueError("IBAN DE89370400440532013000")
        except ValueError as cause:
            raise RuntimeError("while reading IBAN") from cause
    except RuntimeError as error:
        record = logging.LogRecord("desk", logging.ERROR, __file__, 1, "failed", (), (RuntimeError, error, None))
    text = json.loads(JsonFormatter().format(record))["traceback"]
    assert "IBAN" not in text.replace('raise ValueError("IBAN', "").replace(
        'raise RuntimeError("while reading IBAN', ""
    )
    assert "test_status.py" in text
    assert "RuntimeError" in text
    assert "ValueError" in text
    away = logging.LogRecord(
        "desk", logging.ERROR, __file__, 1, "failed", (), (OperationalError, OperationalError("no host"), None)
    )
    assert "no host" in JsonFormatter().format(away)


def test_pushes_that_were_lost_are_counted(cast: Cast) -> None:
    before = status.hints()["overflow"]
    live.counts["overflow"] += 1
    assert status.hints()["overflow"] == before + 1
    live.counts["overflow"] -= 1
