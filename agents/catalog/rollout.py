"""Static breakpoints: a plain graph that stops after a step, and an agent that stops before each tool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from langgraph.graph import END, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.plain import front_door, say, wish
from agents.catalog.reading import latest, steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

# --------------------------------------------------------------------------------------------------- stops after a step

INTRODUCTION = "I am Rollout. Tell me what to roll out; I try it on one machine, then stop before the rest."


class RolloutState(MessagesState):
    what: str


def canary(state: RolloutState, runtime: Runtime[Any]) -> dict[str, Any]:
    demo.record("deployment", {"what": wish(state), "machines": 1}, origin=origin(runtime), once=True)
    return {"what": wish(state)} | say(state, "It runs on one machine, without errors so far.", speaker="canary")


def everywhere(state: RolloutState, runtime: Runtime[Any]) -> dict[str, Any]:
    demo.record("deployment", {"what": state["what"], "machines": 12}, origin=origin(runtime), once=True)
    return say(state, "It runs on all 12 machines.", speaker="everywhere")


def build() -> Graph:
    builder = StateGraph(RolloutState)
    builder.add_node("canary", canary)
    builder.add_node("everywhere", everywhere)
    front_door(builder, first="canary", introduction=INTRODUCTION)
    builder.add_edge("canary", "everywhere")
    builder.add_edge("everywhere", END)
    return builder.compile(name="rollout", interrupt_after=["canary"])


ENTRY = Entry(
    name="rollout",
    title="Rollout",
    description="A plain graph with a static breakpoint after its first step.",
    version="5.0.0",
    build=build,
    openings=(Opening("Roll out cart-worker 2", "Roll out cart-worker 2."),),
)

# ----------------------------------------------------------------------------------------------- stops before its tools

Service = Literal["cart-worker", "mailer", "search"]


class RestartService(BaseModel):
    service: Service = Field(description="Which service")
    grace_seconds: int = Field(default=10, ge=0, le=120, description="How long it may finish its work, 0 to 120 s")


@demo_tool(RestartService)
def restart_service(service: Service, grace_seconds: int, runtime: ToolRuntime) -> str:
    """Restart one service."""
    demo.record("restart", {"service": service, "grace_seconds": grace_seconds}, origin=origin(runtime))
    return f"Restarted {service}, with {grace_seconds} s of grace."


HELP = "I am Night shift. I restart services: “Restart the mailer”. I know cart-worker, mailer and search."


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Restart the service that was named last."""
    restarted = latest(steps(messages), "restart_service")
    if restarted:
        return Turn(told(restarted, what="the restart"))
    for text in wishes(messages):
        match = re.search(r"\b(cart-worker|mailer|search)\b", text, re.IGNORECASE)
        if match:
            plan = Plan("restart_service", {"service": match[1].lower(), "grace_seconds": 10})
            return Turn(f"I am about to restart {match[1].lower()}.", (plan,))
    return Turn(HELP)


def build_night_shift() -> Graph:
    return create_agent(
        chat_model(script),
        [restart_service],
        system_prompt="You watch over the services at night.",
        middleware=[ToolTimer()],
        interrupt_before=["tools"],
        name="night-shift",
    )


NIGHT_SHIFT = Entry(
    name="night-shift",
    title="Night shift",
    description="An agent with a static breakpoint before its tools: it goes on when a person says continue.",
    version="1.0.0",
    build=build_night_shift,
    openings=(Opening("Restart cart-worker", "Restart the cart-worker, it hangs."),),
)
