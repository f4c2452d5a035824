"""An agent for the browser lane that speaks with several voices at once, thinks aloud, and fails when it is told to.

Two branches and a subgraph answer side by side; then an agent inside it asks a helper, which is an agent inside a tool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from agents.catalog.entry import Graph, chat_model
from agents.catalog.reading import steps
from agents.testing import Plan, ScriptedChatModel, Turn, message_id

MOST_DELAY = 0.05  # seconds before a word: it says many
FAILS = "Fail at this one."
THOUGHT = "The one who asks wants all voices. I take mine, slowly, and leave room for the others."


class Thinking(ScriptedChatModel):
    """A model that thinks before it speaks: its content is a reasoning block and a text block."""

    speaker: str

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        plain = super()._answer(messages)
        content: list[Any] = [{"type": "reasoning", "reasoning": THOUGHT}, {"type": "text", "text": plain.text}]
        name = message_id(messages, speaker=self.speaker)
        return AIMessage(content=content, tool_calls=plain.tool_calls, id=name)

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in _pieces(self._answer(messages)):
            time.sleep(self.delay)
            yield chunk

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _pieces(self._answer(messages)):
            await asyncio.sleep(self.delay)
            yield chunk


def _pieces(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    for index, block in enumerate(message.content):
        assert isinstance(block, dict)
        kind = block["type"]
        name = "reasoning" if kind == "reasoning" else "text"
        for word in str(block[name]).split(" "):
            piece = {"type": kind, name: f"{word} ", "index": index}
            yield ChatGenerationChunk(message=AIMessageChunk(content=[piece], id=message.id))
    for index, call in enumerate(message.tool_calls):
        part: Any = {"name": call["name"], "args": "{}", "id": call["id"], "index": index, "type": "tool_call_chunk"}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", id=message.id, tool_call_chunks=[part]))
    yield ChatGenerationChunk(message=AIMessageChunk(content="", id=message.id, chunk_position="last"))


def _voice(name: str, words: str) -> Any:
    """Return a node that says ``words``, thinking first."""
    model = _thinking(name, lambda messages: Turn(f"{name}: {words}"))

    def speak(state: MessagesState) -> dict[str, Any]:
        if state["messages"][-1].text == FAILS:
            raise ValueError("This one fails, as it was told to.")
        return {"messages": [model.invoke(state["messages"])]}

    return speak


def _thinking(speaker: str, script: Any) -> Thinking:
    delay = getattr(chat_model(script), "delay", 0.0)
    return Thinking(script=script, speaker=speaker, delay=min(delay, MOST_DELAY))


def _verse() -> Graph:
    builder = StateGraph(MessagesState)
    builder.add_node(
        "first_line", _voice("First line", "the lamp is lit, the lamp is bright, it stands upon the shelf.")
    )
    builder.add_node("second_line", _voice("Second line", "and who has come to see it shine may take it for himself."))
    builder.add_edge(START, "first_line")
    builder.add_edge("first_line", "second_line")
    builder.add_edge("second_line", END)
    return builder.compile(name="verse")


@tool
def ask_helper() -> str:
    """Ask somebody who knows more."""
    helper = create_agent(_thinking("helper", lambda messages: Turn("Helper: the brass one, by a long way.")), [])
    return str(helper.invoke({"messages": [HumanMessage("Which lamp?", id="asked")]})["messages"][-1].text)


def _asking(messages: Sequence[BaseMessage]) -> Turn:
    done = [step for step in steps(messages) if step.name == "ask_helper"]
    return Turn("Lead: the helper says it is the brass one.") if done else Turn("", (Plan("ask_helper", {}),))


def build() -> Graph:
    builder = StateGraph(MessagesState)
    builder.add_node("left", _voice("Left", "one voice says this, and goes on for a while, so that it can be watched."))
    builder.add_node("right", _voice("Right", "another says that, at the very same time, and is no less sure of it."))
    builder.add_node("verse", _verse())
    builder.add_node("lead", create_agent(_thinking("lead", _asking), [ask_helper], name="lead"))
    for branch in ("left", "right", "verse"):
        builder.add_edge(START, branch)
        builder.add_edge(branch, "lead")
    builder.add_edge("lead", END)
    return builder.compile(name="chorus")
