"""What happened on a thread, and how to start again from there: the door to it for everybody outside ``agents``.

Reading: ``conversation``, ``timeline``, ``tree``, ``state_at``, ``raw_state``, ``compare``, ``common_ancestor``.
Acting: ``fork``, ``rewind``, ``replay_head``, and before each of them ``safety_sheet``.
"""

from __future__ import annotations

from agents.afterwards import Question
from agents.branches import Branch, Fork, Stretch, Tree, common_ancestor, descent, is_ancestor, origin_of, tree
from agents.comparing import Comparison, MessageChange, ValueChange, compare
from agents.conversation import conversation, conversation_at
from agents.copies import NeedsCode
from agents.forks import fork, forked_by, replay_head, rewind, state_schema
from agents.safety import CallLine, NodeLine, SafetySheet, Standing, safety_sheet
from agents.starts import GraphChanged, Start, Unfit
from agents.states import raw_state, state_at
from agents.timeline import Nested, Page, Step, step_at, timeline
from agents.values import Point, UnknownCheckpoint, order_of

__all__ = [
    "Branch",
    "CallLine",
    "Comparison",
    "Fork",
    "GraphChanged",
    "MessageChange",
    "NeedsCode",
    "Nested",
    "NodeLine",
    "Page",
    "Point",
    "Question",
    "SafetySheet",
    "Standing",
    "Start",
    "Step",
    "Stretch",
    "Tree",
    "Unfit",
    "UnknownCheckpoint",
    "ValueChange",
    "common_ancestor",
    "compare",
    "conversation",
    "conversation_at",
    "descent",
    "fork",
    "forked_by",
    "is_ancestor",
    "order_of",
    "origin_of",
    "raw_state",
    "replay_head",
    "rewind",
    "safety_sheet",
    "state_at",
    "state_schema",
    "step_at",
    "timeline",
    "tree",
]
