"""A tool that refuses its arguments never ran, and the record says so; one that ran and failed is told apart."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, TypeAdapter

from agents import registry, runs
from agents.conversation import conversation
from agents.models import ToolExecution
from agents.outcome import Outcome
from agents.testing import ScriptedChatModel
from agents.tests import graphs
from agents.tests.driving import answer, decisions, start, step

Ran = list[str]


class Amount(BaseModel):
    amount: int


def paying(ran: Ran, *, looped: bool) -> BaseTool:
    """Return a tool that needs an integer; what it reads in its body may be wrong in the same way."""

    def work(amount: int) -> str:
        ran.append(f"pay {amount}")
        if amount == 13:
            TypeAdapter(int).validate_python("thirteen")  # pydantic's error, from the body
        if amount == 14:
            return str(checked.invoke({"amount": "x"}))  # another tool refuses, inside this one
        return f"paid {amount}"

    @tool
    def checked(amount: int) -> str:
        """Check an amount."""
        return "fine"

    @tool("pay", args_schema=Amount)
    def pay(amount: int) -> str:
        """Pay an amount."""
        return work(amount)

    @tool("pay", args_schema=Amount)
    async def pay_later(amount: int) -> str:
        """Pay an amount."""
        return work(amount)

    return pay_later if looped else pay


def agent(ran: Ran, *, looped: bool, asked: bool) -> graphs.Graph:
    gate = HumanInTheLoopMiddleware({"pay": True} if asked else {})
    model = ScriptedChatModel(script=graphs.proposing())
    return create_agent(model, [paying(ran, looped=looped)], middleware=[gate])


def edited(thread_id: str, asked: Outcome, args: dict[str, Any]) -> Outcome:
    verdict = {"type": "edit", "edited_action": {"name": "pay", "args": args}}
    answer(thread_id, asked.asks[0], decisions(verdict), ["edit"], edits={0: args})
    return step(thread_id)


@pytest.mark.parametrize("looped", [True, False], ids=["async tool", "sync tool"])
def test_an_edit_that_the_tool_refuses_did_not_run(shop: Any, looped: bool) -> None:
    ran: Ran = []
    with registry.override("payer", lambda: agent(ran, looped=looped, asked=True)):
        thread_id = start("payer", graphs.turns([("pay", {"amount": 1})]))
        outcome = edited(thread_id, step(thread_id), {"amount": "lots"})
    (effect,) = outcome.effects
    assert (ran, outcome.status, effect.state, effect.differs) == ([], "success", "unfit", False)
    assert "amount" in effect.result
    row = ToolExecution.objects.get(thread_id=thread_id)
    assert (row.status, row.calls, row.refused, row.is_error) == ("finished", 0, True, True)
    assert row.args == {"amount": "lots"}
    assert runs.why_no_rollback(row.run_id) != "it ran pay, which cannot be taken back."
    (call,) = (call for message in conversation(thread_id) for call in message.calls)
    assert (call.error, call.ran) == (True, False)


def test_a_refused_call_that_nobody_was_asked_about_did_not_run(shop: Any) -> None:
    ran: Ran = []
    with registry.override("payer", lambda: agent(ran, looped=False, asked=False)):
        thread_id = start("payer", graphs.turns([("pay", {"amount": "lots"})], [("pay", {"amount": 2})]))
        assert step(thread_id).status == "success"
    assert ran == ["pay 2"]
    calls = [call for message in conversation(thread_id) for call in message.calls]
    assert [(call.error, call.ran) for call in calls] == [(True, False), (False, True)]


@pytest.mark.parametrize("amount", [13, 14], ids=["own validation", "a tool inside"])
def test_what_goes_wrong_in_the_body_ran_and_failed(shop: Any, amount: int) -> None:
    ran: Ran = []
    with registry.override("payer", lambda: agent(ran, looped=True, asked=True)):
        thread_id = start("payer", graphs.turns([("pay", {"amount": 1})]))
        (effect,) = edited(thread_id, step(thread_id), {"amount": amount}).effects
    assert (ran, effect.state) == ([f"pay {amount}"], "failed")
    row = ToolExecution.objects.get(thread_id=thread_id)
    assert (row.calls, row.refused) == (1, False)


def test_a_refusal_that_ends_the_run_is_no_execution_either(shop: Any) -> None:
    """A ToolNode that handles no errors raises it."""
    ran: Ran = []

    def build() -> graphs.Graph:
        node = ToolNode([paying(ran, looped=False)], handle_tool_errors=False)
        return graphs.chain(("propose", propose), ("tools", node))

    with registry.override("strict", build):
        thread_id = start("strict", "go")
        outcome = step(thread_id)
    assert (outcome.status, ran) == ("error", [])
    row = ToolExecution.objects.get(thread_id=thread_id)
    assert (row.status, row.calls, row.refused) == ("failed", 0, True)


def propose(state: graphs.Log) -> dict[str, Any]:
    return {"messages": [AIMessage("", tool_calls=[ToolCall(name="pay", args={}, id="c", type="tool_call")])]}


def test_a_refused_sibling_is_told_as_refused(shop: Any) -> None:
    """One question for each call: what needs no decision was tried before anybody was asked."""
    ran: Ran = []

    def build() -> graphs.Graph:
        return graphs.agent(lambda *told: None, mode="per_call", policy={"wipe": True}, extra=[renamed(ran)])

    with registry.override("mixed", build):
        thread_id = start("mixed", graphs.turns([("wipe", {"path": "a"}), ("transfer", {"amount": "lots"})]))
        (ask,) = step(thread_id).asks
    assert [(one.name, one.state) for one in ask.siblings] == [("transfer", "refused")]
    assert ran == []


def renamed(ran: Ran) -> BaseTool:
    found = paying(ran, looped=False)
    found.name = "transfer"
    return found


def test_the_message_reaches_the_model(shop: Any) -> None:
    seen: list[list[Any]] = []
    ran: Ran = []

    def build() -> graphs.Graph:
        return graphs.agent(lambda *told: None, seen=seen, policy={}, extra=[renamed(ran)])

    with registry.override("told", build):
        step(start("told", graphs.turns([("transfer", {"amount": "lots"})])))
    (message,) = (one for one in seen[-1] if isinstance(one, ToolMessage))
    assert message.status == "error"
    assert "amount" in str(message.content)
