"""Small graphs for tests: each asks in one way, and records what really ran.

Builders return graphs without a checkpointer, as the registry wants them (``registry.override(name, build)``). In
one process give them a list (``ran``); across processes, where the worker may be killed, give them ``on_disk``, and
read ``demo.effects("ran")``.
"""

from __future__ import annotations

import json
import operator
import os
import signal
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Protocol

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from agents import demo
from agents.catalog.toolkit import origin
from agents.testing import Plan, ScriptedChatModel, Turn

Graph = CompiledStateGraph[Any, Any, Any, Any]
Calls = Sequence[tuple[str, dict[str, Any]]]
Record = Callable[[str, dict[str, Any], "ToolRuntime[Any, Any] | None"], None]


def into(ran: list[tuple[str, dict[str, Any]]]) -> Record:
    """Record into a list, as (tool, arguments)."""
    return lambda name, args, runtime: ran.append((name, args))


def on_disk(name: str, args: dict[str, Any], runtime: ToolRuntime[Any, Any] | None) -> None:
    """Record as an effect of kind ``ran``, which outlives the process; ``args`` are ``{"tool", "args"}``."""
    where = origin(runtime) if runtime else demo.Origin()
    demo.record("ran", {"tool": name, "args": args}, origin=where)


def killing(tool_name: str, *, when: Literal["before", "after"], record: Record = on_disk) -> Record:
    """Record, and once, in the first process that gets there, die as by ``kill -9`` before or after the effect."""

    def recording(name: str, args: dict[str, Any], runtime: ToolRuntime[Any, Any] | None) -> None:
        if when == "after" or name != tool_name:
            record(name, args, runtime)
        if name == tool_name:
            _die_once()
            if when == "before":
                record(name, args, runtime)

    return recording


def _die_once() -> None:
    try:
        os.close(os.open(demo.home() / "died", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


# ------------------------------------------------------------------------------------------------------- the test agent


def turns(*calls: Calls) -> str:
    """Write the human message that makes ``agent`` propose these calls, one list for each turn, and then say "done"."""
    return json.dumps([[[name, args] for name, args in turn] for turn in calls])


def proposing(seen: list[list[BaseMessage]] | None = None) -> Callable[[Sequence[BaseMessage]], Turn]:
    """Return a script that proposes what ``turns`` wrote; ``seen`` collects the messages of each call of the model."""

    def script(messages: Sequence[BaseMessage]) -> Turn:
        if seen is not None:
            seen.append(list(messages))
        asked = max(index for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        try:
            planned = json.loads(messages[asked].text)
        except ValueError:
            return Turn(f"You said: {messages[asked].text}")
        answered = sum(isinstance(message, AIMessage) for message in messages[asked + 1 :])
        if not isinstance(planned, list) or answered >= len(planned):
            return Turn("done")
        return Turn(f"turn {answered + 1}", tuple(Plan(name, args) for name, args in planned[answered]))

    return script


def drawn(body: Callable[..., str]) -> BaseTool:
    """Do as ``@tool`` does, and read what the signature says of the arguments once a process: it takes 5 ms."""
    made = tool(body, args_schema=_schemas.get(body.__name__))
    _schemas[body.__name__] = made.args_schema
    return made


_schemas: dict[str, Any] = {}


def tools(record: Record) -> list[BaseTool]:
    """Return pay, wipe, mail, read, ask_user and ask_inside; ``mail`` and ``read`` are idempotent."""
    return [*_acting(record), *_asking(record)]


def _acting(record: Record) -> list[BaseTool]:
    @drawn
    def pay(
        amount: int,
        runtime: ToolRuntime,
        urgent: bool = False,
        tags: list[str] | None = None,
        memo: str | None = None,
    ) -> str:
        """Pay an amount."""
        given = {"urgent": urgent, "tags": tags, "memo": memo}
        args = {"amount": amount} | {key: value for key, value in given.items() if value}
        record("pay", args, runtime)
        return f"paid {amount}"

    @drawn
    def wipe(path: str, runtime: ToolRuntime) -> str:
        """Wipe a path."""
        record("wipe", {"path": path}, runtime)
        return f"wiped {path}"

    @drawn
    def mail(to: str, runtime: ToolRuntime) -> str:
        """Send a mail."""
        record("mail", {"to": to}, runtime)
        return f"mailed {to}"

    @drawn
    def read(id: int, runtime: ToolRuntime) -> str:
        """Read a record."""
        record("read", {"id": id}, runtime)
        return f"record {id}"

    mail.metadata = read.metadata = {"idempotent": True}
    return [pay, wipe, mail, read]


def _asking(record: Record) -> list[BaseTool]:
    @drawn
    def ask_user(question: str, runtime: ToolRuntime) -> str:
        """Ask a person; the answer comes in this tool's place."""
        record("ask_user", {"question": question}, runtime)
        return "nobody answered"

    @drawn
    def ask_inside(question: str, runtime: ToolRuntime) -> str:
        """Ask a person from inside the tool, then act."""
        answer = interrupt({"question": question})
        record("ask_inside", {"question": question, "answer": answer}, runtime)
        return f"answered {answer}"

    return [ask_user, ask_inside]


POLICY: dict[str, bool | InterruptOnConfig] = {
    "pay": InterruptOnConfig(allowed_decisions=["approve", "edit", "reject"]),
    "wipe": InterruptOnConfig(allowed_decisions=["approve", "reject"]),
    "mail": True,
    "ask_user": InterruptOnConfig(allowed_decisions=["respond"]),
}


def agent(
    record: Record,
    *,
    mode: Literal["batched", "per_call"] = "batched",
    policy: dict[str, bool | InterruptOnConfig] | None = None,
    seen: list[list[BaseMessage]] | None = None,
    repeat_ids: bool = False,
    interrupt_before: list[str] | None = None,
    extra: Sequence[BaseTool] = (),
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
) -> Graph:
    """The agent of the field's cases: pay, wipe, mail and ask_user are asked about, read and ask_inside are not."""
    gate = HumanInTheLoopMiddleware(POLICY if policy is None else policy, interrupt_mode=mode)
    return create_agent(
        ScriptedChatModel(script=proposing(seen), repeat_ids=repeat_ids),
        [*tools(record), *extra],
        middleware=[gate, *middleware],
        interrupt_before=interrupt_before,
    )


def delegating(record: Record) -> Graph:
    """An agent whose tool ``delegate(task)`` runs another agent, which is asked about. ``task``: see turns()."""
    inner = agent(record)

    @tool
    def delegate(task: str) -> str:
        """Hand a task to another agent."""
        return str(inner.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

    return agent(record, policy={}, extra=[delegate])


# --------------------------------------------------------------------------------------------------------- plain graphs


class Verdict(TypedDict):
    log: Annotated[dict[str, Any], operator.or_]


class Log(MessagesState):
    log: Annotated[dict[str, Any], operator.or_]


class Node(Protocol):
    """A node of these graphs; LangGraph goes by the name of the parameter."""

    def __call__(self, state: Log) -> dict[str, Any]: ...


def chain(*nodes: tuple[str, Any], **compiling: Any) -> Graph:
    """Compile nodes one after the other, each a function or a graph."""
    builder = StateGraph(Log)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(**compiling)


def asking(name: str, value: Any, *, response_schema: Any = None) -> Node:
    """Return a node that interrupts with any value and keeps the answer in ``log[name]``."""

    def node(state: Log) -> dict[str, Any]:
        return {"log": {name: interrupt(value, response_schema=response_schema)}}

    return node


def noting(record: Record, name: str) -> Node:
    """Return a node that records that it ran."""

    def node(state: Log) -> dict[str, Any]:
        record(name, {}, None)
        return {"log": {name: "ran"}}

    return node


def asks(value: Any, *, response_schema: Any = None) -> Graph:
    """A graph that interrupts once, with any value; the answer is ``log["ask"]``."""
    return chain(("ask", asking("ask", value, response_schema=response_schema)))


def asks_twice() -> Graph:
    """A graph whose one node interrupts twice, so that it runs three times; the answers are ``log["ask"]``."""

    def ask(state: Log) -> dict[str, Any]:
        return {"log": {"ask": [interrupt("first"), interrupt("second")]}}

    return chain(("ask", ask))


def acts_then_asks(record: Record) -> Graph:
    """A graph whose node acts before it interrupts, so that it acts again when it is answered."""

    def act(state: Log) -> dict[str, Any]:
        record("act", {}, None)
        return {"log": {"act": interrupt("confirm")}}

    return chain(("act", act))


def parallel() -> Graph:
    """Three questions at once: left, right, and one inside a subgraph; the answers are ``log``."""
    builder = StateGraph(Log)
    builder.add_node("left", asking("left", "left"))
    builder.add_node("right", asking("right", "right"))
    builder.add_node("sub", asked_inside())
    builder.add_node("join", lambda state: {"log": {"joined": True}})
    for branch in ("left", "right", "sub"):
        builder.add_edge(START, branch)
    builder.add_edge(["left", "right", "sub"], "join")
    builder.add_edge("join", END)
    return builder.compile()


def asked_inside() -> Graph:
    """The graph that asks ``{"q": "inner"}``; the answer is ``log["inner"]``. It hands back only its log."""
    builder = StateGraph(Log, output_schema=Verdict)
    builder.add_node("ask", asking("inner", {"q": "inner"}))
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile()


def nested(record: Record) -> Graph:
    """Acts, asks inside a subgraph, acts again."""
    return chain(("before", noting(record, "before")), ("sub", asked_inside()), ("after", noting(record, "after")))


def loop(rounds: int = 3) -> Graph:
    """Asks ``{"round": n}``, from 1, until somebody says stop, or ``rounds`` are over."""

    def ask(state: Log) -> dict[str, Any]:
        number = len(state.get("log") or {}) + 1
        return {"log": {f"round {number}": interrupt({"round": number})}}

    def again(state: Log) -> str:
        return END if "stop" in state["log"].values() or len(state["log"]) >= rounds else "ask"

    builder = StateGraph(Log)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", again, ["ask", END])
    return builder.compile()


NAMES = ("one", "two", "three")


def asking_tools(record: Record) -> list[BaseTool]:
    """Return the tools one, two and three; each interrupts in its body with ``{"from": name}``, then records."""

    def asking_tool(name: str) -> BaseTool:
        @tool(name, description=f"Ask about {name}.")
        def body(runtime: ToolRuntime) -> str:
            answer = interrupt({"from": name})
            record(name, {"answer": answer}, runtime)
            return f"{name}: {answer}"

        return body

    return [asking_tool(name) for name in NAMES]


def as_it_is(request: Any, execute: Any) -> Any:
    """Wrap a tool call without a change. Sync only: an agent with such a hook runs in a thread."""
    return execute(request)


def propose_three(state: Log) -> dict[str, Any]:
    calls = [ToolCall(name=name, args={}, id=f"call_{name}", type="tool_call") for name in NAMES]
    return {"messages": [AIMessage("three at once", tool_calls=calls, id="ai-three")]}


def three_tools(record: Record) -> Graph:
    """A ToolNode as a plain node, whose three tools interrupt: one task for all of them.

    LangGraph asks one after the other and hands out answers by the order of the ``interrupt()`` calls in the task. A
    tool that was answered runs again from its top for each later question: "one" acts three times, "two" twice.
    """
    return chain(("propose", propose_three), ("tools", ToolNode(asking_tools(record))))


def three_tasks(record: Record) -> Graph:
    """The same three tools, one task each, as create_agent does it: three questions at once, each tool acts once."""

    def spread(state: Log) -> list[Send]:
        proposed = state["messages"][-1]
        return [Send("tools", [call]) for call in proposed.tool_calls] if isinstance(proposed, AIMessage) else []

    builder = StateGraph(Log)
    builder.add_node("propose", propose_three)
    builder.add_node("tools", ToolNode(asking_tools(record)))
    builder.add_edge(START, "propose")
    builder.add_conditional_edges("propose", spread, ["tools"])
    builder.add_edge("tools", END)
    return builder.compile()


def breakpoint_before(record: Record) -> Graph:
    """Stops before its second step, without an interrupt object."""
    nodes = (("first", noting(record, "first")), ("second", noting(record, "second")))
    return chain(*nodes, interrupt_before=["second"])


def breakpoint_after(record: Record) -> Graph:
    """Stops after its first step, without an interrupt object."""
    nodes = (("first", noting(record, "first")), ("second", noting(record, "second")))
    return chain(*nodes, interrupt_after=["first"])


def stops_inside(record: Record, *, when: Literal["before", "after"] = "before") -> Graph:
    """Acts, stops inside a subgraph between its two steps, acts again."""
    inner = breakpoint_before(record) if when == "before" else breakpoint_after(record)
    return chain(("before", noting(record, "before")), ("sub", inner), ("after", noting(record, "after")))


def fails(message: str = "boom") -> Graph:
    """Raises in its only node."""

    def fail(state: Log) -> dict[str, Any]:
        raise RuntimeError(message)

    return chain(("fail", fail))
