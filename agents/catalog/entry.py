"""What the catalog says about each agent, and the one place where its model is chosen."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from agents.testing import Script, ScriptedChatModel

Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class Opening:
    """A message with which a demo thread begins. ``text`` is the thread's title, ``say`` the message itself."""

    text: str
    say: str


@dataclass(frozen=True)
class Entry:
    """One agent that we ship. ``build`` compiles its graph without a checkpointer; the registry attaches that."""

    name: str
    title: str
    description: str
    version: str
    build: Callable[[], Graph]
    openings: tuple[Opening, ...]


def chat_model(script: Script, *, repeat_ids: bool = False) -> BaseChatModel:
    """Return the model that ``AGENT_MODEL`` names: ``scripted`` follows ``script``, anything else is a real one.

    ``AGENT_WORD_DELAY`` is the scripted model's pause before each word, in seconds.
    """
    name = _setting("AGENT_MODEL", "scripted")
    if name == "scripted":
        return ScriptedChatModel(script=script, repeat_ids=repeat_ids, delay=float(_setting("AGENT_WORD_DELAY", "0")))
    return init_chat_model(name)


def _setting(name: str, default: str) -> str:
    """Read Django's setting where Django is in use, else the environment."""
    in_django = settings.configured or "DJANGO_SETTINGS_MODULE" in os.environ
    value = getattr(settings, name, None) if in_django else None
    return str(value if value is not None else os.environ.get(name, default))
