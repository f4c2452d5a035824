"""A chat model that needs no network: what it says is a pure function of the messages it is given.

Pure, because a replay or a fork asks the model again and must get the same words. Ids come from the place in the
thread and from what was said before, so that two branches of one thread never share a message id.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolCall
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable


@dataclass(frozen=True)
class Plan:
    """One tool call that a script wants: the tool's name and its arguments as JSON values."""

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """What a script answers: text, and the tool calls of the same message, in order."""

    text: str
    calls: tuple[Plan, ...] = ()


Script = Callable[[Sequence[BaseMessage]], Turn]


def spoken(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the conversation without system messages; positions and ids count these only."""
    return [message for message in messages if not isinstance(message, SystemMessage)]


def message_id(messages: Sequence[BaseMessage], *, speaker: str = "") -> str:
    """Name the message that follows ``messages``: ``ai-<position>-<8 hex digits of what was said before>``.

    ``speaker`` keeps apart two nodes that answer the same conversation side by side. Ids of the messages do not count:
    LangGraph draws those of tool messages at random.
    """
    before = spoken(messages)
    said = [[message.type, message.text, _calls_of(message)] for message in before]
    content = json.dumps([speaker, said], sort_keys=True, default=str).encode()
    return f"ai-{len(before)}-{hashlib.sha256(content).hexdigest()[:8]}"


def said(messages: Sequence[BaseMessage], text: str, *, speaker: str = "") -> AIMessage:
    """Return ``text`` as the message that follows ``messages``; for nodes that speak without a model."""
    return AIMessage(content=text, id=message_id(messages, speaker=speaker))


def _calls_of(message: BaseMessage) -> list[Any]:
    if not isinstance(message, AIMessage):
        return []
    return [[call["name"], call["args"], call["id"]] for call in message.tool_calls]


class ScriptedChatModel(BaseChatModel):
    """A chat model that follows a script.

    ``repeat_ids`` numbers the tool calls of each turn from ``call_0`` again, as some providers do; otherwise they are
    ``call_<position>_<index>``. ``delay`` is the pause before each word in seconds, so that people see text being
    written. Nothing that grows may be kept in a field: LangChain serializes the model on each call.
    """

    script: Script
    repeat_ids: bool = False
    delay: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        return self

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return a fresh message each time: a reused one would keep its id and overwrite the older message."""
        turn = self.script(messages)
        prefix = "call" if self.repeat_ids else f"call_{len(spoken(messages))}"
        calls = [
            ToolCall(name=plan.name, args=_as_sent(plan.args), id=f"{prefix}_{index}", type="tool_call")
            for index, plan in enumerate(turn.calls)
        ]
        return AIMessage(content=turn.text, tool_calls=calls, id=message_id(messages))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._answer(messages)):
            if self.delay:
                time.sleep(self.delay)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(self._answer(messages)):
            if self.delay:
                await asyncio.sleep(self.delay)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _as_sent(args: Mapping[str, Any]) -> dict[str, Any]:
    """Take the arguments through JSON, as a provider would, so that streamed and whole answers are equal."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(args)))
    return plain


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Cut a message into words, with the blanks that follow them, then its calls, then an end mark."""
    for word in re.findall(r"\S+\s*|\s+", message.text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word, id=message.id))
    for index, call in enumerate(message.tool_calls):
        part = tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", id=message.id, tool_call_chunks=[part]))
    yield ChatGenerationChunk(message=AIMessageChunk(content="", id=message.id, chunk_position="last"))
