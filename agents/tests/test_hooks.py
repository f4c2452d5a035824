"""Agents whose hooks exist in one half only: driven in the way they can run, or refused by name at registration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, before_model, wrap_model_call, wrap_tool_call
from langchain_core.tools import tool

from agents import registry
from agents.hooks import needs_of
from agents.models import Agent
from agents.tests import graphs
from agents.tests.driving import answer, decisions, start, step

Middlewares = Sequence[AgentMiddleware[Any, Any, Any]]
Ran = list[tuple[str, dict[str, Any]]]
APPROVE = {"type": "approve"}


@wrap_tool_call
def checked_call(request: Any, handler: Any) -> Any:
    return handler(request)


@wrap_model_call
def checked_model(request: Any, handler: Any) -> Any:
    return handler(request)


@wrap_tool_call
async def awaited_call(request: Any, handler: Any) -> Any:
    return await handler(request)


@wrap_model_call
async def awaited_model(request: Any, handler: Any) -> Any:
    return await handler(request)


@before_model
async def awaited_before(state: Any, runtime: Any) -> None:
    return None


@tool
async def fetch(url: str) -> str:
    """Fetch a page; there is no sync half, as with MCP tools."""
    return url


class BothHalves(AgentMiddleware[Any, Any, Any]):
    """As the catalog's middleware: each hook in both halves."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


def agent(*middleware: AgentMiddleware[Any, Any, Any], **given: Any) -> graphs.Graph:
    return graphs.agent(lambda *told: None, middleware=middleware, **given)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("hooks", [[checked_call], [checked_model], [checked_call, checked_model]])
def test_sync_only_hooks_run_in_a_thread_and_the_decided_call_runs_once(
    shop: Any, hooks: Middlewares, mode: Any
) -> None:
    ran: Ran = []
    with registry.override("hooked", lambda: graphs.agent(graphs.into(ran), middleware=hooks, mode=mode)):
        assert registry.get("hooked").mode == "sync"
        thread_id = start("hooked", graphs.turns([("pay", {"amount": 7})]))
        asked = step(thread_id)
        assert asked.status == "interrupted", asked.error
        answer(thread_id, asked.asks[0], decisions(APPROVE) if mode == "batched" else APPROVE, ["approve"])
        outcome = step(thread_id)
    assert (outcome.status, outcome.effects[0].state) == ("success", "executed")
    assert ran == [("pay", {"amount": 7})]


@pytest.mark.parametrize("hooks", [[awaited_call, awaited_model], [awaited_before], [BothHalves()], []])
def test_other_agents_run_on_a_loop(shop: Any, hooks: Middlewares) -> None:
    ran: Ran = []
    with registry.override("looped", lambda: graphs.agent(graphs.into(ran), middleware=hooks, extra=[fetch])):
        assert registry.get("looped").mode == "async"
        outcome = step(start("looped", graphs.turns([("read", {"id": 1})])))
    assert (outcome.status, ran) == ("success", [("read", {"id": 1})])


@pytest.mark.parametrize(
    ("build", "sync", "loop"),
    [
        (lambda: agent(checked_call, awaited_model), "checked_call.wrap_tool_call", "awaited_model.awrap_model_call"),
        (lambda: agent(checked_model, awaited_call), "checked_model.wrap_model_call", "awaited_call.awrap_tool_call"),
        (lambda: agent(checked_call, extra=[fetch]), "checked_call.wrap_tool_call", "the tool fetch"),
        (lambda: agent(checked_call, awaited_before), "checked_call.wrap_tool_call", "the node awaited_before"),
    ],
)
def test_an_agent_that_needs_both_is_refused_with_the_names(shop: Any, build: Any, sync: str, loop: str) -> None:
    with registry.override("torn", build):
        with pytest.raises(registry.UnusableAgent) as refused:
            registry.get("torn")
        problem = Agent.objects.get(name="torn").problem
    assert sync in problem
    assert loop in problem
    assert str(refused.value) == problem


def test_the_row_says_why_an_agent_runs_in_a_thread(shop: Any) -> None:
    with registry.override("hooked", lambda: agent(checked_call)):
        assert "checked_call.wrap_tool_call" in Agent.objects.get(name="hooked").mode_reason
    assert Agent.objects.get(name="support").mode_reason == ""


def test_hooks_of_a_subgraph_count_too() -> None:
    inner = agent(checked_model)
    assert needs_of(graphs.chain(("inner", inner))).sync == ("checked_model.wrap_model_call",)
