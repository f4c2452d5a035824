"""An agent in a package, as langgraph.json may name it."""

from __future__ import annotations

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt


def ask(state: MessagesState) -> dict[str, list[tuple[str, str]]]:
    return {"messages": [("ai", f"You said {interrupt('Well?')}.")]}


_builder = StateGraph(MessagesState)
_builder.add_node("ask", ask)
_builder.add_edge(START, "ask")
_builder.add_edge("ask", END)
graph = _builder.compile()
