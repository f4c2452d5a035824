"""Buyer: the question comes from inside a tool, which calls ``interrupt()`` itself and starts again when answered."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import latest, steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

PRICES = {"chair": 185.0, "desk": 420.0, "lamp": 129.0, "paper": 4.5}


class Buy(BaseModel):
    item: str = Field(max_length=80, description="One of chair, desk, lamp, paper")
    quantity: int = Field(ge=1, le=100, description="How many, 1 to 100")


@demo_tool(Buy)
def buy(item: str, quantity: int, runtime: ToolRuntime) -> str:
    """Buy something for the office. Asks by itself which cost centre pays, before it does anything."""
    if item not in PRICES:
        raise demo.Refused(f"Nobody sells {item}; there are {', '.join(PRICES)}.")
    total = PRICES[item] * quantity
    payer = interrupt(
        {
            "question": f"Which cost centre pays {total:.2f} EUR for {quantity} × {item}?",
            "options": ["Office", "Sales", "Nobody"],
        }
    )
    if not isinstance(payer, str) or not payer.strip() or payer.strip().lower() == "nobody":
        raise demo.Refused("Nobody pays for it, so nothing was bought.")
    args = {"item": item, "quantity": quantity, "total": total, "payer": payer.strip()}
    demo.record("purchase", args, origin=origin(runtime))
    return f"Bought {quantity} × {item} for {total:.2f} EUR, paid by {payer.strip()}."


HELP = "I am Buyer. Tell me what you need: “Buy 2 desks”. I know chairs, desks, lamps and paper."


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Buy the first thing that was named and has a price."""
    bought = latest(steps(messages), "buy")
    if bought:
        return Turn(told(bought, what="the purchase"))
    for text in wishes(messages):
        match = re.search(r"(?:(\d{1,3})\s+)?\b(chair|desk|lamp|paper)s?\b", text, re.IGNORECASE)
        if match:
            plan = Plan("buy", {"item": match[2].lower(), "quantity": int(match[1] or 1)})
            return Turn("I order that. The shop asks who pays.", (plan,))
    return Turn(HELP)


def build() -> Graph:
    return create_agent(
        chat_model(script),
        [buy],
        system_prompt="You buy what the office needs.",
        middleware=[ToolTimer()],
        name="buyer",
    )


ENTRY = Entry(
    name="buyer",
    title="Buyer",
    description="An agent whose tool stops by itself, in the middle of its work, with a question.",
    version="1.1.0",
    build=build,
    openings=(Opening("Two desks", "Buy 2 desks for the new room."),),
)
