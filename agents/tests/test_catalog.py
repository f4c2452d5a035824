"""The shipped agents, each driven through what people may decide; what the tools really got is read from the shop."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import LazySettings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agents import demo
from agents.catalog import ENTRIES, chat_model
from agents.catalog.operations import script as operations_script
from agents.catalog.support import needs_a_person
from agents.catalog.support import script as support_script
from agents.testing import ScriptedChatModel, Turn


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, settings: LazySettings) -> Path:
    settings.DATA_DIR = tmp_path
    settings.AGENT_MODEL = "scripted"
    return tmp_path / "demo"


class Conversation:
    """One thread with a shipped agent, run in one of LangGraph's two ways."""

    def __init__(self, name: str, way: str) -> None:
        self.graph = ENTRIES[name].build().copy(update={"checkpointer": InMemorySaver()})
        self.way = way
        self.config: Any = {"configurable": {"thread_id": "one"}}

    def _run(self, given: Any) -> None:
        if self.way == "sync":
            self.graph.invoke(given, self.config)
        else:
            asyncio.run(self.graph.ainvoke(given, self.config))

    def say(self, text: str) -> Conversation:
        self._run({"messages": [HumanMessage(text)]})
        return self

    def go_on(self) -> None:
        self._run(None)

    @property
    def asks(self) -> list[Any]:
        return [one.value for one in self.graph.get_state(self.config).interrupts]

    @property
    def next(self) -> tuple[str, ...]:
        return tuple(self.graph.get_state(self.config).next)

    def answer(self, value: Any, *, to: Callable[[Any], bool] = lambda value: True) -> Conversation:
        """Answer the first question that fits."""
        asked = next(one for one in self.graph.get_state(self.config).interrupts if to(one.value))
        self._run(Command(resume={asked.id: value}))
        return self

    def decide(self, *decisions: dict[str, Any]) -> Conversation:
        return self.answer({"decisions": list(decisions)})

    @property
    def messages(self) -> list[Any]:
        return list(self.graph.get_state(self.config).values["messages"])

    @property
    def last(self) -> str:
        return str(self.messages[-1].text)


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


APPROVE = {"type": "approve"}


def reject(message: str = "") -> dict[str, Any]:
    return {"type": "reject", "message": message} if message else {"type": "reject"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def received(kind: str) -> list[dict[str, Any]]:
    return [effect["args"] for effect in demo.effects(kind)]


# ---------------------------------------------------------------------------------------------------------- the catalog


def test_every_agent_builds_fast_and_without_a_checkpointer() -> None:
    for entry in ENTRIES.values():
        graph = entry.build()
        took = []
        for _ in range(3):  # the fastest counts: the machine has other work
            started = time.process_time()
            entry.build()
            took.append(time.process_time() - started)
        assert min(took) < 0.1, entry.name
        assert graph.checkpointer is None
        assert entry.title and entry.description and entry.version


def test_the_openings_show_every_kind_of_question() -> None:
    shown, finished = set(), 0
    for entry in ENTRIES.values():
        for opening in entry.openings:
            conversation = Conversation(entry.name, "sync").say(opening.say)
            state = conversation.graph.get_state(conversation.config)
            finished += not state.next
            shown |= {_kind(one) for one in state.interrupts} or ({"breakpoint"} if state.next else set())
        assert entry.openings, entry.name
    assert shown == {"hitl", "tool_approval", "schema", "raw text", "raw object", "breakpoint"}
    assert finished == 1


def _kind(asked: Any) -> str:
    value = asked.value
    if isinstance(value, dict) and "action_requests" in value:
        return "hitl"
    if isinstance(value, dict) and value.get("type") == "tool_approval":
        return "tool_approval"
    if asked.response_schema:
        return "schema"
    return "raw text" if isinstance(value, str) else "raw object"


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_newcomer_who_says_hello_is_told_what_the_agent_can_do(name: str, way: str) -> None:
    conversation = Conversation(name, way).say("Hello")
    assert conversation.next == ()
    assert "I am" in conversation.last
    assert demo.effects() == []


# -------------------------------------------------------------------------------------------------------------- support


def support(way: str, say: str = "Refund order 10482. The customer wrote: shade broken") -> Conversation:
    return Conversation("support", way).say(say)


def test_an_approved_refund_is_made_once_as_proposed(way: str) -> None:
    conversation = support(way)
    assert received("refund") == []
    conversation.decide(APPROVE)
    (effect,) = demo.effects("refund")
    assert effect["args"] == {"order_id": 10482, "amount": 129.0, "method": "original_card", "note": "shade broken"}
    assert effect["tool_call_id"] == "call_3_0"
    assert effect["thread_id"] == "one" and effect["task_id"]
    assert "Refunded 129.00 EUR" in conversation.last


def test_an_edited_refund_is_made_as_edited(way: str) -> None:
    changed = edit("issue_refund", order_id=10482, amount=119.0, method="voucher", note="")
    conversation = support(way).decide(changed)
    assert received("refund") == [{"order_id": 10482, "amount": 119.0, "method": "voucher", "note": ""}]
    assert "changed the refund" in conversation.last and "119.00" in conversation.last


def test_a_rejection_is_taken_up_in_the_agents_words(way: str) -> None:
    conversation = support(way).decide(reject("The photo is missing"))
    assert received("refund") == []
    assert "The photo is missing" in conversation.last
    silent = support(way).decide(reject())
    assert "a colleague said no" in silent.last


def test_a_rejection_that_names_an_amount_leads_to_a_new_proposal(way: str) -> None:
    conversation = support(way).decide(reject("Give 100 EUR at most"))
    (asked,) = conversation.asks[0]["action_requests"]
    assert asked["args"]["amount"] == 100.0
    conversation.decide(APPROVE)
    assert [args["amount"] for args in received("refund")] == [100.0]


def test_an_answer_in_the_tools_place_makes_no_refund(way: str) -> None:
    conversation = support(way).decide({"type": "respond", "message": "Paid in cash at the counter."})
    assert received("refund") == []
    assert "Paid in cash at the counter." in conversation.last


def test_a_hidden_character_reaches_the_tool_as_it_was_proposed(way: str) -> None:
    conversation = support(way, ENTRIES["support"].openings[0].say).decide(APPROVE)
    assert received("refund")[0]["note"] == "Shade broken, photo seen\u202e00.921"
    assert conversation.next == ()


def test_a_small_refund_runs_without_a_question(way: str) -> None:
    conversation = support(way, "Refund order 10490, please.")
    assert conversation.asks == []
    assert [args["amount"] for args in received("refund")] == [24.9]


@pytest.mark.parametrize("amount", [None, "20", -1, float("nan"), 50.01, True])
def test_what_is_not_surely_a_small_amount_is_asked_about(amount: Any) -> None:
    request: Any = SimpleNamespace(tool_call={"args": {"amount": amount}})
    assert needs_a_person(request)


def test_an_email_has_typed_arguments_and_all_four_decisions(way: str) -> None:
    say = "Tell the customer of order 10490 that it is on its way. Copy to stock@example.test, urgent."
    conversation = support(way, say)
    (policy,) = conversation.asks[0]["review_configs"]
    assert policy["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert conversation.asks[0]["action_requests"][0]["description"].startswith("Support wants to write")
    conversation.decide(APPROVE)
    (sent,) = received("email")
    assert sent["recipient"] == "tom.abel@example.test"
    assert sent["copies"] == ["stock@example.test"]
    assert sent["urgent"] is True
    assert "it is on its way" in sent["body"]


def test_a_refund_and_an_email_are_two_questions(way: str) -> None:
    conversation = support(way, "Refund order 10482 and tell the customer.").decide(APPROVE)
    (asked,) = conversation.asks[0]["action_requests"]
    assert asked["name"] == "send_email"
    conversation.decide(reject("They phoned already"))
    assert received("email") == []
    assert "They phoned already" in conversation.last


def test_an_edit_beyond_the_limit_is_refused_by_the_tool(way: str) -> None:
    conversation = support(way).decide(edit("issue_refund", order_id=10482, amount=1190, method="voucher", note=""))
    assert received("refund") == []
    assert "could not complete" in conversation.last


def test_a_later_message_is_read_together_with_what_was_said_before(way: str) -> None:
    conversation = support(way).decide(reject("Ask again later"))
    conversation.say("Refund only 80 EUR as a voucher")
    (asked,) = conversation.asks[0]["action_requests"]
    assert asked["args"]["order_id"] == 10482
    assert (asked["args"]["amount"], asked["args"]["method"]) == (80.0, "voucher")


def test_an_unknown_order_is_said_to_be_unknown(way: str) -> None:
    conversation = support(way, "Refund order 99999")
    assert "There is no order 99999" in conversation.last
    assert received("refund") == []


def test_middleware_counts_the_models_calls_and_times_the_tools() -> None:
    conversation = Conversation("support", "sync")
    parts = list(
        conversation.graph.stream(
            {"messages": [HumanMessage("Where is order 10311?")]}, conversation.config, stream_mode="custom"
        )
    )
    assert [part["timed"] for part in parts if isinstance(part, dict)] == ["find_order"]
    assert conversation.graph.get_state(conversation.config).values["model_calls"] == 2


# ----------------------------------------------------------------------------------------------------------- operations


def test_one_turn_is_decided_together_and_the_rest_runs_by_itself(way: str) -> None:
    conversation = Conversation("operations", way).say("Clean up the stale carts.")
    asked = conversation.asks[0]["action_requests"]
    assert [one["name"] for one in asked] == ["execute_sql", "write_file", "execute_sql"]
    policies = {one["action_name"]: one["allowed_decisions"] for one in conversation.asks[0]["review_configs"]}
    assert policies == {"execute_sql": ["approve", "reject"], "write_file": ["approve", "edit", "reject"]}
    assert demo.effects() == []
    path = "/srv/reports/carts-2026-12.md"
    conversation.decide(APPROVE, edit("write_file", path=path, overwrite=False, content="Short."), reject("Not now"))
    assert [args["statement"].split()[0] for args in received("sql")] in (["SELECT", "DELETE"], ["DELETE", "SELECT"])
    assert {args["path"] for args in received("file")} == {path, "log/carts.md"}
    assert received("read") == [{"table": "carts", "limit": 5}]
    assert "Not now" in conversation.last
    assert str(demo.run_sql("select count(*) from carts where updated_at < '2026-09-01'")).endswith("\n0")


def test_an_approved_file_outside_the_workspace_stays_below_the_demo_data(way: str, shop: Path) -> None:
    conversation = Conversation("operations", way).say("Write ../../../etc/motd: hello there")
    assert conversation.asks
    conversation.decide(APPROVE)
    assert (shop / "outside/etc/motd").read_text() == "hello there"
    assert "Wrote 11 characters to /etc/motd" in conversation.last


def test_a_file_inside_the_workspace_is_written_without_a_question(way: str, shop: Path) -> None:
    conversation = Conversation("operations", way).say("Write notes/today.md: all quiet")
    assert conversation.asks == []
    assert (shop / "workspace/notes/today.md").read_text() == "all quiet"
    assert received("file") == [{"path": "notes/today.md", "overwrite": False, "content": "all quiet"}]


def test_each_call_is_its_own_question_in_per_call_mode(way: str) -> None:
    conversation = Conversation("operations-per-call", way).say("Archive the payments of last year.")
    assert {asked["tool_call_id"] for asked in conversation.asks} == {"call_1_0", "call_1_1", "call_1_2"}
    assert received("read") == [{"table": "payments", "limit": 10}]  # ran already
    conversation.answer(APPROVE, to=lambda value: value["tool_call_id"] == "call_1_0")
    assert len(conversation.asks) == 2
    conversation.answer(reject("Keep them"), to=lambda value: value["tool_call_id"] == "call_1_1")
    changed = edit("write_file", path="/srv/a.md", overwrite=True, content="x")
    conversation.answer(changed, to=lambda value: value["name"] == "write_file")
    assert [args["statement"][:20] for args in received("sql")] == ["CREATE TABLE archive"]
    assert received("file") == [{"path": "/srv/a.md", "overwrite": True, "content": "x"}]
    assert "Keep them" in conversation.last


@pytest.mark.parametrize(
    ("statement", "is_plain"),
    [
        ("SELECT 1", True),
        ("  select * from carts ;", True),
        ("selected", False),
        ("DELETE FROM carts", False),
        ("WITH x AS (SELECT 1) DELETE FROM carts", False),
        ("SELECT 1; DROP TABLE carts", False),
        ("/* SELECT */ DROP TABLE carts", False),
        ("", False),
    ],
)
def test_only_a_plain_select_is_not_asked_about(statement: str, is_plain: bool) -> None:
    assert demo.is_select(statement) is is_plain


# -------------------------------------------------------------------------------------------------- questions to people


def test_a_person_answers_in_the_tools_place_and_the_report_is_saved(way: str, shop: Path) -> None:
    conversation = Conversation("ask-user", way).say("Write the churn report.")
    assert conversation.asks[0]["review_configs"][0]["allowed_decisions"] == ["respond"]
    conversation.decide({"type": "respond", "message": "30 November"})
    assert "30 November" in (shop / "workspace/reports/churn.md").read_text()
    assert received("note")[0]["title"] == "Churn"


def test_a_question_with_choices_carries_them(way: str) -> None:
    conversation = Conversation("ask-user", way).say("Plan the team lunch.")
    (asked,) = conversation.asks[0]["action_requests"]
    assert asked["args"]["choices"] == ["Tuesday", "Thursday", "Not this week"]
    conversation.decide({"type": "respond", "message": "Thursday"})
    assert "Thursday" in received("note")[0]["text"]


def test_a_release_asks_with_a_text_then_with_an_object(way: str) -> None:
    conversation = Conversation("release", way).say("Ship build 42.")
    assert conversation.asks == ["Ship build 42 to staging?"]
    conversation.answer("yes, go")
    assert conversation.asks == [{"question": "Which region gets build 42 first?", "options": ["eu", "us"]}]
    conversation.answer("us")
    assert received("deployment") == [{"build": "build 42", "region": "us"}]


@pytest.mark.parametrize("answer", ["no", "", None, {}, 0, "perhaps", ["yes"]])
def test_a_release_takes_what_is_no_clear_yes_as_a_no(answer: Any, way: str) -> None:
    conversation = Conversation("release", way).say("Ship build 42.").answer(answer)
    assert conversation.next == ()
    assert received("deployment") == []


TRIP = {"city": "Oslo", "departure": "2027-03-02", "nights": 3}


def test_a_trip_is_booked_with_the_answers_and_the_schemas_defaults(way: str) -> None:
    conversation = Conversation("travel", way).say("Book the trip.").answer(TRIP)
    (booked,) = received("booking")
    assert booked.items() >= (TRIP | {"seat": "aisle", "budget": 900.0, "companions": []}).items()
    assert conversation.next == ()


def test_a_trip_that_breaks_the_schema_is_asked_again(way: str) -> None:
    conversation = Conversation("travel", way).say("Book the trip.")
    with pytest.raises(ValueError, match="nights"):
        conversation.answer(TRIP | {"nights": 99})
    conversation.answer(TRIP)
    assert len(received("booking")) == 1


def test_three_branches_are_answered_one_by_one(way: str) -> None:
    conversation = Conversation("publishing", way).say("The shop is closed on Sunday.")
    assert len(conversation.asks) == 3
    conversation.answer("yes", to=lambda value: "Security" in str(value))
    conversation.answer({"agreed": True}, to=lambda value: "Brand" in str(value))
    assert received("publication") == []
    conversation.answer("agreed", to=lambda value: "Legal" in str(value))
    assert received("publication")[0]["verdicts"] == {"legal": "agreed", "brand": "agreed", "security": "agreed"}


def test_one_objection_stops_the_publication(way: str) -> None:
    conversation = Conversation("publishing", way).say("The shop is closed on Sunday.")
    conversation.answer("yes", to=lambda value: "Security" in str(value))
    conversation.answer({"agreed": False, "remark": "too blunt"}, to=lambda value: "Brand" in str(value))
    conversation.answer("yes", to=lambda value: "Legal" in str(value))
    assert received("publication") == []
    assert "too blunt" in conversation.last


def test_a_question_from_inside_two_subgraphs_is_answered(way: str) -> None:
    conversation = Conversation("onboarding", way).say("Mara Lind joins.").answer("yes")
    assert received("account") == [{"applicant": "Mara Lind joins."}]
    refused = Conversation("onboarding", way).say("Mara Lind joins.").answer("The photo is another person")
    assert len(received("account")) == 1
    assert "The photo is another person" in refused.last
    assert conversation.next == ()


def test_a_loop_asks_until_somebody_agrees(way: str) -> None:
    conversation = Conversation("naming", way).say("The new lamp").answer("too shiny").answer("yes")
    assert received("name") == [{"subject": "The new lamp", "name": "Halo"}]
    assert any("You said: too shiny" in message.text for message in conversation.messages)
    endless = Conversation("naming", way).say("The new lamp")
    for _ in range(5):
        endless.answer("no")
    assert endless.next == ()
    assert len(received("name")) == 1


def test_a_tool_that_asks_by_itself_acts_once_after_the_answer(way: str) -> None:
    conversation = Conversation("buyer", way).say("Buy 2 desks.")
    assert received("purchase") == []
    conversation.answer("Sales")
    assert received("purchase") == [{"item": "desk", "quantity": 2, "total": 840.0, "payer": "Sales"}]
    Conversation("buyer", way).say("Buy 2 desks.").answer("Nobody")
    assert len(received("purchase")) == 1


def test_static_breakpoints_stop_without_an_interrupt(way: str) -> None:
    rollout = Conversation("rollout", way).say("Roll out cart-worker 2.")
    assert (rollout.asks, rollout.next) == ([], ("everywhere",))
    assert [args["machines"] for args in received("deployment")] == [1]
    rollout.go_on()
    assert [args["machines"] for args in received("deployment")] == [1, 12]
    night = Conversation("night-shift", way).say("Restart the mailer.")
    assert (night.asks, night.next, received("restart")) == ([], ("tools",), [])
    night.go_on()
    assert received("restart") == [{"service": "mailer", "grace_seconds": 10}]


def test_the_mail_rooms_calls_bear_the_same_id_in_each_turn(way: str) -> None:
    conversation = Conversation("mailroom", way).say("Sort the post.")
    conversation.decide(APPROVE).decide(reject("Not to legal")).decide(APPROVE)
    calls = [call["id"] for message in conversation.messages for call in getattr(message, "tool_calls", [])]
    assert calls == ["call_0"] * 3
    assert [args["department"] for args in received("letter")] == ["accounts", "sales"]
    assert "Not to legal" in conversation.last
    assert len({message.id for message in conversation.messages}) == len(conversation.messages)


# --------------------------------------------------------------------------------------------------- the scripted model


def test_the_same_messages_give_the_same_answer_but_not_the_same_object() -> None:
    model = chat_model(support_script)
    messages = [SystemMessage("be kind"), HumanMessage("Refund order 10482", id="a")]
    first, second = model.invoke(messages), model.invoke(messages)
    assert first == second
    assert first is not second
    assert model.invoke([HumanMessage("Refund order 10482", id="b")]).id == first.id


def test_other_words_before_give_another_id() -> None:
    model = chat_model(support_script)
    ids = {model.invoke([HumanMessage(text)]).id for text in ("Refund order 10482", "Refund order 10490")}
    assert len(ids) == 2


@pytest.mark.parametrize(
    "say", ["Clean up the stale carts.", "hello", "Run DELETE FROM carts WHERE id = 9007199254740993"]
)
async def test_streamed_in_words_it_is_the_same_as_in_one_piece(say: str) -> None:
    model = chat_model(operations_script)
    whole = model.invoke(say)
    sync = [chunk.text for chunk in model.stream(say)]
    parts = [chunk async for chunk in model.astream(say)]
    streamed = parts[0]
    for part in parts[1:]:
        streamed += part
    assert len([part for part in parts if part.text]) == len(whole.text.split())
    assert sync == [part.text for part in parts]
    assert (streamed.text, streamed.id) == (whole.text, whole.id)
    assert isinstance(whole, AIMessage) and isinstance(streamed, AIMessage)
    assert streamed.tool_calls == whole.tool_calls


def test_a_graph_streams_the_tokens(way: str) -> None:
    conversation = Conversation("support", way)
    given: Any = {"messages": [HumanMessage("Where is order 10311?")]}

    async def collect() -> list[Any]:
        return [part async for part in conversation.graph.astream(given, conversation.config, stream_mode="messages")]

    if way == "sync":
        parts: list[Any] = list(conversation.graph.stream(given, conversation.config, stream_mode="messages"))
    else:
        parts = asyncio.run(collect())
    words = [message.text for message, _ in parts if isinstance(message, AIMessage) and message.text]
    assert words[:4] == ["I ", "look ", "up ", "order "]


def test_a_replay_from_an_older_checkpoint_proposes_the_same_call() -> None:
    conversation = support("sync")
    history = list(conversation.graph.get_state_history(conversation.config))
    before_the_model = next(state for state in history if (state.metadata or {}).get("step") == 0)
    proposed = [call for message in conversation.messages for call in getattr(message, "tool_calls", [])]
    conversation.graph.invoke(None, before_the_model.config)
    assert [call for message in conversation.messages for call in getattr(message, "tool_calls", [])] == proposed


def test_another_model_is_one_setting_away(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []
    monkeypatch.setattr("agents.catalog.entry.init_chat_model", lambda name: wanted.append(name))
    settings.AGENT_MODEL = "somewhere:large"
    chat_model(support_script)
    assert wanted == ["somewhere:large"]


def test_words_can_be_slowed_down_for_the_eye(settings: LazySettings) -> None:
    settings.AGENT_WORD_DELAY = 0.25
    model = chat_model(support_script)
    assert isinstance(model, ScriptedChatModel) and model.delay == 0.25


def test_a_call_without_a_result_does_not_confuse_a_script() -> None:
    call = {"name": "find_order", "args": {"order_id": 10482}, "id": "c", "type": "tool_call"}
    messages = [HumanMessage("Refund order 10482"), AIMessage("", tool_calls=[call])]
    assert isinstance(support_script(messages), Turn)
    refused = ToolMessage("The desk refused this call.", tool_call_id="c", status="error")
    assert "The desk refused this call." in support_script([*messages, refused]).text


# ------------------------------------------------------------------------------------------------------------- the shop


def test_effects_are_written_by_many_threads_without_loss() -> None:
    threads = [
        threading.Thread(target=demo.record, args=("read", {"n": n}), kwargs={"origin": demo.Origin()})
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(args["n"] for args in received("read")) == list(range(12))


def test_an_idempotent_effect_is_recorded_once_for_an_execution_but_again_for_another() -> None:
    first, other = demo.Origin("c", "t", "task-1"), demo.Origin("c", "t", "task-2")
    assert demo.record("email", {}, origin=first, once=True)
    assert not demo.record("email", {}, origin=first, once=True)
    assert demo.record("email", {}, origin=other, once=True)
    assert len(demo.effects("email", thread_id="t")) == 2


@pytest.mark.parametrize("path", ["..", "", "a\0b", "x" * 300, "notes/today.md/deeper"])
def test_a_path_that_cannot_be_written_is_refused_in_words(path: str, shop: Path) -> None:
    demo.write_text("notes/today.md", "here", overwrite=False)
    with pytest.raises(demo.Refused):
        demo.write_text(path, "there", overwrite=False)
    with pytest.raises(demo.Refused, match="overwrite"):
        demo.write_text("notes/today.md", "there", overwrite=False)


def test_a_link_does_not_lead_out_of_the_demo_data(shop: Path, tmp_path: Path) -> None:
    (shop / "workspace").mkdir(parents=True)
    (shop / "workspace/link").symlink_to(tmp_path)
    (shop / "workspace/file").symlink_to(tmp_path / "secret")
    for path in ("link/secret", "file"):
        with pytest.raises(demo.Refused):
            demo.write_text(path, "x", overwrite=True)
    assert not (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH '{0}' AS x",
        "VACUUM INTO '{0}'",
        "PRAGMA user_version = 0",
        "COMMIT",
        "SELECT load_extension('{0}')",
        "nonsense",
    ],
)
def test_sql_cannot_leave_the_shops_database(statement: str, tmp_path: Path) -> None:
    with pytest.raises(demo.Refused):
        demo.run_sql(statement.format(tmp_path / "stolen"))
    assert not (tmp_path / "stolen").exists()


def test_sql_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MAX_SECONDS", 0.05)
    with pytest.raises(demo.Refused, match="interrupted"):
        demo.run_sql("WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n")


def test_tables_that_were_removed_on_purpose_stay_removed() -> None:
    demo.run_sql("DROP TABLE carts")
    with pytest.raises(demo.Refused, match="no such table"):
        demo.run_sql("SELECT * FROM carts")


def test_effects_hold_json_that_reads_back_as_it_was() -> None:
    args = {"note": "a\u202eb", "big": 2**63, "amount": 129.0}
    demo.record("refund", args, origin=demo.Origin())
    assert json.dumps(received("refund")) == json.dumps([args])
