"""The wire formats in which agents ask, and in which they must be answered. Pure functions: no Django, no LangGraph.

``read`` turns an interrupt's value into actions, or says why it is held. ``check`` names what is wrong with a set of
verdicts before anything is stored. ``answer`` builds the exact value that goes to LangGraph.
"""

from reviews.dialects.answering import answer, check
from reviews.dialects.proposals import (
    TOOL_DIALECTS,
    UNSET,
    VERDICTS,
    Problem,
    Proposal,
    ProposedAction,
    Refused,
    Verdict,
    action_digests,
    call_digest,
    digest_of,
    interrupt_digest,
)
from reviews.dialects.reading import read

__all__ = [
    "TOOL_DIALECTS",
    "UNSET",
    "VERDICTS",
    "Problem",
    "Proposal",
    "ProposedAction",
    "Refused",
    "Verdict",
    "action_digests",
    "answer",
    "call_digest",
    "check",
    "digest_of",
    "interrupt_digest",
    "read",
]
