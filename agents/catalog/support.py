"""Support: looks up orders by itself, refunds small amounts, asks before larger refunds and before each e-mail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import AgentState, HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.tools import ToolRuntime
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import BaseMessage, ToolCall
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening, chat_model
from agents.catalog.reading import Step, latest, sentence, steps, told, wishes
from agents.catalog.toolkit import CallCounter, ToolTimer, demo_tool, origin
from agents.testing import Plan, Turn

ASK_ABOVE = 50  # EUR; smaller refunds run by themselves

Method = Literal["original_card", "voucher", "bank_transfer"]


class FindOrder(BaseModel):
    order_id: int = Field(ge=1, description="Number of the order, five digits")


class IssueRefund(BaseModel):
    order_id: int = Field(ge=1, description="Number of the order, five digits")
    amount: float = Field(ge=0, le=500, description="Amount in EUR, 0 to 500")
    method: Method = Field(description="Where the money goes")
    note: str = Field(default="", max_length=200, description="Shown on the statement, up to 200 characters")


class SendEmail(BaseModel):
    recipient: str = Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", description="One e-mail address")
    subject: str = Field(min_length=1, max_length=120, description="Subject line, up to 120 characters")
    body: str = Field(min_length=1, max_length=5000, description="Plain text, up to 5000 characters")
    copies: list[str] = Field(default_factory=list, max_length=10, description="Addresses that get a copy, at most 10")
    urgent: bool = Field(default=False, description="Marks the message as urgent")


@demo_tool(FindOrder, idempotent=True)
def find_order(order_id: int, runtime: ToolRuntime) -> str:
    """Look up one order: item, total, payment, delivery, customer."""
    demo.record("read", {"order_id": order_id}, origin=origin(runtime))
    found = demo.run_sql(
        "select o.id, o.item, o.total, o.paid_by, o.state, c.name, c.email from orders o"
        " join customers c on c.id = o.customer where o.id = ?",
        (order_id,),
    ).rows
    if not found:
        raise demo.Refused(f"There is no order {order_id}.")
    number, item, total, paid_by, state, name, email = found[0]
    return f"{number} · {item} · {total:.2f} EUR · paid by {paid_by} · {state} · {name} <{email}>"


@demo_tool(IssueRefund)
def issue_refund(order_id: int, amount: float, method: Method, note: str, runtime: ToolRuntime) -> str:
    """Give money back for an order. Takes no idempotency key: called twice, it pays twice."""
    args = {"order_id": order_id, "amount": amount, "method": method, "note": note}
    demo.record("refund", args, origin=origin(runtime))
    return f"Refunded {amount:.2f} EUR for order {order_id} by {method.replace('_', ' ')}."


@demo_tool(SendEmail, idempotent=True)
def send_email(recipient: str, subject: str, body: str, copies: list[str], urgent: bool, runtime: ToolRuntime) -> str:
    """Send an e-mail to a customer. The same execution sends it once, however often it is repeated."""
    args = {"recipient": recipient, "subject": subject, "body": body, "copies": copies, "urgent": urgent}
    demo.record("email", args, origin=origin(runtime), once=True)
    copied = f", with {len(copies)} in copy" if copies else ""
    return f"Sent “{subject}” to {recipient}{copied}."


# --------------------------------------------------------------------------------------------------------------- script

_ORDER = re.compile(r"\b(\d{5})\b")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_NUMBER = r"(\d{1,6}(?:\.\d{1,2})?)"
_AMOUNT = re.compile(
    rf"(?:EUR|€|\bonly|\bat most|\bjust|\bmaximum)\s*{_NUMBER}\b|\b{_NUMBER}\s*(?:EUR|€|euros?\b)", re.IGNORECASE
)
_QUOTED = re.compile(r"(?:wrote|says|because)[:,]?\s*(.+)", re.IGNORECASE | re.DOTALL)
_TOLD = re.compile(r"(?:\bthat|\bsaying|:)\s+(.+?)(?:[.!?](?:\s|$)|$)", re.IGNORECASE | re.DOTALL)
_TOPICS = (
    ("refund", re.compile(r"refund|money back|reimburse", re.IGNORECASE)),
    ("mail", re.compile(r"e-?mail|\btell\b|\bwrite to\b|\binform\b", re.IGNORECASE)),
    ("find", re.compile(r"\border\b|\bwhere\b|\bstatus\b|\b\d{5}\b", re.IGNORECASE)),
)
HELP = (
    "I am Support. I can look up an order (“Where is order 10311?”), refund one (“Refund order 10482”), and write to a"
    " customer (“Tell the customer of order 10490 that the parcel is on its way”). Orders I know: 10311, 10391, 10482,"
    " 10490."
)


def script(messages: Sequence[BaseMessage]) -> Turn:
    """Decide the next turn from what people said, newest first, and from what the calls since then gave."""
    said = wishes(messages)
    topic = next((topic for text in said for topic, pattern in _TOPICS if pattern.search(text)), "")
    order = next((int(match[1]) for text in said if (match := _ORDER.search(text))), None)
    if not topic or order is None:
        return Turn(HELP if not topic else "Which order is it about? Please name its five digits.")
    done = steps(messages)
    found = latest(done, "find_order")
    if found is None:
        return Turn(f"I look up order {order} first.", (Plan("find_order", {"order_id": order}),))
    if not found.ran:
        return Turn(f"I cannot help with order {order}: {sentence(found.text or 'I could not look it up')}")
    match topic:
        case "refund":
            return _refund(said, order, done)
        case "mail":
            return _mail(said, order, done)
        case _:
            return Turn(f"Here is what I know: {sentence(found.text)}")


def _refund(said: Sequence[str], order: int, done: Sequence[Step]) -> Turn:
    refunds = [step for step in done if step.name == "issue_refund"]
    if not refunds:
        amount = _amount(said) or _total(done)
        small = "I refund" if amount <= ASK_ABOVE else "I am sorry about this. I have asked a colleague to confirm"
        return Turn(f"{small} {amount:.2f} EUR for order {order}.", (_refund_plan(said, order, amount),))
    last = refunds[-1]
    other = _amount([last.text]) if last.outcome == "rejected" else None
    if other is not None and other != last.args.get("amount") and len(refunds) < 3:
        text = f"My first proposal was turned down: {sentence(last.text)} I propose {other:.2f} EUR instead."
        return Turn(text, (_refund_plan(said, order, other),))
    if _TOPICS[1][1].search(said[0]) and not latest(done, "send_email") and last.ran:
        return Turn("The refund is made. I write to the customer.", (_mail_plan(said, order, done, last.text),))
    mail = latest(done, "send_email")
    rest = f" {told(mail, what='the e-mail')}" if mail else ""
    return Turn(f"{told(last, what=f'the refund for order {order}')}{rest}")


def _mail(said: Sequence[str], order: int, done: Sequence[Step]) -> Turn:
    mail = latest(done, "send_email")
    if mail:
        return Turn(told(mail, what=f"the e-mail about order {order}"))
    match = _TOLD.search(said[0])
    news = match[1].strip() if match else "we are looking into it and will write again today"
    text = "I have written an e-mail. A colleague reads it before it goes."
    return Turn(text, (_mail_plan(said, order, done, news),))


def _refund_plan(said: Sequence[str], order: int, amount: float) -> Plan:
    quoted = next((match[1] for text in said if (match := _QUOTED.search(text))), "As the customer asked")
    methods: tuple[Method, ...] = ("voucher", "bank_transfer")
    method = next((name for name in methods if name.split("_")[0] in said[0].lower()), "original_card")
    note = quoted.strip().strip('"“”')[:200]
    return Plan("issue_refund", {"order_id": order, "amount": amount, "method": method, "note": note})


def _mail_plan(said: Sequence[str], order: int, done: Sequence[Step], news: str) -> Plan:
    found = latest(done, "find_order")
    known = _ADDRESS.findall(found.text if found else "") or ["customer@example.test"]
    copies = _ADDRESS.findall(said[0])
    body = f"Hello,\n\n{sentence(news)}\n\nKind regards\nSupport"
    args = {"recipient": known[0], "subject": f"Your order {order}", "body": body, "copies": copies}
    return Plan("send_email", args | {"urgent": "urgent" in said[0].lower()})


def _amount(texts: Sequence[str]) -> float | None:
    match = next((match for text in texts if (match := _AMOUNT.search(text))), None)
    return float(match[1] or match[2]) if match else None


def _total(done: Sequence[Step]) -> float:
    found = latest(done, "find_order")
    match = re.search(r"([\d.]+) EUR", found.text) if found else None
    return float(match[1]) if match else 0.0


# ---------------------------------------------------------------------------------------------------------------- agent


def needs_a_person(request: ToolCallRequest) -> bool:
    """Say whether a refund is asked about. Depends on the proposal alone: it is evaluated again on resume."""
    amount = request.tool_call["args"].get("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return True
    return not 0 <= amount <= ASK_ABOVE  # so that NaN is asked about too


def describe_refund(tool_call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> str:
    """Say in the agent's words why this refund should be made."""
    args = tool_call["args"]
    found = latest(steps(state["messages"]), "find_order")
    known = f" The order: {sentence(found.text)}" if found and found.text else ""
    return f"I would refund {args.get('amount')} EUR for order {args.get('order_id')} by {args.get('method')}.{known}"


def build() -> Graph:
    return create_agent(
        chat_model(script),
        [find_order, issue_refund, send_email],
        system_prompt="You are the support desk of a small shop. Look an order up before you act on it.",
        middleware=[
            CallCounter(),
            HumanInTheLoopMiddleware(
                {
                    "issue_refund": InterruptOnConfig(
                        allowed_decisions=["approve", "edit", "reject", "respond"],
                        description=describe_refund,
                        when=needs_a_person,
                    ),
                    "send_email": True,
                },
                description_prefix="Support wants to write to somebody outside",
            ),
            ToolTimer(),
        ],
        name="support",
    )


ENTRY = Entry(
    name="support",
    title="Support",
    description="Looks up orders, refunds them, writes to customers. Asks before refunds over 50 EUR and each e-mail.",
    version="2.4.1",
    build=build,
    openings=(
        Opening(
            "Broken lamp, order 10482",
            "Refund order 10482. The customer wrote: Shade broken, photo seen\u202e00.921",
        ),
        Opening(
            "Replacement for order 10490",
            "Tell the customer of order 10490 that the replacement is on its way. Copy to stock@example.test, urgent.",
        ),
        Opening("Where is order 10311?", "Where is order 10311?"),
    ),
)
