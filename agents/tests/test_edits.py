"""Starting again with other values, or with a word to the agent; and what is refused, with its field."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from agents import history, registry, runs
from agents.history import GraphChanged, Unfit, UnknownCheckpoint
from agents.models import Run, Thread
from agents.outcome import from_canonical
from agents.tests import graphs
from agents.tests.driving import answer, decisions, start, step
from agents.tests.journeys import Journey, every, registered, walk
from agents.tests.looking import everything, first_at, ids, messages

APPROVE = {"type": "approve"}
PAY = graphs.turns([("pay", {"amount": 5}), ("read", {"id": 1})])


def paying(ran: list[Any], **options: Any) -> Any:
    return lambda: graphs.agent(graphs.into(ran), **options)


@pytest.mark.long
@pytest.mark.parametrize("where", ["model", "HumanInTheLoopMiddleware.after_model", "tools", "__start__", "end"])
@pytest.mark.parametrize("kind", ["fork", "rewind"])
def test_a_corrective_message_leaves_no_call_without_a_result(shop: Any, kind: str, where: str) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        walk(thread_id)
        checkpoint_id = ids(thread_id)[0] if where == "end" else first_at(thread_id, where)
        told = "Do not pay. Just say hello."
        if kind == "fork":
            thread_id = history.fork(thread_id, checkpoint_id, author="olga", message=told)
        else:
            history.rewind(thread_id, checkpoint_id, author="olga", message=told)
        outcome = step(thread_id)
        assert (outcome.status, outcome.error) == ("success", "")
        assert [name for name, _ in ran].count("pay") == 1
        assert_whole(messages(thread_id))
        run = Run.objects.filter(thread_id=thread_id, kind="replay").get()
        (human,) = [one for one in messages(thread_id) if one.id == str(run.pk)]
        assert human.content == told
        assert messages(thread_id)[-1].text == "You said: Do not pay. Just say hello."


def assert_whole(said: list[Any]) -> None:
    """Each call has exactly one result, right after the message that made it, in call order."""
    at = 0
    while at < len(said):
        if isinstance(said[at], AIMessage) and said[at].tool_calls:
            made = [call["id"] for call in said[at].tool_calls]
            told = [one.tool_call_id for one in said[at + 1 : at + 1 + len(made)] if isinstance(one, ToolMessage)]
            assert sorted(told) == sorted(made)
            at += len(made)
        else:
            assert not isinstance(said[at], ToolMessage)
        at += 1


def test_calls_that_ran_before_somebody_went_back_are_told_to_the_agent(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        walk(thread_id)
        checkpoint_id = first_at(thread_id, "HumanInTheLoopMiddleware.after_model")
        history.rewind(thread_id, checkpoint_id, author="olga", message="Stop.")
        step(thread_id)
        told = [one for one in messages(thread_id) if isinstance(one, ToolMessage)]
    assert [one.name for one in told] == ["pay", "read"]
    assert all(one.status == "error" and "was not run here" in one.content for one in told)
    assert "it had run: paid 5" in told[0].content


def test_a_message_instead_of_the_first_one(shop: Any) -> None:
    thread_id = start("support", "Please refund order 10482.")
    step(thread_id)
    fork = history.fork(thread_id, ids(thread_id)[-1], author="olga", message="Where is order 10311?")
    assert step(fork).status == "success"
    assert [one.content for one in messages(fork) if isinstance(one, HumanMessage)] == ["Where is order 10311?"]


def test_a_graph_without_messages_says_so(shop: Any) -> None:
    builder = StateGraph(graphs.Verdict)
    builder.add_node("one", lambda state: {"log": {"one": 1}})
    builder.add_edge(START, "one")
    builder.add_edge("one", END)
    with registry.override("silent", builder.compile):
        thread_id = runs.create_thread("silent", author="olga")
        runs.enqueue(thread_id, kind="input", payload={"values": {"log": {}}}, author="olga")
        step(thread_id)
        with pytest.raises(Unfit) as refused:
            history.fork(thread_id, author="olga", message="Hello?")
    assert set(refused.value.problems) == {"message"}
    assert Thread.objects.filter(ancestor_id=thread_id).count() == 0


class Order(MessagesState):
    amount: int
    tags: list[str]


def ordering(ran: list[Any]) -> Any:
    """Pays what its state says, after a look at it."""

    def pay(state: Order) -> dict[str, Any]:
        ran.append(state["amount"])
        return {"tags": [*state["tags"], "paid"]}

    builder = StateGraph(Order)
    builder.add_node("look", lambda state: {"amount": 5, "tags": ["new"]})
    builder.add_node("pay", pay)
    builder.add_node("skip", lambda state: {"tags": [*state["tags"], "skipped"]})
    builder.add_edge(START, "look")
    builder.add_conditional_edges("look", lambda state: "pay" if state["amount"] else "skip", ["pay", "skip"])
    builder.add_edge("pay", END)
    builder.add_edge("skip", END)
    return builder.compile()


@pytest.fixture
def order(shop: Any) -> Any:
    ran: list[Any] = []
    with registry.override("order", lambda: ordering(ran)):
        thread_id = start("order", "Two desks")
        step(thread_id)
        yield thread_id, first_at(thread_id, "pay"), ran


@pytest.mark.parametrize("kind", ["fork", "rewind"])
def test_edited_values_are_what_runs_and_the_way_is_chosen_anew(order: Any, kind: str) -> None:
    thread_id, checkpoint_id, ran = order
    for amount, now in ((7, ["pay"]), (0, ["skip"])):
        target, edited = thread_id, {"amount": amount}
        if kind == "fork":
            target = history.fork(thread_id, checkpoint_id, author="olga", values=edited)
        else:
            history.rewind(thread_id, checkpoint_id, author="olga", values=edited)
        assert step(target).status == "success"
        steps = history.timeline(target).steps
        assert list(steps[0].nodes) == now
        update = next(one for one in steps if one.source == "update")
        assert update.nodes == ("look",)
    assert ran == [5, 7]


def test_the_schema_of_the_values_is_the_graphs_own(order: Any) -> None:
    schema = history.state_schema(order[0])
    assert schema["properties"] == {
        "messages": {"type": "array", "items": {"type": "object"}},
        "amount": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }


@pytest.mark.thorough
@pytest.mark.parametrize("journey", every())
def test_every_agent_has_a_schema_of_its_values(shop: Any, journey: Journey) -> None:
    with registered(journey):
        schema = history.state_schema(journey.begin())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "messages" in schema["properties"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"amount": "seven"}, "amount"),
        ({"amount": "7"}, "amount"),
        ({"tags": [1]}, "tags"),
        ({"nothing": 1}, "nothing"),
        ({"__start__": {}}, "__start__"),
        ({"messages": [{"type": "unheard of", "content": ""}]}, "messages"),
    ],
)
def test_values_that_the_schema_refuses_are_refused_at_their_field(order: Any, values: Any, field: str) -> None:
    thread_id, checkpoint_id, _ = order
    before = everything(thread_id)
    for attempt in (history.fork, history.rewind):
        with pytest.raises(Unfit) as refused:
            attempt(thread_id, checkpoint_id, author="olga", values=values)
        assert list(refused.value.problems) == [field]
    assert everything(thread_id) == before
    assert not Thread.objects.filter(ancestor_id=thread_id).exists()


def test_a_node_that_is_not_there_is_refused(order: Any) -> None:
    thread_id, checkpoint_id, _ = order
    with pytest.raises(Unfit) as refused:
        history.fork(thread_id, checkpoint_id, author="olga", values={"amount": 1}, as_node="nowhere")
    assert list(refused.value.problems) == ["as_node"]


def test_after_nodes_that_ran_side_by_side_somebody_must_say_which(shop: Any) -> None:
    with registry.override("parallel", graphs.parallel):
        thread_id = start("parallel", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        walk(thread_id)
        checkpoint_id = first_at(thread_id, "join")
        with pytest.raises(Unfit) as refused:
            history.fork(thread_id, checkpoint_id, author="olga", values={"log": {"left": "edited"}})
        assert "left, right, sub" in refused.value.problems["as_node"]


def test_an_edit_replaces_a_value_that_the_graph_would_add_to(shop: Any) -> None:
    with registry.override("nested", lambda: graphs.nested(graphs.into([]))):
        thread_id = start("nested", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        walk(thread_id)
        fork = history.fork(thread_id, first_at(thread_id, "after"), author="olga", values={"log": {"only": 1}})
        step(fork)
        assert history.state_at(fork).values == b'{"log":{"after":"ran","only":1}}'


def test_messages_can_be_edited_taken_out_and_kept_as_they_were(shop: Any) -> None:
    ran: list[Any] = []
    with registry.override("paying", paying(ran)):
        thread_id = start("paying", PAY)
        walk(thread_id)
        checkpoint_id = first_at(thread_id, "HumanInTheLoopMiddleware.after_model")
        raw = from_canonical(history.raw_state(thread_id, checkpoint_id))["checkpoint"]["channel_values"]["messages"]
        raw[1]["tool_calls"] = [{**raw[1]["tool_calls"][0], "args": {"amount": 3}}]
        fork = history.fork(thread_id, checkpoint_id, author="olga", values={"messages": raw})
        (ask,) = step(fork).asks
        assert [(call.name, call.args) for call in ask.calls] == [("pay", {"amount": 3})]
        assert [one.id for one in messages(fork)] == [one["id"] for one in raw]
        answer(fork, ask, decisions(APPROVE), ["approve"])
        assert step(fork).status == "success"
    assert [args["amount"] for name, args in ran if name == "pay"] == [5, 3]


def test_a_graph_whose_code_no_longer_has_the_node_says_so(shop: Any) -> None:
    with registry.override("changing", lambda: graphs.nested(graphs.into([]))):
        thread_id = start("changing", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        step(thread_id)
        checkpoint_id = ids(thread_id)[0]
        kept = history.fork(thread_id, checkpoint_id, author="olga")
    with registry.override("changing", lambda: graphs.chain(("before", graphs.noting(graphs.into([]), "before")))):
        before = everything(thread_id)
        for attempt in (history.fork, history.rewind):
            with pytest.raises(GraphChanged) as refused:
                attempt(thread_id, checkpoint_id, author="olga")
            assert refused.value.nodes == ("sub",)
        assert history.state_at(thread_id, checkpoint_id).missing == ("sub",)
        assert everything(thread_id) == before
        outcome = step(kept)  # lined up before the code changed
        assert (outcome.status, "no longer has sub" in outcome.error) == ("error", True)
        copied = history.fork(thread_id, checkpoint_id, author="olga", go_on=False)
        assert history.state_at(copied).missing == ("sub",)


def test_a_thread_whose_agent_is_gone_can_be_read_and_copied_but_not_go_on(shop: Any) -> None:
    with registry.override("leaving", lambda: graphs.asks("q")):
        thread_id = start("leaving", "")
        Run.objects.filter(thread_id=thread_id).update(payload={"values": {"log": {}}})
        step(thread_id)
    assert history.timeline(thread_id).steps and history.state_at(thread_id).next == ("ask",)
    with pytest.raises(registry.UnknownAgent):
        history.fork(thread_id, author="olga")
    fork = history.fork(thread_id, author="olga", go_on=False)
    assert history.state_at(fork).next == ("ask",)


@pytest.mark.parametrize(
    "bad", ["nonsense", "1f1ed81d-e7f7-6b7f-8000-7e0259c110d1", "'; drop table", "\0", "\ud800", "x" * 500, "٣"]
)
def test_a_checkpoint_that_is_not_there_is_not_found(shop: Any, bad: str) -> None:
    thread_id = start("support", "Where is order 10311?")
    step(thread_id)
    other = start("support", "Where is order 10311?")
    step(other)
    for checkpoint_id in (bad, ids(other)[0]):
        for attempt in (history.fork, history.rewind):
            with pytest.raises(UnknownCheckpoint):
                attempt(thread_id, checkpoint_id, author="olga")
        with pytest.raises(UnknownCheckpoint):
            history.state_at(thread_id, checkpoint_id)
    with pytest.raises(UnknownCheckpoint):
        history.state_at(thread_id, ids(thread_id)[0], "no:such|\0")
    with pytest.raises(UnknownCheckpoint):
        history.fork(runs.create_thread("support"), author="olga")
    with pytest.raises(runs.UnknownThread):
        history.fork("nowhere", author="olga")
