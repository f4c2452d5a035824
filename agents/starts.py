"""What a replay begins with: a checkpoint, perhaps edited values, perhaps a word to the agent.

It is checked before it is queued.
The same checks run again when the run begins, because the agent's code may have changed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin

from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import ReadOnly, get_type_hints

from agents.head import messages_of
from agents.marks import START
from agents.models import Thread, ToolExecution
from agents.outcome import NotCanonical, canonical_bytes
from agents.values import Stored, is_internal, nodes_before


class Unfit(ValueError):
    """The agent's graph cannot begin like this. ``problems``: field (a value's name, "as_node", "message") -> why."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in problems.items()))
        self.problems = dict(problems)


class GraphChanged(ValueError):
    """The agent's code does not have the nodes any more that are due at this checkpoint. ``nodes`` names them."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(f"The agent's code no longer has {', '.join(nodes)}, which is due here. Nothing would run.")
        self.nodes = tuple(nodes)


@dataclass(frozen=True)
class Start:
    """``values``: new values by name, each in the place of the whole old one; ``as_node``: as which node they are
    written ("" for the one that ran last); ``message``: what the agent is told instead of going on."""

    values: Mapping[str, Any] = field(default_factory=dict)
    as_node: str = ""
    message: str = ""

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Start:
        return cls(payload.get("values") or {}, payload.get("as_node") or "", payload.get("message") or "")

    @property
    def changes(self) -> bool:
        return bool(self.values or self.message.strip() or self.as_node)

    def payload(self, checkpoint_id: str = "") -> dict[str, Any]:
        told = {"checkpoint_id": checkpoint_id, "values": dict(self.values), "as_node": self.as_node}
        return {name: value for name, value in {**told, "message": self.message}.items() if value}


@dataclass(frozen=True)
class Update:
    """One update of the state, ready for LangGraph."""

    values: dict[str, Any]
    as_node: str


def updates_of(graph: Any, stored: Stored, start: Start) -> list[Update]:
    """Return the update that edited values make at a checkpoint; [] without any. Raises Unfit, GraphChanged."""
    problems: dict[str, str] = {}
    as_node = _as_node(graph, stored, start, problems)
    fit = _fit(graph, stored, start.values, as_node, problems)
    if start.message.strip():
        problems |= _untellable(graph)
    if problems:
        raise Unfit(problems)
    if not start.changes and stored.missing:
        raise GraphChanged(stored.missing)
    if not start.values and not start.as_node:
        return []
    pending = _pending_input(stored) if as_node == START else {}
    return [Update({**pending, **fit}, as_node)]


def message_update(stored: Stored, messages: Sequence[Any]) -> Update:
    """Return the update that puts messages to the agent as its next input. An input that still waits is replaced."""
    return Update({**_pending_input(stored), "messages": list(messages)}, START)


def _pending_input(stored: Stored) -> dict[str, Any]:
    waits = stored.saved.checkpoint["channel_values"].get(START)
    return dict(waits) if isinstance(waits, Mapping) else {}


def _untellable(graph: Any) -> dict[str, str]:
    if "messages" in graph.channels and START in graph.nodes:
        return {}
    return {"message": "This agent takes no messages."}


# ----------------------------------------------------------------------------------------------------------------- node


def _as_node(graph: Any, stored: Stored, start: Start, problems: dict[str, str]) -> str:
    if start.as_node:
        if start.as_node not in graph.nodes:
            problems["as_node"] = f"The agent's code has no node {start.as_node}."
        return start.as_node
    if not start.values:
        return ""
    ran = nodes_before(stored.point)
    if len(ran) > 1:
        problems["as_node"] = f"Several nodes ran side by side. Say as which one the change is made: {', '.join(ran)}."
    elif not ran:
        problems["as_node"] = "Say as which node the change is made."
    elif ran[0] not in graph.nodes:
        problems["as_node"] = f"The agent's code no longer has the node {ran[0]}. Say as which node the change is made."
    return ran[0] if ran else ""


# --------------------------------------------------------------------------------------------------------------- values


def _fit(
    graph: Any, stored: Stored, given: Mapping[str, Any], as_node: str, problems: dict[str, str]
) -> dict[str, Any]:
    takes = set(_taken_by(graph, as_node))
    fit: dict[str, Any] = {}
    for name, value in given.items():
        if name not in takes:
            problems[name] = "The agent's state has no value of this name that can be set here."
            continue
        try:
            typed = _typed(annotation_of(graph, name), value)
            fit[name] = _written(graph.channels[name], _messages(stored, typed) if name == "messages" else typed)
        except ValidationError as error:
            problems[name] = _words(error)
        except (ValueError, TypeError, NotImplementedError) as error:
            problems[name] = str(error)
    return fit


def _taken_by(graph: Any, as_node: str) -> Iterator[str]:
    builder = getattr(graph, "builder", None)
    named = builder.schemas[builder.input_schema] if builder is not None and as_node == START else graph.channels
    for name in named:
        if not is_internal(name) and isinstance(graph.channels.get(name), BaseChannel):
            yield name


def annotation_of(graph: Any, name: str) -> Any:
    """Return the type of one value as the graph's schemas declare it; Any where they do not."""
    for schema in getattr(getattr(graph, "builder", None), "schemas", {}):
        if isinstance(schema, type) and issubclass(schema, BaseModel) and name in schema.model_fields:
            info = schema.model_fields[name]
            return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
        hints = _hints(schema)
        if name in hints:
            return _bare(hints[name])
    return Any


def state_schema(graph: Any) -> dict[str, Any]:
    """Return a JSON Schema of the values that an edit may set; {} for a value whose type has none."""
    properties: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for name in _taken_by(graph, ""):
        found: dict[str, Any] = dict(_MESSAGES) if name == "messages" else _schema(annotation_of(graph, name))
        named |= found.pop("$defs", {})
        properties[name] = found
    schema = {"type": "object", "properties": properties}
    return {**schema, "$defs": named} if named else schema


_MESSAGES: dict[str, Any] = {"type": "array", "items": {"type": "object"}}  # their own is long


def _schema(annotation: Any) -> dict[str, Any]:
    try:
        return {} if annotation is Any else TypeAdapter(annotation).json_schema()
    except PydanticUserError:  # a type that pydantic has no rules for, or no JSON
        return {}


def _hints(schema: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(schema, include_extras=True)
    except (TypeError, NameError):
        return {}


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Required, NotRequired, ReadOnly):
        hint = get_args(hint)[0]
    return hint


def _typed(annotation: Any, value: Any) -> Any:
    """Return ``value``, which came as JSON, as the declared type. Nothing is bent: "5" is no integer."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except PydanticUserError:
        return value  # a type that pydantic has no rules for
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return adapter.validate_python(value)
    return adapter.validate_json(text, strict=True)


def _words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def _messages(stored: Stored, given: Any) -> list[Any]:
    """Return messages, those that nobody touched as they were: their JSON may hold less than they do."""
    before = {message.id: message for message in messages_of(stored.values) if getattr(message, "id", None)}
    return [_untouched(before.get(message.id), message) for message in convert_to_messages(given)]


def _untouched(old: Any, new: Any) -> Any:
    try:
        return old if old is not None and canonical_bytes(old) == canonical_bytes(new) else new
    except NotCanonical:
        return new


def _written(channel: Any, value: Any) -> Any:
    """An edit takes the place of the whole value, also where the channel would add it to the old one."""
    return Overwrite(value) if isinstance(channel, BinaryOperatorAggregate | DeltaChannel) else value


# ------------------------------------------------------------------------------------------------------------- messages


def closing(thread: Thread, messages: Sequence[Any]) -> list[ToolMessage]:
    """Return an error result for each call of the last AI message that has none, in call order.

    A provider refuses a conversation in which a call has no result. What ran all the same (before somebody went back
    to here) is told, because it happened.
    """
    last = next((at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], AIMessage)), None)
    if last is None:
        return []
    made = messages[last]
    told = {one.tool_call_id for one in messages[last + 1 :] if isinstance(one, ToolMessage)}
    return [
        ToolMessage(
            content=_not_run(thread, made.id or "", call), tool_call_id=call["id"], name=call["name"], status="error"
        )
        for call in made.tool_calls
        if call["id"] not in told
    ]


def _not_run(thread: Thread, message_id: str, call: Mapping[str, Any]) -> str:
    ran = ToolExecution.objects.filter(
        thread_id__in=thread.lineage(), message_id=message_id, tool_call_id=call["id"] or "", calls__gt=0
    ).order_by("-started_at")
    row = ran.filter(status__in=[ToolExecution.Status.FINISHED, ToolExecution.Status.FAILED]).first()
    said = f"{call['name']} was not run here: the conversation was taken back to before it."
    return f"{said} Before that, it had run: {row.summary}" if row else said
