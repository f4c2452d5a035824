"""Each wire format of one call through each verdict that it allows, by real clicks; then what the graph got.

That of ``per_call`` stands in ``test_kinds``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from reviews.tests.browser.people import Person

ASKED = {"amount": 5}
EDITED = {"amount": 7}
WHY, RESULT = "Repair first.", "Paid by hand."
ALL = ["approve", "edit", "reject", "respond"]
INBOX = {"allow_accept": True, "allow_edit": True, "allow_ignore": True, "allow_respond": True}

VALUES: dict[str, Any] = {
    "hitl": {
        "action_requests": [{"name": "pay", "args": ASKED, "description": "Pays."}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": ALL}],
    },
    "hitl_early": {
        "action_requests": [{"name": "pay", "arguments": ASKED}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": ALL[:3], "description": "Pays."}],
    },
    "hitl_js": {
        "actionRequests": [{"name": "pay", "args": ASKED, "description": "Pays."}],
        "reviewConfigs": [{"actionName": "pay", "allowedDecisions": ALL[:3]}],
    },
    "agent_inbox": [{"action_request": {"action": "pay", "args": ASKED}, "config": INBOX, "description": "Pays."}],
}
HITL = {
    "approve": {"type": "approve"},
    "edit": {"type": "edit", "edited_action": {"name": "pay", "args": EDITED}},
    "reject": {"type": "reject", "message": WHY},
    "respond": {"type": "respond", "message": RESULT},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "hitl": {verdict: {"decisions": [one]} for verdict, one in HITL.items()},
    "hitl_early": {
        **{verdict: {"decisions": [HITL[verdict]]} for verdict in ("approve", "reject")},
        "edit": {"decisions": [{"type": "edit", "edited_action": {"name": "pay", "arguments": EDITED}}]},
    },
    "hitl_js": {
        **{verdict: {"decisions": [HITL[verdict]]} for verdict in ("approve", "reject")},
        "edit": {"decisions": [{"type": "edit", "editedAction": {"name": "pay", "args": EDITED}}]},
    },
    "agent_inbox": {
        "approve": [{"type": "accept", "args": None}],
        "edit": [{"type": "edit", "args": {"action": "pay", "args": EDITED}}],
        "reject": [{"type": "ignore", "args": None}],
        "respond": [{"type": "response", "args": RESULT}],
    },
}


def give(person: Person, dialect: str, verdict: str) -> None:
    match verdict:
        case "approve":
            person.press("Run as asked")
        case "edit":
            person.change("amount", "7")
            person.press("Run with my change")
        case "reject" if dialect == "agent_inbox":  # it takes no reason along
            person.press("Ignore")
        case "reject":
            person.box("Reject with feedback").get_by_role("textbox").fill(WHY)
            person.press(re.compile("^Reject and tell"))
        case "respond":
            person.box("Respond in its place").get_by_role("textbox").fill(RESULT)
            person.press("Give this as the result")


@pytest.mark.parametrize(("dialect", "verdict"), [(name, one) for name, given in ANSWERS.items() for one in given])
def test_the_graph_gets_the_answer_in_its_own_format(ann: Person, dialect: str, verdict: str) -> None:
    thread = ann.start("parrot", json.dumps(VALUES[dialect]))
    page = ann.take_up(thread)
    verbs = page.get_by_role("region", name=re.compile("(Approve|Reject|Ignore|Respond)"))
    assert verbs.count() == len({*ANSWERS[dialect]} - {"edit"})
    give(ann, dialect, verdict)
    ann.see_recorded()
    ann.watch(thread)
    assert ann.desk.effects(thread) == [("answer", {"answer": ANSWERS[dialect][verdict]})]
