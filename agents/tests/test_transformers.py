"""Stream transformers: in which order they run, that what they take out stays out, that their channels come through."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware
from langchain_core.messages import AIMessage
from langgraph.stream import StreamChannel, StreamTransformer

from agents import history, registry, streams
from agents.catalog.hotline import MASK, Progress, WithoutCards, without_cards
from agents.models import Agent, Run
from agents.outcome import StreamEvent
from agents.streams.standing import WITHHELD, standing
from agents.streams.transformers import transformers_of
from agents.testing import ScriptedChatModel, Turn
from agents.tests import graphs
from agents.tests.driving import start, step
from agents.tests.screen import Screen

CARD = "4111 1111 1111 1111"
MAIL = "ines.krug@example.test"


def told(thread_id: str) -> list[StreamEvent]:
    return list(streams.since(thread_id, 0).events)


def bringing(*transformers: Any, name: str = "Bringing") -> AgentMiddleware[Any, Any, Any]:
    made: AgentMiddleware[Any, Any, Any] = type(name, (AgentMiddleware,), {"transformers": transformers})()
    return made


class Plain(StreamTransformer):
    """Does nothing, and says so."""

    redacts: ClassVar[bool] = False

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event: Any) -> bool:
        return True


class Early(Plain):
    before_builtins = True


class Late(Plain):
    pass


class DropsMessages(StreamTransformer):
    """Drops what models say, and forgets that states say it too. It does not say that it redacts."""

    required_stream_modes = ("messages",)

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event: Any) -> bool:
        return bool(event["method"] != "messages")


class ChangesDeltas(StreamTransformer):
    """Changes deltas, and nothing else."""

    redacts: ClassVar[bool] = True
    before_builtins = True
    required_stream_modes = ("messages",)

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event: Any) -> bool:
        if event["method"] == "messages" and isinstance(event["params"]["data"][0], dict):
            payload = event["params"]["data"][0]
            if payload.get("event") == "content-block-delta" and "text" in payload["delta"]:
                payload["delta"]["text"] = payload["delta"]["text"].replace("secret", "***")
            if payload.get("event") == "content-block-finish" and "text" in payload["content"]:
                payload["content"]["text"] = payload["content"]["text"].replace("secret", "***")
        return True


def saying(text: str, *middleware: Any) -> Any:
    model = ScriptedChatModel(script=lambda messages: Turn(text))
    return lambda: create_agent(model, graphs.tools(graphs.into([])), middleware=list(middleware))


# -------------------------------------------------------------------------------- order


def test_the_order_of_transformers_is_as_facts_2_measured_it() -> None:
    """Ours follow LangChain's two in the order of the middleware, each factory once; `before_builtins` goes first."""
    model = ScriptedChatModel(script=lambda messages: Turn("hi"))
    middleware = [bringing(Late, Plain, name="A"), bringing(Early, name="B"), bringing(Plain, name="C")]
    graph = create_agent(model, [], middleware=middleware)
    assert [one.__name__ for one in graph.stream_transformers] == [
        "ToolCallTransformer",
        "SubagentTransformer",
        "Late",
        "Plain",
        "Early",
    ]
    found = transformers_of(graph)
    assert [one.name for one in found] == [
        "Early",
        "ValuesTransformer",
        "MessagesTransformer",
        "LifecycleTransformer",
        "SubgraphTransformer",
        "ToolCallTransformer",
        "SubagentTransformer",
        "Late",
        "Plain",
    ]
    assert {one.source for one in found} == {"agent", "langgraph", "langchain"}


def test_an_agent_says_which_transformers_it_has_and_whether_they_redact(shop: Any) -> None:
    rows = Agent.objects.in_bulk(["support", "frontdesk", "hotline"])
    assert {name: row.redacts for name, row in rows.items()} == {"support": "no", "frontdesk": "yes", "hotline": "yes"}
    assert [one["name"] for one in rows["hotline"].transformers if one["source"] == "agent"] == [
        "WithoutCards",
        "Progress",
    ]
    assert {name: registry.get(name).streams for name in rows} == {"support": "v2", "frontdesk": "v3", "hotline": "v3"}
    with registry.override("dropping", saying("hi", bringing(DropsMessages))):
        assert (registry.get("dropping").redacts, registry.get("dropping").trusting) == ("maybe", False)
    with registry.override("harmless", saying("hi", bringing(Plain))):
        assert (registry.get("harmless").redacts, registry.get("harmless").trusting) == ("no", True)


# -------------------------------------------------------------------------------- what stays out


def assert_nowhere(text: str, events: list[StreamEvent]) -> None:
    assert text not in json.dumps([dict(event.data) for event in events], ensure_ascii=False)


def test_a_transformer_that_drops_messages_leaves_no_text_in_any_event(shop: Any) -> None:
    """FACTS 14: the text still came in `values`."""
    with registry.override("dropping", saying("the secret word", bringing(DropsMessages))):
        thread_id = start("dropping", "say the secret word")
        step(thread_id)
    events = told(thread_id)
    assert_nowhere("secret", events)
    assert [event.data.get("withheld") for event in events if event.kind == "message"] == [True, True]
    assert [message.content for message in history.conversation(thread_id)][-1] == "the secret word"


def test_a_transformer_that_changes_deltas_decides_about_the_finished_message_too(shop: Any) -> None:
    with registry.override("changing", saying("the secret word", bringing(ChangesDeltas))):
        thread_id = start("changing", "go")
        step(thread_id)
    events = told(thread_id)
    assert_nowhere("secret", events)
    assert [text for _, text in Screen().play(events).bubbles()] == ["", "the *** word"]


def test_an_error_that_quotes_the_text_is_told_by_its_kind_only(shop: Any) -> None:
    middleware = PIIMiddleware("email", strategy="block", apply_to_output=True)
    with registry.override("blocking", saying(f"write to {MAIL}", middleware)):
        thread_id = start("blocking", "go")
        outcome = step(thread_id)
    assert outcome.status == "error"
    assert_nowhere(MAIL, told(thread_id))
    assert "PIIDetectionError" in next(event.data for event in told(thread_id) if event.kind == "error")["error"]


def test_the_hotlines_live_text_shows_no_card_number_and_its_state_keeps_it(shop: Any) -> None:
    thread_id = start("hotline", f"My card is {CARD}, and nobody answers.")
    (ask,) = step(thread_id).asks
    events = told(thread_id)
    assert_nowhere(CARD, events)
    assert_nowhere("4111", events)
    bubbles = dict(Screen().play(events).bubbles())
    assert bubbles == {message.id: without_cards(message.content) for message in history.conversation(thread_id)}
    assert all(MASK in text for text in bubbles.values())
    assert CARD in history.conversation(thread_id)[-1].content
    assert CARD in json.dumps(ask.calls[0].args)


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_a_number_that_comes_in_pieces_is_found(size: int) -> None:
    text = f"Cards {CARD} and 5500-0000-0000-0004, order 10482, phone 030 123456."
    transformer, shown = WithoutCards(), ""
    for at in range(0, len(text), size):
        event = delta_event(text[at : at + size])
        assert transformer.process(event)
        shown += event["params"]["data"][0]["delta"]["text"]
    finish = block_event({"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": text}})
    transformer.process(finish)
    whole = finish["params"]["data"][0]["content"]["text"]
    assert whole == f"Cards {MASK} and {MASK}, order 10482, phone 030 123456."
    assert whole.startswith(shown)


def delta_event(text: str) -> dict[str, Any]:
    return block_event({"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": text}})


def block_event(payload: dict[str, Any]) -> dict[str, Any]:
    return {"method": "messages", "params": {"namespace": [], "data": (payload, {"run_id": "r"})}}


def test_a_transformer_changes_copies_only() -> None:
    message = AIMessage(f"card {CARD}", id="1")
    event = {"method": "values", "params": {"namespace": [], "data": {"messages": [message]}}}
    WithoutCards().process(event)
    assert event["params"]["data"]["messages"][0].text == f"card {MASK}"  # type: ignore[index]
    assert message.text == f"card {CARD}"


def test_the_front_desks_state_is_redacted_itself(shop: Any) -> None:
    """Between the steps the state holds the address for a moment; its stream and what stands in the end do not."""
    thread_id = start("frontdesk", f"Call {MAIL} back about order 10482, please.")
    (ask,) = step(thread_id).asks
    assert_nowhere(MAIL, [event for event in told(thread_id) if event.data.get("role") != "human"])
    assert MAIL not in json.dumps([message.content for message in history.conversation(thread_id)])
    assert MAIL not in json.dumps(ask.calls[0].args)
    shown = [(message.id, message.content) for message in history.conversation(thread_id)]
    assert Screen().play(told(thread_id)).bubbles() == shown


# -------------------------------------------------------------------------------- channels


def test_the_channels_of_an_agent_come_through_under_their_names(shop: Any) -> None:
    thread_id = start("hotline", f"My card is {CARD}.")
    step(thread_id)
    customs = [event.data for event in told(thread_id) if event.kind == "custom"]
    words = [one["data"]["written"] for one in customs if one["channel"] == "words"]
    assert words == sorted(words)
    assert words
    (draft,) = [one["data"] for one in customs if one["channel"] == "draft"]
    assert MASK in draft["text"]
    assert CARD not in draft["text"]


def test_what_a_channel_is_given_becomes_strict_json(shop: Any) -> None:
    class Odd(Plain):
        required_stream_modes = ("values",)

        def __init__(self, scope: tuple[str, ...] = ()) -> None:
            super().__init__(scope)
            self.channel: StreamChannel[Any] = StreamChannel("odd")

        def init(self) -> dict[str, Any]:
            return {"odd": self.channel}

        def process(self, event: Any) -> bool:
            if event["method"] == "values":
                self.channel.push({"share": float("inf"), "message": AIMessage("x"), 1: b"\0"})
            return True

    with registry.override("odd", saying("hi", bringing(Odd))):
        thread_id = start("odd", "go")
        step(thread_id)
    first = next(event.data for event in told(thread_id) if event.kind == "custom")
    assert (first["channel"], first["data"]["share"], first["data"]["1"]) == ("odd", "inf", "(1 bytes)")
    json.dumps(first, allow_nan=False)


def test_a_run_under_v3_is_told_like_one_under_v2(shop: Any) -> None:
    """Nodes, calls, tools, checkpoints: the same kinds in the same order, whatever the protocol."""
    shapes = []
    for middleware in ([], [bringing(Plain)]):
        build = partial(graphs.agent, graphs.into([]), middleware=middleware)
        with registry.override("either", build):
            thread_id = start("either", graphs.turns([("read", {"id": 1})]))
            assert step(thread_id).status == "success"
        events = told(thread_id)
        assert Screen().play(events).bubbles() == [(one.id, one.content) for one in history.conversation(thread_id)]
        shapes.append(
            [(event.kind, event.data.get("node"), event.data.get("state")) for event in events if event.kind != "delta"]
        )
    assert shapes[0] == shapes[1]


def test_a_run_under_v3_stops_and_fails_like_any_other(shop: Any) -> None:
    def breaking(*_: Any) -> Turn:
        raise RuntimeError("the model is away")

    model = ScriptedChatModel(script=breaking)
    with registry.override("away", lambda: create_agent(model, [], middleware=[bringing(Plain)])):
        thread_id = start("away", "go")
        outcome = step(thread_id)
    assert (outcome.status, outcome.error) == ("error", "RuntimeError: the model is away")
    assert Run.objects.get(thread_id=thread_id).status == "error"


def test_transformers_that_feed_channels_are_instances_of_a_run(shop: Any) -> None:
    """Two runs of the hotline share nothing: each has its own counters."""
    for _ in range(2):
        thread_id = start("hotline", "Nobody answers.")
        step(thread_id)
        customs = [event.data for event in told(thread_id) if event.kind == "custom"]
        assert next(one["data"]["written"] for one in customs if one["channel"] == "words") == 1
    assert Progress.redacts is False


# --------------------------------------------------------------------------------
# What a newcomer gets.


def test_a_page_that_starts_late_shows_no_more_than_one_that_watched(shop: Any) -> None:
    thread_id = start("hotline", f"My card is {CARD}.")
    step(thread_id)
    _, messages = standing(thread_id)
    assert [(one.id, one.content) for one in messages] == Screen().play(told(thread_id)).bubbles()
    with registry.override("dropping", saying("the secret word", bringing(DropsMessages))):
        thread_id = start("dropping", "say the secret word")
        step(thread_id)
        _, messages = standing(thread_id)
    assert {one.content for one in messages} == {WITHHELD}
