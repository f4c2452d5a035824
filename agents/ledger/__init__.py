"""The last gate before a tool, and the record of what ran, once.

``toolnode.install`` puts :func:`guard` innermost around the execution of every ToolNode, so what is judged here is what
would run: after edits, after every middleware. A call that people were asked about runs only with a permit for exactly
this name and these arguments, and one permit serves one execution. To refuse is to return an error message, never to
raise: an exception would cancel the sibling calls in the middle of their tools.

An execution is keyed (thread, namespace, task, call). A crash, a retry and a second resume keep the task id; a fork, a
rewind and a replay change it, and then it is another execution that needs a permit of its own.
"""

from __future__ import annotations

from agents.ledger.attempts import Attempt, checked, is_ours
from agents.ledger.gate import Ended, aguard, cancel_async, current_execution, ended, guard, in_flight

__all__ = [
    "Attempt",
    "Ended",
    "aguard",
    "cancel_async",
    "checked",
    "current_execution",
    "ended",
    "guard",
    "in_flight",
    "is_ours",
]
