"""Mail room: its model numbers the tool calls of each turn from ``call_0`` again, as some providers do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

Department = Literal["accounts", "legal", "sales"]
POST: tuple[tuple[str, Department], ...] = (
    ("Invoice of the carrier, November", "accounts"),
    ("Warning from a lawyer about the shop's name", "legal"),
    ("Price list of a supplier", "sales"),
)


class ForwardLetter(BaseModel):
    letter: str = Field(min_length=1, max_length=200, description="What the letter is about")
    department: Department = Field(description="Who gets it")
    registered: bool = Field(default=False, description="Must be signed for")


@demo_tool(ForwardLetter)
def forward_letter(letter: str, department: Department, registered: bool, runtime: ToolRuntime) -> str:
    """Carry one letter to a department."""
    args = {"letter": letter, "department": department, "registered": registered}
    demo.record("letter", args, origin=origin(runtime))
    return f"Took “{letter}” to {department}."


_POST = re.compile(r"\b(?:sort|post|letters?|mail)\b", re.IGNORECASE)
HELP = "I am Mail room. Say “Sort the post”, and I forward today's three letters, one by one."


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Forward one letter a turn, whatever became of the one before."""
    done = steps(messages)
    if not done and not any(_POST.search(text) for text in wishes(messages)):
        return Turn(HELP)
    if len(done) < len(POST):
        letter, department = POST[len(done)]
        before = f"{told(done[-1], what='the letter before')} Next: " if done else ""
        plan = Plan("forward_letter", {"letter": letter, "department": department, "registered": department == "legal"})
        return Turn(f"{before}letter {len(done) + 1} of {len(POST)}.", (plan,))
    return Turn("\n".join(f"- {told(step, what=str(step.args.get('letter')))}" for step in done))


def build() -> Graph:
    return create_agent(
        chat_model(script, repeat_ids=True),
        [forward_letter],
        system_prompt="You sort the post, one letter at a time.",
        middleware=[
            HumanInTheLoopMiddleware(
                {
                    "forward_letter": InterruptOnConfig(
                        allowed_decisions=["approve", "edit", "reject"],
                        description="I have read the envelope, not the letter.",
                    )
                }
            ),
            ToolTimer(),
        ],
        name="mailroom",
    )


ENTRY = Entry(
    name="mailroom",
    title="Mail room",
    description="An agent that asks three times, and whose tool calls bear the same id each time.",
    version="0.1.0",
    build=build,
    openings=(Opening("Sort the post", "Sort the post of today."),),
)
