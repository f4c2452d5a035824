"""Looks at the head and acts. The only module that calls a graph.

``advance`` may be repeated at will: it reads what is stored, and does only what is still missing. ``decide`` is the
table of DESIGN section 4, as a function without side effects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal

from django.conf import settings
from django.db import Error as DatabaseError
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.runtime import RunControl
from langgraph.types import Command

from agents import asks, ledger, registry, toolnode
from agents.checkpointer import Fenced
from agents.effects import effects_of
from agents.head import Head, open_calls, read_head
from agents.heartbeat import DEPLOY, heartbeat
from agents.outcome import Effect, Outcome, StreamEvent
from agents.registry import Registered
from agents.runs import Beat, Lease

log = logging.getLogger(__name__)

Act = Literal["start", "answer", "continue", "stop", "replay", "wait", "settle", "asked otherwise", "no effect", "fail"]
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
    if lease.kind == "replay" and not head.landed:
        return "replay"
    if head.breakpoint is not None:
        return _decide_breakpoint(head, lease)
    if head.error and not _can_be_answered(head, lease):
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


def _can_be_answered(head: Head, lease: Lease) -> bool:
    """Tell whether a question still waits beside a task that failed: the answer lets both go on."""
    if head.stuck or lease.kind != "resume":
        return False
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


def _failed(lease: Lease, error: str) -> Outcome:
    return Outcome(lease.thread_id, lease.run_id, lease.token, status="error", error=error, known=False)


class _Drive:
    """One advance of one run."""

    def __init__(self, agent: Registered, lease: Lease, emit: Emit) -> None:
        self.agent = agent
        self.lease = lease
        self.emit = emit
        self.control = RunControl()
        self.lost = False
        self.stopped = lease.stop
        self.error = ""

    def advance(self) -> Outcome:
        with heartbeat.keep(self.lease, self._told):
            head = self._head()
            act = decide(head, self.lease)
            log.info("advance", extra={"run": self.lease.run_id, "on_thread": self.lease.thread_id, "act": act})
            self._perform(act, head)
            if self.lost:
                raise LeaseLost(self.lease.run_id)
            after = self._head()
            if self.stopped == DEPLOY and after.unfinished and not self.error:
                raise Drained(self.lease.run_id)
            return self._outcome(act, after)

    def _told(self, beat: Beat) -> None:
        """Hear from the heartbeat's thread; a drain request is one attribute write, so no lock is needed."""
        self.lost = self.lost or beat.lost
        self.stopped = self.stopped or beat.stop
        self.control.request_drain("lease lost" if beat.lost else beat.stop)

    def _head(self) -> Head:
        return read_head(self.agent, self.lease.thread_id, self.lease.run_id)

    # ------------------------------------------------------------------------------------------------------------ acts

    def _perform(self, act: Act, head: Head) -> None:
        match act:
            case "start":
                self._drive(self._input())
            case "answer":
                payload = self.lease.payload
                self._drive(Command(resume={payload["interrupt_id"]: payload["answer"]}), strict=True)
            case "continue":
                self._continue(head)
            case "replay":
                self._replay(head)
            case "stop":
                self._stop(head)
            case "fail":
                self.error = head.error
            case _:
                pass

    def _continue(self, head: Head) -> None:
        self._drive(None)
        after = self._head()
        if self.error or self.control.drain_requested:  # told to stop before its first step, it stores nothing
            return
        if after.stored == head.stored and after.unfinished and not after.asks:
            self.error = "The graph was continued and stored nothing new. It cannot go on by itself."

    def _replay(self, head: Head) -> None:
        """Start again from a checkpoint, the head unless the run names another: a branch, which becomes the head."""
        start = self.lease.payload or {}
        checkpoint_id = start.get("checkpoint_id") or head.checkpoint_id
        self._drive(None, checkpoint_id=checkpoint_id)

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
        tools = set(registry.tool_nodes(graph))
        node = next((name for name, one in graph.nodes.items() if one.bound in tools), None)
        if values and node:
            config = graph.update_state(config, values, as_node=node)
            config["configurable"]["__countersign"] = self._mark()
        graph.update_state(config, None, as_node="__end__")

    def _reason(self) -> str:
        answer = self.lease.payload.get("answer")
        told = answer.get("message") if isinstance(answer, dict) else None
        return f"A reviewer stopped the run here. {told or ''}".strip()

    def _input(self) -> Any:
        payload = self.lease.payload or {}
        if "values" in payload:
            return payload["values"]
        # The message id is the run's: sent twice, it is still one message.
        return {"messages": [HumanMessage(content=payload.get("text", ""), id=self.lease.run_id)]}

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
        options = {
            "context": self.lease.context,
            "stream_mode": ["updates"],
            "subgraphs": True,
            "durability": "sync",
            "control": self.control,
            "version": "v2",
        }
        if self.agent.mode == "sync":
            self._guarded(lambda: self._stream(value, config, options))
        else:
            self._guarded(lambda: asyncio.run(self._astream(value, config, options)))

    def _stream(self, value: Any, config: Any, options: dict[str, Any]) -> None:
        toolnode.turns.set({})
        for part in self.agent.graph.stream(value, config, **options):
            self._heard(part)

    async def _astream(self, value: Any, config: Any, options: dict[str, Any]) -> None:
        tasks: set[asyncio.Task[Any]] = set()
        ledger.in_flight.set(tasks)
        toolnode.turns.set({})
        try:
            async with asyncio.timeout(settings.RUN_MAX_SECONDS):
                async for part in self.agent.graph.astream(value, config, **options):
                    self._heard(part)
        finally:
            while tasks:  # a tool that has begun ends before the loop does, and before the thread is released
                await asyncio.gather(*tasks, return_exceptions=True)

    def _heard(self, part: Any) -> None:
        nodes = list(part["data"]) if isinstance(part.get("data"), dict) else []
        event = {"nodes": nodes, "namespace": list(part.get("ns", ()))}
        self.emit(StreamEvent(self.lease.thread_id, self.lease.run_id, seq=0, kind="node", data=event))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run the graph. What the graph raises is the run's error; what the desk's own database raises is not."""
        try:
            work()
        except GraphDrained:
            log.info("drained", extra={"run": self.lease.run_id})
        except Fenced as late:
            self.lost = True
            log.warning("late worker", extra={"run": self.lease.run_id, "reason": str(late)})
        except DatabaseError:
            raise
        except TimeoutError:
            self.error = f"The run took longer than {settings.RUN_MAX_SECONDS:g} s and was ended."
        except GraphRecursionError as error:
            self.error = f"The agent went round too often and was stopped: {error}"
        except Exception as error:
            log.warning("the graph raised", extra={"run": self.lease.run_id}, exc_info=True)
            self.error = _words(error)

    # --------------------------------------------------------------------------------------------------------- outcome

    def _outcome(self, act: Act, head: Head) -> Outcome:
        asks.record_calls(self.lease.thread_id, head.asks)
        error = self.error or head.error
        effects = effects_of(self.agent, self.lease.thread_id, self.lease.run_id, head)
        return Outcome(
            thread_id=self.lease.thread_id,
            run_id=self.lease.run_id,
            token=self.lease.token,
            status=self._status(act, head, error),
            head=head.checkpoint_id,
            asks=head.asks,
            gone=self._gone(act, error, effects),
            effects=effects,
            error=error or self._told_why(act),
            stuck=head.stuck,
        )

    def _gone(self, act: Act, error: str, effects: tuple[Effect, ...]) -> tuple[tuple[str, str], ...]:
        """Return the question whose answer is void: it was gone, or the run failed before the answer did anything."""
        if self.lease.kind != "resume":
            return ()
        answered = (self.lease.payload["namespace"], self.lease.payload["interrupt_id"])
        shown = any(effect.interrupt_id == answered[1] and effect.state != "missing" for effect in effects)
        return (answered,) if act == "no effect" or (error and not shown) else ()

    def _status(self, act: Act, head: Head, error: str) -> Literal["interrupted", "success", "error", "cancelled"]:
        if act in ("no effect", "asked otherwise") or self.stopped == "cancel":
            return "cancelled"
        if error:
            return "error"
        if self.control.drain_requested and head.unfinished:
            return "cancelled"
        return "interrupted" if head.asks else "success"

    def _told_why(self, act: Act) -> str:
        match act:
            case "no effect":
                return "The question was gone when the answer came. The decision had no effect."
            case "asked otherwise":
                return "The question had changed when the answer came. It was not sent; the new question is open."
            case _:
                return ""


def _words(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".replace("\x00", "\u2400")
    if "msgpack" in text or "exceeds 64-bit" in text:
        return (
            "A value of this step cannot be stored in a checkpoint, so the step was not taken. Numbers may have at most"
            f" 64 bits (up to 18446744073709551615) and nesting is limited. {text}"
        )
    return text
