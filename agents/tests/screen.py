"""A page as a browser keeps it, in few lines: the rules by which events become bubbles.

It says what the JavaScript of the thread page must do too: an event of a number that was seen is ignored, a gap is
refused, a message replaces its deltas, a run that begins anew takes back what was not finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from agents.outcome import MessageView, StreamEvent
from agents.streams.events import Told


class Gap(Exception):
    """Events are missing: a page asks for them."""


@dataclass
class Bubble:
    id: str
    lane: str = ""
    index: int | None = None  # place in the state; None while it is streamed
    blocks: dict[int, str] = field(default_factory=dict)
    reasoning: str = ""

    @property
    def text(self) -> str:
        return "\n".join(text for text in self.blocks.values() if text)


class Screen:
    def __init__(self) -> None:
        self.seq = 0
        self.messages: dict[str, Bubble] = {}
        self.jumps = 0  # how often a finished message looked other than its deltas
        self.ended = ""

    @classmethod
    def of(cls, messages: Sequence[MessageView], seq: int = 0) -> Self:
        """Begin with a snapshot."""
        screen = cls()
        screen.seq = seq
        for index, message in enumerate(messages):
            screen.messages[message.id] = Bubble(message.id, index=index, blocks={0: message.content})
        return screen

    def bubbles(self) -> list[tuple[str, str]]:
        """Return (id, text) of what is shown of the conversation: what stands, then what is being said anywhere."""
        root = [one for one in self.messages.values() if not one.lane]
        stands = sorted((one for one in root if one.index is not None), key=lambda one: one.index or 0)
        said = [one for one in self.messages.values() if one.index is None and one.text]
        return [(one.id, one.text) for one in [*stands, *said] if one.text or one.index is not None]

    def reasoning(self, message_id: str) -> str:
        return self.messages[message_id].reasoning

    def play(self, events: Iterable[StreamEvent]) -> Self:
        """Take numbered events. Those that were seen change nothing; a missing one raises Gap."""
        for event in events:
            if event.seq <= self.seq and self.seq:
                continue
            if self.seq and event.seq != self.seq + 1:
                raise Gap(event.seq)
            self.seq = event.seq
            self._one(event.kind, dict(event.data))
        return self

    def take(self, told: Iterable[Told]) -> Self:
        for one in told:
            self._one(one.kind, one.data)
        return self

    def _one(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "status" if data["status"] == "running":
                self.messages = {name: one for name, one in self.messages.items() if one.index is not None}
            case "delta":
                self._delta(data)
            case "message":
                self._message(data)
            case "end":
                self.ended = data["status"]

    def _delta(self, data: dict[str, Any]) -> None:
        bubble = self.messages.setdefault(data["id"], Bubble(data["id"], lane=data["lane"]))
        if data["type"] == "reasoning":
            bubble.reasoning += data["text"]
        else:
            bubble.blocks[data["block"]] = bubble.blocks.get(data["block"], "") + data["text"]

    def _message(self, data: dict[str, Any]) -> None:
        if data.get("gone"):
            self.messages.pop(data["id"], None)
            return
        streamed = self.messages.pop(data["replaces"] or data["id"], None)
        before = streamed.text if streamed else None
        bubble = Bubble(data["id"], lane=data["lane"], index=data["index"])
        bubble.blocks = dict(streamed.blocks) if data.get("same") and streamed else {0: data.get("text", "")}
        if before is not None and streamed and streamed.index is None and not before.startswith(bubble.text[:20]):
            self.jumps += 1
        self.messages[bubble.id] = bubble
