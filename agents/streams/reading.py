"""LangGraph's stream parts (v2) and protocol events (v3) -> what a stream tells, in lanes by namespace.

What stands in the end is what the state says after each step, never what was streamed: a message that was streamed
under another id is replaced, one that is not part of the state goes. So the live page and a reload show the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agents.conversation import text_of
from agents.head import messages_of
from agents.ledger.records import SUMMARY, summary_of
from agents.streams.chunks import Live, slices
from agents.streams.events import CALL, CHECKPOINT, CUSTOM, DELTA, MESSAGE, NODE, TOOL, Told, clean, cut, plain

MODES = ("messages", "values", "tasks", "checkpoints", "custom", "tools")

Print = tuple[Any, ...]  # what a message says; compared by content, because middleware changes messages in place
CallKey = tuple[str, str]  # message id, tool call id


@dataclass
class _Lane:
    """What one graph's state holds, as far as it was told, and what is being streamed into it."""

    name: str
    known: dict[str, Print] = field(default_factory=dict)  # message id -> what was told of it
    results: dict[CallKey, str] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)  # tool call id -> message that made it last
    live: dict[str, Live] = field(default_factory=dict)


class Reader:
    """Reads the parts of one drive. ``head``: the messages of the thread as it began, which need not be told.

    ``trusting``: what the state says may be told. Otherwise some transformer takes text out of ``messages`` events and
    of nothing else, so only text that came through there is told.
    """

    def __init__(self, head: Sequence[Any] = (), *, trusting: bool = True) -> None:
        self.trusting = trusting
        self._running: dict[tuple[str, str], str] = {}  # (lane, tool call id) -> tool
        self.lanes: dict[str, _Lane] = {}
        root = self._lane(())
        for index, message in enumerate(head):
            root.known[_key(message, index)] = _print(message)
            self._note_calls(root, message)

    def read(self, part: Mapping[str, Any]) -> Iterator[Told]:
        """Turn one part of ``stream(version="v2")`` into events."""
        lane = self._lane(part["ns"])
        kind, data = part["type"], part["data"]
        match kind:
            case "messages":
                yield from self._heard(lane, *data)
            case "values":
                yield from self._state(lane, data, paused=bool(part.get("interrupts")))
            case "tasks":
                yield from _task(lane.name, data)
            case "tools":
                yield from self._tool(lane, data)
            case "custom":
                yield Told(CUSTOM, {"lane": lane.name, "channel": "", "data": plain(data)})
            case "checkpoints" if not lane.name:
                yield Told(CHECKPOINT, {"lane": "", "checkpoint": data["config"]["configurable"]["checkpoint_id"]})

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Told]:
        """Turn one event of ``stream_events(version="v3")`` into events; it has passed the agent's transformers."""
        params = event["params"]
        method = event["method"]
        if method.startswith("custom:"):
            channel = clean(method.removeprefix("custom:"))
            lane = self._lane(params["namespace"]).name
            yield Told(CUSTOM, {"lane": lane, "channel": channel, "data": plain(params["data"])})
            return
        part = {"type": method, "ns": params["namespace"], "data": params["data"]}
        yield from self.read(part | {"interrupts": params.get("interrupts", ())})

    def running_tools(self) -> list[str]:
        """Return the names of the tools that have begun and not ended. May be called in any thread."""
        return sorted({*self._running.values()})

    def reconcile(self, messages: Sequence[Any] | None, ids: Sequence[str]) -> Iterator[Told]:
        """Tell what the stored state holds in the end, if nothing else has: not all that changes a state is streamed.

        ``messages`` None: of those named by ``ids`` nothing more may be told, only of others that they are gone.
        """
        if messages is not None:
            yield from self._state(self._lane(()), {"messages": list(messages)}, paused=False)
            return
        lane = self._lane(())
        yield from _gone(lane, [name for name in lane.known if name not in ids])

    def leave(self) -> Iterator[Told]:
        """Take back what was streamed and never became part of a state."""
        for lane in self.lanes.values():
            yield from _gone(lane, list(lane.live))
            lane.live.clear()

    def _lane(self, namespace: Sequence[str]) -> _Lane:
        name = clean("|".join(namespace))
        return self.lanes.setdefault(name, _Lane(name))

    # --------------------------------------------------------------------------------------------------------- messages

    def _heard(self, lane: _Lane, payload: Any, metadata: Mapping[str, Any]) -> Iterator[Told]:
        """Tell what a model says. A whole message is told at once, for its step may take long to end."""
        node = str(metadata.get("langgraph_node", ""))
        if isinstance(payload, dict):
            name = str(metadata.get("run_id", ""))
        elif isinstance(payload, AIMessageChunk) or (isinstance(payload, AIMessage) and _is_new(lane, payload)):
            name = payload.id or ""
        else:
            return
        live = lane.live.setdefault(name, Live(id=name, node=node))
        told = {"lane": lane.name, "node": clean(node)}
        for one in slices(live, payload):
            if one.kind == "call":
                yield Told(CALL, {**told, "id": live.id, "call": clean(one.call), "name": clean(one.text)})
            else:
                for piece in cut(one.text):
                    yield Told(DELTA, {**told, "id": live.id, "block": one.block, "type": one.kind, "text": piece})

    # ------------------------------------------------------------------------------------------------------------ state

    def _state(self, lane: _Lane, data: Any, *, paused: bool) -> Iterator[Told]:
        """Tell what changed in a lane's messages. ``paused``: in the middle of a step, while others still stream."""
        messages = messages_of(data)
        fresh: list[tuple[int, BaseMessage, Print]] = []
        for index, message in enumerate(messages):
            self._note_calls(lane, message)
            if (call := self._answers(lane, message)) is not None:
                yield from self._result(lane, call, message)
            elif self._is_news(lane, _key(message, index), said := _print(message)):
                fresh.append((index, message, said))
        for index, message, said in fresh:
            yield from self._message(lane, index, message, said)
        present = {_key(message, index) for index, message in enumerate(messages)}
        yield from _gone(lane, [name for name in lane.known if name not in present])
        if not paused:
            yield from _gone(lane, list(lane.live))
            lane.live.clear()

    def _is_news(self, lane: _Lane, key: str, said: Print) -> bool:
        """Say whether it differs from what this lane, or the graph around it, was told to hold."""
        name = lane.name
        if lane.known.get(key) == said:
            return False
        while name:
            name = name.rpartition("|")[0]
            outer = self.lanes.get(name)
            if outer and outer.known.get(key) == said:
                lane.known[key] = said
                return False
        return True

    def _message(self, lane: _Lane, index: int, message: BaseMessage, said: Print) -> Iterator[Told]:
        key = _key(message, index)
        live = _live_of(lane, message, only=self.trusting)
        known, lane.known[key] = key in lane.known, said
        text, withheld = self._text(message, live)
        data: dict[str, Any] = {
            "lane": lane.name,
            "id": clean(key),
            "index": index,
            "role": _role(message),
            "name": clean(message.name or ""),
            "calls": _calls(message),
            "replaces": live.id if live and live.id != key else "",
        }
        if live is not None:
            lane.live.pop(live.key)
        if withheld:
            yield Told(MESSAGE, {**data, "text": clean(text)[:1_000], "withheld": True})
        elif live is not None and not known and live.text == text:
            yield Told(MESSAGE, {**data, "same": True})
        else:
            first, *rest = cut(text)
            yield Told(MESSAGE, {**data, "text": first})
            for piece in rest:
                more = {"id": data["id"], "node": "", "block": 0, "type": "text", "text": piece}
                yield Told(DELTA, {"lane": lane.name, **more})

    def _text(self, message: BaseMessage, live: Live | None) -> tuple[str, bool]:
        """Return what may be told of a message's text, and whether that is less than the state holds."""
        text = text_of(message)
        if self.trusting:
            return text, False
        came = live.text if live else ""
        return (came, came != text) if text else ("", False)

    # ------------------------------------------------------------------------------------------------------------ tools

    def _note_calls(self, lane: _Lane, message: Any) -> None:
        if isinstance(message, AIMessage):
            lane.calls |= {call["id"] or "": message.id or "" for call in message.tool_calls}

    def _answers(self, lane: _Lane, message: Any) -> CallKey | None:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in lane.calls:
            return None
        return lane.calls[message.tool_call_id], message.tool_call_id

    def _result(self, lane: _Lane, key: CallKey, message: ToolMessage) -> Iterator[Told]:
        """Tell a result that no tool told itself: an answer in its place, a refusal, or a note in front of it."""
        said = summary_of(message)[:SUMMARY]
        if lane.results.get(key) == said or (message.id and lane.known.get(message.id) == _print(message)):
            return
        lane.results[key] = said
        state = "failed" if message.status == "error" else "finished"
        yield from self._tell_tool(lane, key, message.name or "", state=state, text=said)

    def _tool(self, lane: _Lane, data: Mapping[str, Any]) -> Iterator[Told]:
        call = str(data["tool_call_id"])
        key = (lane.calls.get(call, ""), call)
        if data["event"] in ("tool-finished", "tool-error"):
            self._running.pop((lane.name, call), None)
        match data["event"]:
            case "tool-started":
                lane.results.pop(key, None)
                self._running[lane.name, call] = clean(str(data.get("tool_name", "")))
                yield from self._tell_tool(lane, key, str(data.get("tool_name", "")), state="started")
            case "tool-output-delta":
                text = data["delta"] if isinstance(data["delta"], str) else str(plain(data["delta"]))
                yield from self._tell_tool(lane, key, "", state="output", text=text)
            case "tool-finished":
                output = data.get("output")
                lane.results[key] = summary_of(output)[:SUMMARY]
                state = "failed" if getattr(output, "status", "") == "error" else "finished"
                yield from self._tell_tool(lane, key, "", state=state, text=lane.results[key])
            case "tool-error":
                yield from self._tell_tool(lane, key, "", state="failed", text=str(data.get("message", "")))

    def _tell_tool(self, lane: _Lane, key: CallKey, name: str, *, state: str, text: str = "") -> Iterator[Told]:
        told: dict[str, Any] = {"lane": lane.name, "message": clean(key[0]), "call": clean(key[1]), "state": state}
        if name:
            told["name"] = clean(name)
        if text and not self.trusting:
            yield Told(TOOL, {**told, "withheld": True})
        elif state == "output":
            for piece in cut(text):
                yield Told(TOOL, {**told, "text": piece})
        else:
            yield Told(TOOL, {**told, **({"text": clean(text)[:SUMMARY]} if text else {})})


def _task(lane: str, data: Mapping[str, Any]) -> Iterator[Told]:
    if "result" not in data:
        state = "started"
    elif data.get("error"):
        state = "failed"
    else:
        state = "paused" if data.get("interrupts") else "finished"
    yield Told(NODE, {"lane": lane, "node": clean(str(data["name"])), "task": str(data["id"]), "state": state})


def _is_new(lane: _Lane, message: AIMessage) -> bool:
    """Say whether a whole message was not streamed before, under its id or another."""
    text = text_of(message)
    return message.id not in lane.known and not any(
        live.id == message.id or live.text == text for live in lane.live.values()
    )


def _live_of(lane: _Lane, message: BaseMessage, *, only: bool) -> Live | None:
    """Find what was streamed of a message: under its own id, or under another with the same text.

    ``only`` the same text; otherwise, text being taken out on the way, the first that is left will do.
    """
    if not isinstance(message, AIMessage):
        return None
    for live in lane.live.values():
        if live.id == message.id:
            return live
    text = text_of(message)
    same = [live for live in lane.live.values() if live.text == text]
    left = [] if only else list(lane.live.values())
    return next(iter([*same, *left]), None)


def _gone(lane: _Lane, names: Sequence[str]) -> Iterator[Told]:
    for name in names:
        lane.known.pop(name, None)
        shown = lane.live[name].id if name in lane.live else name
        yield Told(MESSAGE, {"lane": lane.name, "id": clean(shown), "gone": True})


def _key(message: Any, index: int) -> str:
    """Name a message within its state: by its id, or its place where a graph gives none."""
    return message.id or f"#{index}"


def _print(message: Any) -> Print:
    content = message.content if isinstance(message.content, str) else repr(message.content)
    calls = repr(message.tool_calls) if isinstance(message, AIMessage) else ""
    return type(message).__name__, content, calls, getattr(message, "status", "")


def _calls(message: BaseMessage) -> list[dict[str, str]]:
    if not isinstance(message, AIMessage):
        return []
    return [{"id": clean(call["id"] or ""), "name": clean(call["name"])} for call in message.tool_calls]


def _role(message: BaseMessage) -> str:
    match message:
        case HumanMessage():
            return "human"
        case AIMessage():
            return "ai"
        case ToolMessage():
            return "tool"
        case SystemMessage():
            return "system"
        case _:
            return "other"
