"""Operations: several calls in one turn, decided together (``batched``). Its twin asks about each call by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import Step, steps, told, wishes
from agents.catalog.toolkit import CallCounter, ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

Table = Literal["customers", "orders", "carts", "payments"]


class WriteFile(BaseModel):
    path: str = Field(min_length=1, max_length=400, description="Path of the file; relative to /workspace")
    overwrite: bool = Field(default=False, description="Replace the file if it is there")
    content: str = Field(max_length=1_000_000, description="The whole text of the file")


class ExecuteSql(BaseModel):
    statement: str = Field(min_length=1, max_length=20_000, description="One SQL statement, in SQLite's dialect")


class ReadData(BaseModel):
    table: Table = Field(description="Which table to read")
    limit: int = Field(default=5, ge=1, le=50, description="How many rows, 1 to 50")


@demo_tool(WriteFile)
def write_file(path: str, overwrite: bool, content: str, runtime: ToolRuntime) -> str:
    """Write a text file. Without `overwrite` a file that exists is left alone."""
    written = demo.write_text(path, content, overwrite=overwrite)
    demo.record("file", {"path": path, "overwrite": overwrite, "content": content}, origin=origin(runtime))
    return f"Wrote {len(content)} characters to {written}."


@demo_tool(ExecuteSql)
def execute_sql(statement: str, runtime: ToolRuntime) -> str:
    """Run one SQL statement on the shop's database."""
    result = demo.run_sql(statement)
    demo.record("sql", {"statement": statement}, origin=origin(runtime))
    return str(result)


@demo_tool(ReadData, idempotent=True)
def read_data(table: Table, limit: int, runtime: ToolRuntime) -> str:
    """Read the first rows of a table."""
    demo.record("read", {"table": table, "limit": limit}, origin=origin(runtime))
    # The name is one of four that the schema allows, and this connection cannot write.
    return str(demo.run_sql(f"select * from {table} limit ?", (limit,)))  # noqa: S608


# --------------------------------------------------------------------------------------------------------------- script

_SQL = re.compile(r"\b(?:select|insert|update|delete|drop|create|alter|with)\b\s.+", re.IGNORECASE | re.DOTALL)
_WRITE = re.compile(r"\bwrite\s+(?:to\s+)?(?P<path>\S+?):?\s+(?P<content>.+)", re.IGNORECASE | re.DOTALL)
_TABLE = re.compile(r"\b(customers|orders|carts|payments)\b", re.IGNORECASE)
HELP = (
    "I am Operations. I can clean up stale carts, archive old payments, show a table (“Show the orders”), run a"
    " statement (“Run DELETE FROM carts WHERE id = 3”), and write a file (“Write notes/today.md: all quiet”)."
)
_STALE = "updated_at < '2026-09-01' AND order_id IS NULL"
CARTS = (
    Plan("read_data", {"table": "carts", "limit": 5}),
    Plan("execute_sql", {"statement": f"SELECT count(*) FROM carts WHERE {_STALE}"}),  # noqa: S608
    Plan("execute_sql", {"statement": f"DELETE FROM carts WHERE {_STALE}"}),  # noqa: S608
    Plan(
        "write_file",
        {
            "path": "/srv/reports/carts.md",
            "overwrite": True,
            "content": "# Stale carts\n\n- Carts older than 90 days are deleted\n- Next clean-up: 1 March 2027\n",
        },
    ),
    Plan("write_file", {"path": "log/carts.md", "overwrite": True, "content": "Clean-up proposed.\n"}),
    Plan("execute_sql", {"statement": "CREATE TABLE IF NOT EXISTS cleanups (day text, what text)"}),
)
PAYMENTS = (
    Plan("execute_sql", {"statement": "CREATE TABLE archive AS SELECT * FROM payments WHERE day < '2026-01-01'"}),
    Plan("execute_sql", {"statement": "DELETE FROM payments WHERE day < '2026-01-01'"}),
    Plan("write_file", {"path": "../reports/payments.md", "overwrite": True, "content": "Archived: 2025.\n"}),
    Plan("read_data", {"table": "payments", "limit": 10}),
)


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Propose all calls of a task in one turn; afterwards tell how each of them ended."""
    done = steps(messages)
    if done:
        return Turn("\n".join(f"- {_ended(step)}" for step in done))
    for text in wishes(messages):
        turn = _proposal(text)
        if turn:
            return turn
    return Turn(HELP)


def _proposal(text: str) -> Turn | None:
    if match := _SQL.search(text):
        return Turn("I propose this statement.", (Plan("execute_sql", {"statement": match[0].strip()}),))
    if match := _WRITE.search(text):
        args = {"path": match["path"], "overwrite": False, "content": match["content"]}
        return Turn("I write this file.", (Plan("write_file", args),))
    if re.search(r"stale|clean", text, re.IGNORECASE):
        return Turn("There are carts without an order. I propose to delete them, and to write it down.", CARTS)
    if re.search(r"archive", text, re.IGNORECASE):
        return Turn("I propose to copy last year's payments, then to delete them, and to write it down.", PAYMENTS)
    if match := _TABLE.search(text):
        return Turn("I read the table.", (Plan("read_data", {"table": match[1].lower(), "limit": 5}),))
    return None


def _ended(step: Step) -> str:
    subject = step.args.get("path") or step.args.get("table") or step.args.get("statement") or ""
    return told(step, what=f"{step.name.replace('_', ' ')} ({subject})")


# ---------------------------------------------------------------------------------------------------------------- agent


def leaves_the_workspace(request: ToolCallRequest) -> bool:
    """Say whether a file lies outside the workspace; what is no text is asked about too."""
    path = request.tool_call["args"].get("path")
    return not (isinstance(path, str) and demo.place(path).inside)


def may_change_data(request: ToolCallRequest) -> bool:
    """Say whether a statement is anything but one plain SELECT."""
    statement = request.tool_call["args"].get("statement")
    return not (isinstance(statement, str) and demo.is_select(statement))


def build_in(mode: Literal["batched", "per_call"], *, name: str) -> Graph:
    """Compile the agent with the interrupts of one mode."""
    return create_agent(
        chat_model(script),
        [write_file, execute_sql, read_data],
        system_prompt="You keep a small shop's data in order. Propose all steps of a task in one turn.",
        middleware=[
            CallCounter(),
            HumanInTheLoopMiddleware(
                {
                    "write_file": InterruptOnConfig(
                        allowed_decisions=["approve", "edit", "reject"],
                        description="The file lies outside the workspace, where other programs may read it.",
                        when=leaves_the_workspace,
                    ),
                    "execute_sql": InterruptOnConfig(allowed_decisions=["approve", "reject"], when=may_change_data),
                },
                description_prefix="This statement may change data",
                interrupt_mode=mode,
            ),
            ToolTimer(),
        ],
        name=name,
    )


def build() -> Graph:
    return build_in("batched", name="operations")


def build_per_call() -> Graph:
    return build_in("per_call", name="operations-per-call")


ENTRY = Entry(
    name="operations",
    title="Operations",
    description="Files and SQL in one turn, decided together. Asks outside its workspace, and unless it is a SELECT.",
    version="1.7.0",
    build=build,
    openings=(Opening("Clean up stale carts", "Clean up the stale carts, and leave a note in the reports."),),
)

PER_CALL = Entry(
    name="operations-per-call",
    title="Operations, call by call",
    description="The same agent as Operations, in per_call mode: one question for each call, each answered by itself.",
    version="1.7.0",
    build=build_per_call,
    openings=(Opening("Archive last year's payments", "Archive the payments of last year."),),
)
