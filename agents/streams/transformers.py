"""Which stream transformers an agent brings, in which order LangGraph calls them, and what they leave out.

A transformer says for itself whether it takes text out: by an attribute ``redacts`` (True or False). One that does not
say, and that looks at ``messages``, may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from langchain.agents.middleware import internal_call_transformer, pii
from langgraph.stream import StreamTransformer
from langgraph.stream._mux import StreamMux
from langgraph.stream.transformers import (
    LifecycleTransformer,
    MessagesTransformer,
    SubgraphTransformer,
    ValuesTransformer,
)

Redacts = Literal["no", "yes", "maybe"]

# What `stream_events(version="v3")` puts in front of an agent's own.
_FIRST = (ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer)
# Shipped ones that do not say what they do to text. The first only hides calls that middleware makes for itself.
_KNOWN: dict[type[Any], bool] = {
    internal_call_transformer.InternalCallTransformer: False,
    pii._PIIStreamTransformer: True,
}


@dataclass(frozen=True)
class Transformer:
    """One transformer. ``source``: langgraph, langchain, or agent, for those that the agent's middleware brings."""

    name: str
    source: Literal["langgraph", "langchain", "agent"]
    redacts: Redacts
    modes: tuple[str, ...]  # what it asks to see

    def row(self) -> dict[str, Any]:
        return asdict(self) | {"modes": list(self.modes)}


def transformers_of(graph: Any) -> tuple[Transformer, ...]:
    """Return the transformers of a graph in the order in which each event passes them.

    Raises what a factory raises: such a graph could not be streamed either.
    """
    brought = list(getattr(graph, "stream_transformers", ()) or ())
    mux = StreamMux(factories=[*_FIRST, *(_scoped(one) for one in brought)], is_async=True)
    return tuple(_described(one) for one in mux._transformers)


async def through(graph: Any, messages: Sequence[Any]) -> list[Any]:
    """Return messages of a state as the agent's own transformers pass them on, in their order; the originals stay."""
    event: Any = {"type": "event", "method": "values", "params": {"namespace": [], "timestamp": 0}}
    event["params"]["data"] = {"messages": list(messages)}
    brought = list(getattr(graph, "stream_transformers", ()) or ())
    mux = StreamMux(factories=[_scoped(one) for one in brought], is_async=True)
    for one in mux._transformers:
        if _described(one).source == "agent" and not await one.aprocess(event):
            return []
    return list(event["params"]["data"]["messages"])


def _scoped(factory: Callable[[tuple[str, ...]], StreamTransformer]) -> Callable[[tuple[str, ...]], StreamTransformer]:
    return lambda scope: factory(scope)


def _described(one: StreamTransformer) -> Transformer:
    module = type(one).__module__
    modes = tuple(one.required_stream_modes)
    if type(one) in _KNOWN:
        return Transformer(type(one).__name__, "agent", "yes" if _KNOWN[type(one)] else "no", modes)
    for source in ("langgraph", "langchain"):
        if module.partition(".")[0] == source:
            return Transformer(type(one).__name__, source, "no", modes)
    return Transformer(type(one).__name__, "agent", _redacts(one, modes), modes)


def _redacts(one: StreamTransformer, modes: Sequence[str]) -> Redacts:
    said = getattr(one, "redacts", None)
    if isinstance(said, bool):
        return "yes" if said else "no"
    return "maybe" if "messages" in modes else "no"


def redacts(found: Sequence[Transformer]) -> Redacts:
    """Say whether what is streamed may be less than what is stored."""
    said = {one.redacts for one in found}
    return "yes" if "yes" in said else "maybe" if "maybe" in said else "no"


def needs_v3(found: Sequence[Transformer]) -> bool:
    """Transformers run under v3 only; without any of the agent's own there is no need for an experimental interface."""
    return any(one.source == "agent" for one in found)


def trusting(found: Sequence[Transformer]) -> bool:
    """Say whether what states hold may be told: each transformer that takes text out looks at states too."""
    return all(one.redacts == "no" or {"values", "tools"} <= set(one.modes) for one in found)
