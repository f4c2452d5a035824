"""What a model says, slice by slice: text, reasoning, and the tool calls it begins to make.

Takes both shapes in which LangGraph hands it on: message chunks whose content is text or a list of blocks (v2), and
content-block events (v3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agents.conversation import thought_in


@dataclass(frozen=True)
class Slice:
    """``text`` or ``reasoning`` to append to a block; or a ``call`` of the tool named ``text``."""

    kind: Literal["text", "reasoning", "call"]
    block: int
    text: str
    call: str = ""


@dataclass
class Live:
    """A message that is being streamed. ``id`` is what it was announced under."""

    id: str
    node: str
    key: str = ""  # under which its lane keeps it
    blocks: dict[str, int] = field(default_factory=dict)  # name of a block -> its number, in the order of coming
    texts: dict[int, str] = field(default_factory=dict)  # number of a text block -> its text
    others: dict[int, str] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.key = self.key or self.id

    @property
    def text(self) -> str:
        """Return its text as a stored message's is read: text blocks, a line each."""
        return "\n".join(text for text in self.texts.values() if text)

    def take(self, kind: Literal["text", "reasoning"], name: Any, text: str) -> Slice:
        number = self.blocks.setdefault(f"{kind} {name}", len(self.blocks))
        kept = self.texts if kind == "text" else self.others
        kept[number] = kept.get(number, "") + text
        return Slice(kind, number, text)


def slices(live: Live, payload: AIMessage | Mapping[str, Any]) -> Iterator[Slice]:
    """Yield what a chunk, a whole message, or a content-block event adds to ``live``."""
    if isinstance(payload, AIMessage):
        yield from _of_chunk(live, payload)
    else:
        yield from _of_event(live, payload)


def _of_chunk(live: Live, chunk: AIMessage) -> Iterator[Slice]:
    if isinstance(chunk.content, str):
        if reasoning := chunk.additional_kwargs.get("reasoning_content"):
            yield live.take("reasoning", "", str(reasoning))
        if chunk.content:
            yield live.take("text", "", chunk.content)
    else:
        for position, block in enumerate(chunk.content):
            yield from _of_block(live, block, position)
    made = getattr(chunk, "tool_call_chunks", None) or chunk.tool_calls
    for call in made:
        yield from _begins(live, call.get("id"), call.get("name"))


def _of_block(live: Live, block: str | dict[str, Any], position: int) -> Iterator[Slice]:
    if isinstance(block, str):
        yield live.take("text", position, block)
        return
    name = block.get("index", position)
    match block.get("type"):
        case "text" if text := block.get("text"):
            yield live.take("text", name, str(text))
        case "reasoning" | "thinking" if text := thought_in(block):
            yield live.take("reasoning", name, text)


def _begins(live: Live, call: Any, name: Any) -> Iterator[Slice]:
    """Announce a call once, as soon as its id and name are known."""
    if call and name and call not in live.calls:
        live.calls.add(call)
        yield Slice("call", len(live.calls) - 1, str(name), str(call))


# --------------------------------------------------------------------------------------------------------------- events


def _of_event(live: Live, event: Mapping[str, Any]) -> Iterator[Slice]:
    match event.get("event"):
        case "message-start":
            live.id = str(event.get("id") or event.get("message_id") or live.id)
        case "content-block-start":
            block = event.get("content") or {}
            yield from _begins(live, block.get("id"), block.get("name"))
        case "content-block-delta":
            yield from _of_delta(live, event.get("index"), event.get("delta") or {})
        case "content-block-finish":
            yield from _of_finish(live, event.get("index"), event.get("content") or {})


def _of_delta(live: Live, index: Any, delta: Mapping[str, Any]) -> Iterator[Slice]:
    match delta.get("type"):
        case "text-delta" if text := delta.get("text"):
            yield live.take("text", index, str(text))
        case "reasoning-delta" if text := delta.get("reasoning"):
            yield live.take("reasoning", index, str(text))
        case "block-delta":
            fields = delta.get("fields") or {}
            yield from _begins(live, fields.get("id"), fields.get("name"))


def _of_finish(live: Live, index: Any, content: Mapping[str, Any]) -> Iterator[Slice]:
    """Yield what a block holds beyond its deltas: a transformer that looks for words may keep the last ones back."""
    kind = content.get("type")
    if kind == "text" or kind == "reasoning":
        whole = str(content.get(kind) or "")
        number = live.blocks.get(f"{kind} {index}")
        had = "" if number is None else (live.texts if kind == "text" else live.others).get(number, "")
        if whole.startswith(had) and len(whole) > len(had):
            yield live.take(kind, index, whole[len(had) :])
    elif kind in ("tool_call", "tool_call_chunk"):
        yield from _begins(live, content.get("id"), content.get("name"))
