"""Research: asks people. Its questions are answered by ``respond`` only, one of them with choices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import Step, latest, sentence, steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn


class AskUser(BaseModel):
    question: str = Field(min_length=1, max_length=500, description="One question, as a person would read it")


class Choose(AskUser):
    choices: list[str] = Field(min_length=2, max_length=8, description="The answers to choose from, 2 to 8")


class SaveReport(BaseModel):
    title: str = Field(min_length=1, max_length=80, description="Title of the report")
    text: str = Field(max_length=100_000, description="The report")


@demo_tool(AskUser, idempotent=True)
def ask_user(question: str) -> str:
    """Ask a person. The person's answer is the result."""
    raise demo.Refused("Only a person can answer this.")


@demo_tool(Choose, idempotent=True)
def choose(question: str, choices: list[str]) -> str:
    """Let a person choose one of several answers. The person's answer is the result."""
    raise demo.Refused("Only a person can choose.")


@demo_tool(SaveReport, idempotent=True)
def save_report(title: str, text: str, runtime: ToolRuntime) -> str:
    """Save a report in the workspace."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "report"
    path = demo.write_text(f"reports/{slug}.md", f"# {title}\n\n{text}\n", overwrite=True)
    demo.record("note", {"title": title, "text": text}, origin=origin(runtime), once=True)
    return f"Saved {path}."


HELP = (
    "I am Research. I ask before I write: try “Write the churn report” for an open question, or “Plan the team lunch”"
    " for one with choices. Anything else you call a report or a plan works too."
)


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Ask, save a report with the answer, and say so."""
    done = steps(messages)
    asked = latest(done, "ask_user") or latest(done, "choose")
    saved = latest(done, "save_report")
    if saved:
        return Turn(told(saved, what="the report"))
    if asked:
        return _after(asked)
    for text in wishes(messages):
        if re.search(r"\b(report|write|research)\b", text, re.IGNORECASE):
            is_churn = "churn" in text.lower()
            question = "Which cut-off date for the churn report?" if is_churn else f"What matters most: {text[:400]}"
            return Turn("Before I write it, I need to know one thing.", (Plan("ask_user", {"question": question}),))
        if re.search(r"\b(plan|choose|lunch)\b", text, re.IGNORECASE):
            days = ["Tuesday", "Thursday", "Not this week"]
            plan = Plan("choose", {"question": f"{sentence(text[:400])} Which day?", "choices": days})
            return Turn("There are three ways to do it. Please choose.", (plan,))
    return Turn(HELP)


def _after(asked: Step) -> Turn:
    if asked.outcome != "answered":
        return Turn(told(asked, what="my question"))
    title = "Churn" if "churn" in str(asked.args.get("question", "")).lower() else "Answer"
    text = f"Question: {asked.args.get('question')}\n\nAnswer: {asked.text}"
    save = Plan("save_report", {"title": title, "text": text})
    return Turn(f"Thank you. I work with this: {sentence(asked.text)}", (save,))


def build() -> Graph:
    answer_only = InterruptOnConfig(allowed_decisions=["respond"], description="I cannot know this; a person can.")
    return create_agent(
        chat_model(script),
        [ask_user, choose, save_report],
        system_prompt="You write short reports. Ask a person what you cannot know.",
        middleware=[HumanInTheLoopMiddleware({"ask_user": answer_only, "choose": answer_only}), ToolTimer()],
        name="ask-user",
    )


ENTRY = Entry(
    name="ask-user",
    title="Research",
    description="Writes short reports, and asks people what it cannot know. A person answers in the tool's place.",
    version="0.9.2",
    build=build,
    openings=(
        Opening("Churn report", "Write the churn report for the fourth quarter."),
        Opening("Team lunch", "Plan the team lunch."),
    ),
)
