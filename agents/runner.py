"""Looks at the head and acts. The only module that calls a graph.

``advance`` may be repeated at will: it reads what is stored, and does only what is still missing. ``decide`` is the
table of DESIGN section 4, as a function without side effects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command, StateUpdate

from agents import asks, registry, replays, runs, store
from agents.driver import Driver
from agents.effects import effects_of
from agents.head import Head, open_calls, read_head
from agents.heartbeat import DEPLOY, heartbeat
from agents.outcome import Effect, Outcome, StreamEvent
from agents.registry import Registered
from agents.runs import Beat, Lease
from agents.settling import settle
from agents.streams import Recorder
from agents.streams.events import STATUS, Told
from agents.streams.reading import Reader
from agents.streams.standing import tellable

log = logging.getLogger(__name__)

Act = Literal[
    "start", "answer", "continue", "stop", "replay", "withdraw", "roll back", "wait", "settle", "asked otherwise",
    "no effect", "fail", "give up",
]  # fmt: skip
Emit = Callable[[StreamEvent], None]

_STRICT = "__pregel_strict_resume"  # refuses an unknown interrupt id instead of ignoring it; no public name in 1.2.24


class LeaseLost(Exception):
    """Another worker has the thread, or will have it: this run must leave no outcome."""


class Drained(Exception):
    """This process is going away: the run stopped between two steps and waits for the next worker."""


def advance(lease: Lease, *, emit: Emit) -> Outcome:
    """Do what is due on a claimed run and say how the thread stands. Raises LeaseLost, Drained, and DatabaseError."""
    try:
        agent = registry.get(lease.agent)
    except (registry.UnknownAgent, registry.UnusableAgent) as error:
        return _failed(lease, str(error))
    if lease.attempt > settings.RUN_MAX_ATTEMPTS:
        return _failed(lease, f"This run stopped its worker {lease.attempt - 1} times and is not tried again.")
    return _Drive(agent, lease, emit).advance()


def decide(head: Head, lease: Lease) -> Act:
    """Return what to do on this head for this run. Source: the table of DESIGN section 4."""
    if lease.stop:
        return "give up"
    if lease.kind == "replay" and (act := _decide_replay(head, lease)):
        return act
    if head.breakpoint is not None:
        return _decide_breakpoint(head, lease)
    if head.error and not _goes_on(head, lease):
        return "fail"
    if lease.kind == "resume":
        return _decide_resume(head, lease)
    if not head.landed:
        return "start"
    return "continue" if head.unfinished else "settle"


def _decide_breakpoint(head: Head, lease: Lease) -> Act:
    here = (
        head.breakpoint is not None
        and lease.kind == "resume"
        and (lease.payload["interrupt_id"] == head.breakpoint.interrupt_id)
    )
    if not here:
        return "no effect" if lease.kind == "resume" and not head.landed else "wait"
    return "stop" if _says_stop(lease) else "continue"


def _decide_replay(head: Head, lease: Lease) -> Act | None:
    """What people asked for beside going on from a checkpoint: to look again, to withdraw questions, to undo a run."""
    start = lease.payload or {}
    if start.get("look"):
        return "wait"
    if start.get("rollback"):
        return "roll back"
    if start.get("retry"):
        return "continue" if head.unfinished or (head.error and not head.stuck) else "settle"
    if "withdraw" in start:
        asked = {ask.interrupt_id for ask in head.asks}
        if asked - set(start["withdraw"]):
            return "asked otherwise"
        return "withdraw" if asked or head.unfinished else "settle"
    return None if head.landed else "replay"


def _goes_on(head: Head, lease: Lease) -> bool:
    """Tell whether a run may begin beside a task that failed.

    A new message leaves it behind; the answer to a question that still waits there lets both go on.
    """
    if head.stuck or lease.kind == "replay":
        return False
    if lease.kind == "input":
        return not head.landed
    return head.find(lease.payload["interrupt_id"], lease.payload["namespace"]) is not None


def _decide_resume(head: Head, lease: Lease) -> Act:
    asked = head.find(lease.payload["interrupt_id"], lease.payload["namespace"])
    if asked is not None:
        return "answer" if asked.digest == lease.payload["digest"] else "asked otherwise"
    if not head.landed:
        return "no effect"
    if head.unfinished and lease.payload["interrupt_id"].startswith("breakpoint:") and _says_stop(lease):
        return "stop"  # a worker died between the two updates of a stop
    return "continue" if head.unfinished else "settle"


def _says_stop(lease: Lease) -> bool:
    return not lease.permits or lease.permits[0].verdict != "approve"


def _has_more(head: Head) -> bool:
    """Tell whether a run that was stopped left something undone; an answer that was not sent leaves its question."""
    return head.unfinished or not head.landed


def _failed(lease: Lease, error: str) -> Outcome:
    return Outcome(lease.thread_id, lease.run_id, lease.token, status="error", error=error, known=False)


class _Drive:
    """One advance of one run."""

    def __init__(self, agent: Registered, lease: Lease, emit: Emit) -> None:
        self.agent = agent
        self.lease = lease
        self.stopped = lease.stop
        self.driver: Driver
        self.recorder = Recorder(
            thread_id=lease.thread_id,
            run_id=lease.run_id,
            token=lease.token,
            emit=emit,
            lost=lambda: self.driver.lose(),
        )

    @property
    def error(self) -> str:
        return self.driver.error

    def advance(self) -> Outcome:
        head = self._head()
        reader = Reader(tellable(self.agent, head.messages) or head.messages, trusting=self.agent.trusting)
        self.driver = Driver(self.agent, recorder=self.recorder, reader=reader, run_id=self.lease.run_id)
        with heartbeat.keep(self.lease, self._told):
            with self.recorder:
                act, after = self._act(head)
            if self.driver.lost:
                raise LeaseLost(self.lease.run_id)
            return self._outcome(act, after)

    def _act(self, head: Head) -> tuple[Act, Head]:
        act = decide(head, self.lease)
        log.info("advance", extra={"run": self.lease.run_id, "on_thread": self.lease.thread_id, "act": act})
        facts = {"run_kind": self.lease.kind, "attempt": self.lease.attempt, "checkpoint": head.checkpoint_id}
        self._tell("running", **facts)
        self._perform(act, head)
        if self.driver.lost:
            raise LeaseLost(self.lease.run_id)
        after = self._head()
        self._tell_the_rest(after)
        if self.stopped == DEPLOY and _has_more(after) and not self.error:
            self._tell("pending")
            raise Drained(self.lease.run_id)
        return act, after

    def _tell_the_rest(self, after: Head) -> None:
        """Tell what the head holds in the end, and take back what was streamed and is not part of it."""
        reader = self.driver.reader
        ids = [message.id or f"#{index}" for index, message in enumerate(after.messages)]
        self.recorder.tell(reader.reconcile(tellable(self.agent, after.messages), ids))
        self.recorder.tell(reader.leave())

    def _tell(self, status: str, **facts: Any) -> None:
        self.recorder.tell([Told(STATUS, {"lane": "", "status": status, **facts})])

    def _told(self, beat: Beat) -> None:
        """Hear from the heartbeat's thread that the thread is lost, or that somebody wants the run to stop."""
        if beat.lost:
            self.driver.lose()
        elif beat.stop == "cancel" and self.stopped != "cancel":
            self.stopped = "cancel"
            self._tell("stopping", how="cancel", waits_for=self.driver.reader.running_tools())
            self.driver.stop()
        elif beat.stop and self.stopped in ("", DEPLOY):
            self.stopped = beat.stop
            self._tell("stopping", how=beat.stop)
            self.driver.drain(beat.stop)

    def _head(self) -> Head:
        return read_head(self.agent, self.lease.thread_id, self.lease.run_id)

    # ------------------------------------------------------------------------------------------------------------ acts

    def _perform(self, act: Act, head: Head) -> None:
        match act:
            case "start":
                self._drive(self._input(head))
            case "answer":
                payload = self.lease.payload
                self._drive(Command(resume={payload["interrupt_id"]: payload["answer"]}), strict=True)
            case "continue":
                self._continue(head)
            case "replay":
                self._replay(head)
            case "stop":
                self._stop(head)
            case "withdraw":
                self._guarded(lambda: self._withdraw(head))
            case "roll back":
                self._roll_back()
            case "fail":
                self.driver.error = head.error
            case _:
                pass

    def _continue(self, head: Head) -> None:
        fresh = self.lease.kind == "replay" and replays.is_at_its_start(
            self.lease.thread_id, self.lease.run_id, head.checkpoint_id
        )
        self._drive(None, checkpoint_id=head.checkpoint_id if fresh else "")
        after = self._head()
        if self.error or self.driver.control.drain_requested:  # told to stop before its first step, it stores nothing
            return
        if after.stored == head.stored and after.unfinished and not after.asks:
            self.driver.error = "The graph was continued and stored nothing new. It cannot go on by itself."

    def _replay(self, head: Head) -> None:
        """Start again from a checkpoint, the head unless the run names another: a branch, which becomes the head."""
        begun: list[str] = []
        payload, mark = self.lease.payload, self._mark()
        self._guarded(lambda: begun.append(replays.begin(self.agent, self.lease.thread_id, payload, mark=mark)))
        if not begun:
            return
        after = self._head()
        if after.breakpoint is None and after.unfinished and not self.driver.lost:
            self._drive(None, checkpoint_id=begun[0])

    def _stop(self, head: Head) -> None:
        """End the thread's turn at a breakpoint: each open call gets an error result, then nothing is next."""
        config = self._config()
        refused = [
            ToolMessage(content=self._reason(), tool_call_id=call["id"], name=call["name"], status="error")
            for call in open_calls(head.messages)
        ]
        values = {"messages": refused} if refused else None
        self._guarded(lambda: self._update(config, values))

    def _update(self, config: Any, values: Any) -> None:
        graph = self.agent.graph
        if values and self.agent.tools_node:
            config = graph.update_state(config, values, as_node=self.agent.tools_node)
            config["configurable"]["__countersign"] = self._mark()
        graph.update_state(config, None, as_node="__end__")

    def _withdraw(self, head: Head) -> None:
        """Give each open call a result, and end the turn: what was asked is gone. The messages that wait come next."""
        did = "ended it without an answer" if self.lease.payload.get("unanswered") else "sent a message instead"
        why = f"{self.lease.author} {did}"
        settled = settle(self.agent, self.lease.thread_id, self.lease.run_id, head=head, why=why)
        node, graph = self.agent.tools_node, self.agent.graph
        config = self._config(checkpoint_id=head.checkpoint_id)
        with transaction.atomic():  # both updates or none
            if settled.results:
                updates = [{"messages": list(settled.results)}, *settled.others]
                config = graph.bulk_update_state(config, [[StateUpdate(values, node) for values in updates]])
                config["configurable"]["__countersign"] = self._mark()
            graph.update_state(config, None, as_node="__end__")

    def _roll_back(self) -> None:
        """Take back what a run stored, unless it ran a tool that cannot be taken back."""
        undone = str(self.lease.payload["rollback"])
        if reason := runs.why_no_rollback(undone):
            self.driver.error = f"The run was stopped, but not rolled back: {reason}"
            return
        writer = store.Writer(self.lease.run_id, self.lease.token)
        self._guarded(lambda: store.delete_for_runs([undone], writer=writer))

    def _reason(self) -> str:
        answer = self.lease.payload.get("answer")
        told = answer.get("message") if isinstance(answer, dict) else None
        return f"A reviewer stopped the run here. {told or ''}".strip()

    def _input(self, head: Head) -> Any:
        """Return the run's input. Calls that an earlier run left open get their results in the same step."""
        payload = self.lease.payload or {}
        if "values" in payload:
            return payload["values"]
        why = "its run ended before it"
        left = settle(self.agent, self.lease.thread_id, self.lease.run_id, head=head, why=why).results
        # The message id is the run's: sent twice, it is still one message.
        return {"messages": [*left, HumanMessage(content=payload.get("text", ""), id=self.lease.run_id)]}

    # ----------------------------------------------------------------------------------------------------------- drive

    def _mark(self) -> dict[str, Any]:
        return {"run": self.lease.run_id, "token": self.lease.token}

    def _config(self, *, strict: bool = False, checkpoint_id: str = "") -> dict[str, Any]:
        configurable: dict[str, Any] = {"thread_id": self.lease.thread_id, "__countersign": self._mark()}
        if strict:
            configurable[_STRICT] = True
        if checkpoint_id:
            configurable["checkpoint_id"] = checkpoint_id
        return {"configurable": configurable}

    def _drive(self, value: Any, *, strict: bool = False, checkpoint_id: str = "") -> None:
        config = self._config(strict=strict, checkpoint_id=checkpoint_id)
        self.driver.run(value, config, context=self.lease.context)

    def _guarded(self, work: Callable[[], None]) -> None:
        self.driver.guarded(work)

    # --------------------------------------------------------------------------------------------------------- outcome

    def _outcome(self, act: Act, head: Head) -> Outcome:
        asks.record_calls(self.lease.thread_id, head.asks)
        error = self.error or ("" if self.driver.cancelled else head.error or self._stopped_unasked(act, head))
        effects = effects_of(self.agent, self.lease.thread_id, self.lease.run_id, head)
        return Outcome(
            thread_id=self.lease.thread_id,
            run_id=self.lease.run_id,
            token=self.lease.token,
            status=self._status(act, head, error),
            head=head.checkpoint_id,
            asks=tuple(replace(ask, types=self.driver.types.get(ask.interrupt_id, ask.types)) for ask in head.asks),
            gone=self._gone(act, head, effects, failed=bool(error)),
            effects=effects,
            error=error or self._told_why(act, head),
            stuck=head.stuck,
        )

    def _stopped_unasked(self, act: Act, head: Head) -> str:
        """Say that the graph stopped by itself and asks nothing: a static breakpoint where the desk sees no graph."""
        drove = act in ("start", "answer", "continue", "replay")
        if not drove or head.asks or not head.unfinished or self.driver.control.drain_requested:
            return ""
        return (
            "The graph stopped inside a step and asks nothing. That is a static breakpoint (interrupt_before or"
            " interrupt_after) of a graph that is called inside a node or a tool, where the desk cannot ask about it."
            " Put it into an outer graph, or ask with interrupt(). Trying again goes past it."
        )

    def _gone(self, act: Act, head: Head, effects: tuple[Effect, ...], *, failed: bool) -> tuple[tuple[str, str], ...]:
        """Return the questions whose answer is void.

        They were gone, or the run failed before the answer did anything, or a replay has left them behind.
        """
        if self.lease.kind == "replay" and head.landed and not (self.lease.payload or {}).get("retry"):
            return replays.left_behind(self.lease.thread_id, head.asks)
        if self.lease.kind != "resume":
            return ()
        answered = (self.lease.payload["namespace"], self.lease.payload["interrupt_id"])
        shown = any(effect.interrupt_id == answered[1] and effect.state != "missing" for effect in effects)
        return (answered,) if act == "no effect" or (failed and not shown) else ()

    def _status(self, act: Act, head: Head, error: str) -> Literal["interrupted", "success", "error", "cancelled"]:
        if act in ("no effect", "asked otherwise", "give up") or self.driver.cancelled:
            return "cancelled"
        if error:
            return "error"
        if self.driver.control.drain_requested and _has_more(head):
            return "cancelled"
        return "interrupted" if head.asks else "success"

    def _told_why(self, act: Act, head: Head) -> str:
        match act:
            case "no effect":
                return "The question was gone when the answer came. The decision had no effect."
            case "asked otherwise" if self.lease.kind == "replay":
                return "The thread asked something else meanwhile. Nothing was withdrawn."
            case "asked otherwise":
                return "The question had changed when the answer came. It was not sent; the new question is open."
            case _ if self.driver.cancelled or act == "give up" or (self.stopped and _has_more(head)):
                return "Stopped by a person."
            case _:
                return ""
