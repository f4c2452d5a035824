"""Hotline: its live text shows no card numbers, and it tells of its progress on channels of its own.

Its middleware brings two stream transformers. One takes card numbers out of all that is streamed; its state keeps
them, because the reply that is sent needs them. The other feeds two channels: how many words are written, and the
draft as it grows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.stream import StreamChannel, StreamTransformer
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import latest, steps, told, wishes
from agents.catalog.toolkit import ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

MASK = "•••• card number ••••"
_CARD = re.compile(r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)")
_MAY_GO_ON = re.compile(r"[\d -]{1,40}\Z")  # the end of a text that may become a card number
_HELP = re.compile(r"\A\s*(?:help|hello|hi|hey)\b", re.IGNORECASE)


def without_cards(text: str) -> str:
    return _CARD.sub(MASK, text)


class WithoutCards(StreamTransformer):
    """Takes card numbers out of all that is streamed; what is stored stays as it is.

    In front of LangGraph's own transformers, which keep copies. It looks at states and tools as well as at messages, so
    that no way round is left, and changes copies only: the objects it is given are those of the graph.
    """

    redacts: ClassVar[bool] = True
    before_builtins: ClassVar[bool] = True
    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages", "values", "tools", "custom")

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._held: dict[tuple[str, Any], str] = {}  # (model run, block) -> the end of its text, not yet let through

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event: Any) -> bool:
        params = event["params"]
        match event["method"]:
            case "messages":
                payload, metadata = params["data"]
                params["data"] = (self._said(payload, str(metadata.get("run_id", ""))), metadata)
            case "values" | "tools" | "custom":
                params["data"] = _clean(params["data"])
        return True

    def _said(self, payload: Any, run: str) -> Any:
        if not isinstance(payload, dict):
            return _clean(payload)
        match payload.get("event"):
            case "content-block-delta" if payload["delta"].get("type") == "text-delta":
                delta = {**payload["delta"], "text": self._let_through(run, payload["index"], payload["delta"]["text"])}
                return {**payload, "delta": delta}
            case "content-block-delta" if payload["delta"].get("type") == "tool-call-delta":
                return {**payload, "delta": {**payload["delta"], "args": ""}}  # arguments are shown when they are whole
            case "content-block-finish":
                self._held.pop((run, payload.get("index")), None)
                return _clean(payload)
        return payload

    def _let_through(self, run: str, block: Any, text: str) -> str:
        """Return what of a text may be shown: all but an end of digits, which may be half a number."""
        whole = self._held.get((run, block), "") + text
        end = _MAY_GO_ON.search(whole)
        certain = whole[: end.start()] if end else whole
        self._held[run, block] = whole[len(certain) :]
        return without_cards(certain)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return without_cards(value)
        case BaseMessage():
            changed: dict[str, Any] = {"content": _clean(value.content)}
            if isinstance(value, AIMessage):
                changed["tool_calls"] = _clean(value.tool_calls)
            return value.model_copy(update=changed)
        case Mapping():
            return {key: _clean(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_clean(item) for item in value)
    return value


class Progress(StreamTransformer):
    """Feeds two channels from what the model says: ``words`` counts them, ``draft`` is the text as it grows."""

    redacts: ClassVar[bool] = False
    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._words: StreamChannel[dict[str, int]] = StreamChannel("words")
        self._draft: StreamChannel[dict[str, str]] = StreamChannel("draft")
        self._text = ""

    def init(self) -> dict[str, Any]:
        return {"words": self._words, "draft": self._draft}

    def process(self, event: Any) -> bool:
        if event["method"] != "messages" or not isinstance(event["params"]["data"][0], dict):
            return True
        payload = event["params"]["data"][0]
        match payload.get("event"):
            case "message-start":
                self._text = ""
            case "content-block-delta" if payload["delta"].get("type") == "text-delta":
                self._text += payload["delta"]["text"]
                self._words.push({"written": len(self._text.split())})
            case "content-block-finish" if payload["content"].get("type") == "text":
                self._draft.push({"title": "Draft of the answer", "text": payload["content"]["text"]})
        return True


class Careful(AgentMiddleware[Any, Any, Any]):
    """Brings the transformers of this agent's streams."""

    transformers = (WithoutCards, Progress)


class Reply(BaseModel):
    text: str = Field(min_length=1, max_length=5_000, description="The reply, as the customer will read it")


@demo_tool(Reply)
def send_reply(text: str, runtime: ToolRuntime) -> str:
    """Send a reply to the customer who is on the line."""
    demo.record("email", {"text": text}, origin=origin(runtime))
    return "The reply is sent."


HELP = "I am Hotline. Tell me what the customer says, and I propose a reply. Card numbers do not appear while I write."


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Repeat what the customer said, as people at a hotline do, and propose a reply that quotes it."""
    done = latest(steps(messages), "send_reply")
    if done is not None:
        return Turn(told(done, what="the reply"))
    said = next(iter(wishes(messages)), "").strip()
    if not said or _HELP.search(said):
        return Turn(HELP)
    text = f"You told us: {said} We look into it and come back to you today."[:5_000]
    return Turn(f"The customer says: {said} I would answer at once.", (Plan("send_reply", {"text": text}),))


def build() -> Graph:
    return create_agent(
        chat_model(script),
        [send_reply],
        system_prompt="You propose replies to customers on the line.",
        middleware=[
            Careful(),
            HumanInTheLoopMiddleware(
                {"send_reply": InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"])},
                description_prefix="I would send this.",
            ),
            ToolTimer(),
        ],
        name="hotline",
    )


ENTRY = Entry(
    name="hotline",
    title="Hotline",
    description="Its live text leaves out card numbers, which its state keeps. Two channels tell of its progress.",
    version="0.1.0",
    build=build,
    openings=(
        Opening(
            "A payment that came twice", "I was charged twice, my card is 4111 1111 1111 1111, and nobody answers."
        ),
    ),
)
