"""The durable stream of a thread: LangGraph's parts become numbered events that no reader loses or doubles."""

from __future__ import annotations

from agents.streams.events import Told, cleaned, plain
from agents.streams.recorder import Recorder
from agents.streams.rows import Page, base, close, closing, last_seq, prune, since

__all__ = ["Page", "Recorder", "Told", "base", "cleaned", "close", "closing", "last_seq", "plain", "prune", "since"]
