"""Front desk: what people tell it of themselves is redacted in its state, so that nothing keeps it.

LangChain's PIIMiddleware changes the messages themselves: input before the model sees it, output and tool results
after they come. It also brings a stream transformer, so that the live page shows no more than what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig, PIIMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import latest, steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

_ORDER = re.compile(r"\b\d{5}\b")
HELP = "I am Front desk. Tell me an order, and whom to call back about it, with their address; I keep the order only."


class CallBack(BaseModel):
    order: int = Field(ge=1, le=99_999, description="The order")
    note: str = Field(max_length=500, description="What the call is about")


@demo_tool(CallBack)
def call_back(order: int, note: str, runtime: ToolRuntime) -> str:
    """Book a call to the customer of an order."""
    demo.record("booking", {"order": order, "note": note}, origin=origin(runtime))
    return f"A call about order {order} is booked. The confirmation went to desk@shop.example.test."


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Book one call for the order that was named last, quoting what was said: it is redacted by then."""
    done = latest(steps(messages), "call_back")
    if done is not None:
        return Turn(told(done, what="the call"))
    for wish in wishes(messages):
        if order := _ORDER.search(wish):
            note = f"They wrote: {wish}"[:500]
            return Turn(f"You wrote: {wish}", (Plan("call_back", {"order": int(order.group()), "note": note}),))
    return Turn(HELP)


def build() -> Graph:
    return create_agent(
        chat_model(script),
        [call_back],
        system_prompt="You book calls. You never keep an address.",
        middleware=[
            PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True),
            HumanInTheLoopMiddleware(
                {"call_back": InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"])},
                description_prefix="I would book this call.",
            ),
            ToolTimer(),
        ],
        name="frontdesk",
    )


ENTRY = Entry(
    name="frontdesk",
    title="Front desk",
    description="Addresses are redacted in its state, before the model sees them: nothing keeps them.",
    version="0.1.0",
    build=build,
    openings=(Opening("A call about order 10482", "Call ines.krug@example.test back about order 10482, please."),),
)
