"""The runner against real graphs: what it does on each head, and what the ledger lets through."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F
from langchain.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode

from agents import registry, runner, runs
from agents.models import LedgerIncident, Run, Thread, ToolCall, ToolExecution
from agents.tests import driving, graphs
from agents.tests.driving import answer, decisions, start, step

APPROVE = {"type": "approve"}


def paying(ran: list[Any], **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into(ran), **options)


def pay(amount: int) -> str:
    return graphs.turns([("pay", {"amount": amount})])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_an_approved_call_runs_once_and_its_effect_is_verified(shop: Any, mode: str) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran, mode=mode)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        assert not ran
        answer(thread_id, ask, decisions(APPROVE) if mode == "batched" else APPROVE, ["approve"])
        outcome = step(thread_id)
    assert outcome.status == "success", outcome.error
    assert [(name, args["amount"]) for name, args in ran] == [("pay", 5)]
    (effect,) = outcome.effects
    assert (effect.state, effect.differs) == ("executed", False)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("verdict", ["reject", "respond"])
def test_a_call_that_was_answered_otherwise_never_runs(shop: Any, mode: str, verdict: str) -> None:
    ran: list[Any] = []
    policy: Any = {"pay": {"allowed_decisions": ["approve", "edit", "reject", "respond"]}}
    with registry.override("paying", paying(ran, mode=mode, policy=policy)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        said = {"type": verdict, "message": "No need."}
        answer(thread_id, ask, decisions(said) if mode == "batched" else said, [verdict])
        outcome = step(thread_id)
    assert outcome.status == "success", outcome.error
    assert not ran
    assert [effect.state for effect in outcome.effects] == [{"reject": "rejected", "respond": "responded"}[verdict]]


def test_an_edit_runs_with_the_edited_arguments(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        edited = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 4}}}
        answer(thread_id, ask, decisions(edited), ["edit"], edits={0: {"amount": 4}})
        outcome = step(thread_id)
    assert [args["amount"] for _, args in ran] == [4]
    assert (outcome.effects[0].state, outcome.effects[0].differs) == ("executed", False)


def test_other_arguments_than_the_permitted_ones_are_refused(shop: Any) -> None:
    """The answer that reaches LangGraph says 9, the permit says 5: somebody tampered with one of them."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        forged = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 9}}}
        answer(thread_id, ask, decisions(forged), ["approve"])
        outcome = step(thread_id)
    assert not ran
    assert [effect.state for effect in outcome.effects] == ["refused"]
    assert LedgerIncident.objects.get(thread_id=thread_id).kind == "digest differs"


def test_a_rejected_call_that_is_not_asked_about_any_more_is_refused(shop: Any) -> None:
    """FACTS 0.5: a predicate that turns false between question and answer makes the middleware ignore the reject."""
    ran: list[Any] = []
    gate = [True]
    policy: Any = {"pay": {"allowed_decisions": ["approve", "reject"], "when": lambda request: gate[0]}}
    with registry.override("paying", paying(ran, policy=policy)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        gate[0] = False
        answer(thread_id, ask, decisions({"type": "reject"}), ["reject"])
        step(thread_id)
    assert not ran
    assert LedgerIncident.objects.get(thread_id=thread_id).kind == "rejected call"


def test_a_call_that_was_never_asked_about_passes_and_is_recorded(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", graphs.turns([("read", {"id": 1})]))
        assert step(thread_id).status == "success"
    assert [name for name, _ in ran] == ["read"]
    assert ToolExecution.objects.get(thread_id=thread_id).status == "finished"
    assert not ToolCall.objects.filter(thread_id=thread_id).exists()


# ------------------------------------------------------------------------------------------------------ fork and replay


def test_a_fork_past_the_pause_asks_again(shop: Any) -> None:
    """The approval of the original stands in the copied state; the ledger asks, because no permit is of this thread."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        step(thread_id)
        assert len(ran) == 1
        fork = _fork_before(thread_id, "tools")
        outcome = step(fork)
        assert (len(ran), outcome.status) == (1, "interrupted")
        (again,) = outcome.asks
        assert again.interrupt_id != ask.interrupt_id
        answer(fork, again, {"type": "reject", "message": "Not twice."}, ["reject"])
        rejected = step(fork)
        assert (len(ran), rejected.status) == (1, "success")
        assert [effect.state for effect in rejected.effects] == ["rejected"]

        second = _fork_before(thread_id, "tools")
        (again,) = step(second).asks
        answer(second, again, APPROVE, ["approve"])
        approved = step(second)
        assert (len(ran), approved.status) == (2, "success")
        assert [effect.state for effect in approved.effects] == ["executed"]


def _fork_before(thread_id: str, node: str) -> str:
    """Copy the checkpoint at which ``node`` is next into a new thread, as a fork does, and line up its continuation."""
    graph = registry.get("paying").graph
    old = next(one for one in graph.get_state_history({"configurable": {"thread_id": thread_id}}) if node in one.next)
    fork = runs.create_thread("paying", author="olga")
    Thread.objects.filter(pk=fork).update(
        ancestor_id=thread_id, ancestor_checkpoint=old.config["configurable"]["checkpoint_id"]
    )
    saved = graph.checkpointer.get_tuple(old.config)
    graph.checkpointer.put(
        {"configurable": {"thread_id": fork, "checkpoint_ns": ""}},
        saved.checkpoint,
        {**saved.metadata, "source": "fork"},
        saved.checkpoint["channel_versions"],
    )
    runs.enqueue(fork, kind=Run.Kind.REPLAY, payload={}, author="olga")
    return fork


# ------------------------------------------------------------------------------------------------------------- the head


def test_a_changed_question_is_not_answered(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        Run.objects.filter(thread_id=thread_id, kind="resume").update(
            payload={
                "interrupt_id": ask.interrupt_id,
                "namespace": "",
                "digest": "0" * 64,
                "answer": decisions(APPROVE),
            }
        )
        outcome = step(thread_id)
    assert not ran
    assert (outcome.status, len(outcome.asks)) == ("cancelled", 1)
    assert driving.thread(thread_id).status == "interrupted"


def test_an_answer_to_a_question_that_is_gone_has_no_effect(shop: Any) -> None:
    """Another client put new input on the thread behind our back, which drops the question."""
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        graph = registry.get("paying").graph
        graph.update_state({"configurable": {"thread_id": thread_id}}, None, as_node="__end__")
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        outcome = step(thread_id)
    assert not ran
    assert outcome.gone == (("", ask.interrupt_id),)
    assert outcome.status == "cancelled"


def test_a_thread_poisoned_by_a_bad_answer_is_stuck_and_replaying_its_head_asks_afresh(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, decisions(), ["approve"])
        bad = step(thread_id)
        assert (bad.status, bad.stuck, bad.asks) == ("error", True, ())
        assert bad.gone == (("", ask.interrupt_id),)
        assert driving.thread(thread_id).stuck
        runs.enqueue(thread_id, kind=Run.Kind.REPLAY, payload={}, author="olga")
        outcome = step(thread_id)
        assert (outcome.status, outcome.stuck) == ("interrupted", False)
        (again,) = outcome.asks
        assert again.interrupt_id != ask.interrupt_id
        answer(thread_id, again, decisions(APPROVE), ["approve"])
        assert step(thread_id).status == "success"
    assert len(ran) == 1


def test_a_message_is_held_while_a_question_is_open(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(5))
        (ask,) = step(thread_id).asks
        runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload={"text": graphs.turns()}, author="olga")
        assert thread_id not in runs.claimable()
        assert runs.claim(thread_id, "shell") is None
        answer(thread_id, ask, decisions(APPROVE), ["approve"])
        first, second = step(thread_id), step(thread_id)
    assert [Run.objects.get(pk=one.run_id).kind for one in (first, second)] == ["resume", "input"]


@pytest.mark.parametrize("build", [graphs.breakpoint_before, graphs.breakpoint_after], ids=["before", "after"])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_static_breakpoint_asks_and_goes_on_only_when_told(shop: Any, build: Any, verdict: str) -> None:
    ran: list[Any] = []
    with registry.override("stops", lambda: build(graphs.into(ran))):
        thread_id = start("stops", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        outcome = step(thread_id)
        (ask,) = outcome.asks
        assert (outcome.status, ask.kind, [name for name, _ in ran]) == ("interrupted", "breakpoint", ["first"])
        assert not runs.claimable()
        answer(thread_id, ask, {"type": verdict}, [verdict])
        done = step(thread_id)
    assert done.status == "success", done.error
    assert [name for name, _ in ran] == (["first", "second"] if verdict == "approve" else ["first"])
    assert [effect.state for effect in done.effects] == [{"approve": "continued", "reject": "stopped"}[verdict]]


def test_each_of_several_questions_gets_its_own_answer(shop: Any) -> None:
    with registry.override("parallel", graphs.parallel):
        thread_id = start("parallel", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        asks = {ask.value: ask for ask in step(thread_id).asks}
        wanted = {b'"right"': "R", b'{"q":"inner"}': "I", b'"left"': "L"}
        for value, said in wanted.items():
            answer(thread_id, asks.pop(value), said, ["respond"])
            outcome = step(thread_id)
            assert {ask.interrupt_id for ask in outcome.asks} == {ask.interrupt_id for ask in asks.values()}
        graph = registry.get("parallel").graph
        log = graph.get_state({"configurable": {"thread_id": thread_id}}).values["log"]
    assert {key: log[key] for key in ("left", "right", "inner")} == {"left": "L", "right": "R", "inner": "I"}


def wraps_of(mode: str) -> dict[str, Any]:
    return {"wrap_tool_call": graphs.as_it_is} if mode == "sync" else {}


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_tools_that_share_a_task_get_their_own_answers_and_none_begins_behind_a_question(shop: Any, mode: str) -> None:
    """The question ends the run. What began after it would act behind a run that is over, or be broken off."""
    ran: list[Any] = []

    def build() -> Any:
        node = ToolNode(graphs.asking_tools(graphs.into(ran)), **wraps_of(mode))
        return graphs.chain(("propose", graphs.propose_three), ("tools", node))

    with registry.override("three", build):
        assert registry.get("three").mode == mode
        thread_id = start("three", "go")
        for count, name in enumerate(graphs.NAMES, 1):
            (ask,) = step(thread_id).asks
            assert ask.value == f'{{"from":"{name}"}}'.encode()
            begun = dict(ToolExecution.objects.filter(thread=thread_id).values_list("name", "status"))
            assert begun.keys() == {*graphs.NAMES[:count]}
            assert "started" not in begun.values()
            answer(thread_id, ask, f"for {name}", ["respond"])
        assert step(thread_id).status == "success"
    assert ran == [(name, {"answer": f"for {name}"}) for name in graphs.NAMES]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_call_that_shares_a_task_does_not_begin_behind_an_error(shop: Any, mode: str) -> None:
    ran: list[Any] = []

    @tool
    def one() -> str:
        """Fail."""
        raise ValueError("out of paper")

    def build() -> Any:
        _, two, three = graphs.asking_tools(graphs.into(ran))
        node = ToolNode([one, two, three], handle_tool_errors=False, **wraps_of(mode))
        return graphs.chain(("propose", graphs.propose_three), ("tools", node))

    with registry.override("three", build):
        thread_id = start("three", "go")
        outcome = step(thread_id)
    assert (outcome.status, outcome.asks) == ("error", ())
    assert "out of paper" in outcome.error
    assert list(ToolExecution.objects.filter(thread=thread_id).values_list("name", "status")) == [("one", "failed")]


def test_a_node_may_bring_calls_that_it_made_itself(shop: Any) -> None:
    """A subclass may copy what the message says; then nothing tells which of the visit's calls this is."""
    ran: list[Any] = []

    class Copying(ToolNode):
        def _parse_input(self, value: Any) -> Any:
            calls, input_type = super()._parse_input(value)
            return [{**call} for call in calls], input_type

    def build() -> Any:
        node = Copying(graphs.asking_tools(graphs.into(ran))[:1])
        return graphs.chain(("propose", graphs.propose_three), ("tools", node))

    with registry.override("copying", build):
        thread_id = start("copying", "go")
        (ask,) = step(thread_id).asks
        answer(thread_id, ask, "yes", ["respond"])
        outcome = step(thread_id)
    assert (outcome.status, ran) == ("success", [("one", {"answer": "yes"})])


# ---------------------------------------------------------------------------------------------------- claims and leases


def test_one_runner_a_thread(shop: Any) -> None:
    thread_id = start("support", "Where is order 10311?")
    first = runs.claim(thread_id, "one")
    assert first is not None
    assert runs.claim(thread_id, "two") is None


def test_a_late_worker_leaves_no_outcome(shop: Any) -> None:
    thread_id = start("support", "Where is order 10311?")
    late = runs.claim(thread_id, "late")
    assert late is not None
    Thread.objects.filter(pk=thread_id).update(token=F("token") + 1, holder="other")
    with pytest.raises(runner.LeaseLost):
        runner.advance(late, emit=lambda event: None)
    assert runs.beat(late).lost
    assert not runs.release(late, requeue=True)


def test_a_run_that_keeps_stopping_its_worker_ends_and_the_queue_goes_on(shop: Any, settings: Any) -> None:
    settings.RUN_MAX_ATTEMPTS = 2
    thread_id = start("support", "Where is order 10311?")
    runs.enqueue(thread_id, kind=Run.Kind.INPUT, payload={"text": "hello"}, author="olga")
    Run.objects.filter(thread_id=thread_id, position=1).update(attempts=2)
    assert step(thread_id).status == "error"
    assert step(thread_id).status == "success"


def test_an_unknown_agent_is_an_error_in_words(shop: Any) -> None:
    with registry.override("passing", graphs.parallel):
        thread_id = start("passing", "")
    outcome = step(thread_id)
    assert outcome.status == "error"
    assert "No agent named 'passing' is registered" in outcome.error


def test_a_number_too_large_for_a_checkpoint_is_said_in_words(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", pay(2**70))
        outcome = step(thread_id)
    assert (outcome.status, outcome.asks) == ("error", ())
    assert "64 bits" in outcome.error


def test_a_message_sent_twice_is_one(shop: Any) -> None:
    thread_id = runs.create_thread("support", author="olga")
    sent = [
        runs.enqueue(thread_id, kind="input", payload={"text": "hi"}, author="olga", submit_token="s1")
        for _ in range(2)
    ]
    assert sent[0] == sent[1]
    assert Run.objects.filter(thread_id=thread_id).count() == 1


def test_a_question_beside_a_failed_branch_can_still_be_answered(shop: Any) -> None:
    broken = [True]

    def fails_once(state: Any) -> dict[str, Any]:
        if broken[0]:
            raise RuntimeError("the branch is broken")
        return {"log": {"other": "went on"}}

    def build() -> Any:
        builder = StateGraph(graphs.Log)
        builder.add_node("ask", graphs.asking("ask", "well?"))
        builder.add_node("other", fails_once)
        builder.add_edge(START, "ask")
        builder.add_edge(START, "other")
        return builder.compile()

    with registry.override("two", build):
        thread_id = start("two", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        outcome = step(thread_id)
        assert (outcome.status, len(outcome.asks)) == ("error", 1)
        assert driving.thread(thread_id).status == "interrupted"
        broken[0] = False
        answer(thread_id, outcome.asks[0], "yes", ["respond"])
        assert step(thread_id).status == "success"
        log = registry.get("two").graph.get_state({"configurable": {"thread_id": thread_id}}).values["log"]
    assert log == {"ask": "yes", "other": "went on"}
