"""One agent, named in a langgraph.json in each way that the file knows."""

from __future__ import annotations

import os
from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph
from sample_pricing import price  # type: ignore[import-not-found]  # from "dependencies"


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", f"{os.environ['SAMPLE_GREETING']}: {price(5)}")]}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()


def make_graph(config: dict[str, Any]) -> Any:
    assert config["configurable"] == {}
    return builder.compile()


async def make_graph_later() -> Any:
    return builder


def needs_two(config: Any, model: Any) -> Any:
    return graph


number = 5
