"""The agents we ship. They act on local demo data, and need neither a key nor a network."""

from __future__ import annotations

from agents.catalog import (
    ask_user,
    buyer,
    frontdesk,
    hotline,
    mailroom,
    naming,
    onboarding,
    operations,
    publishing,
    release,
    rollout,
    support,
    travel,
)
from agents.catalog.entry import Entry, Opening, chat_model

__all__ = ["ENTRIES", "Entry", "Opening", "chat_model"]

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        support.ENTRY,
        operations.ENTRY,
        operations.PER_CALL,
        ask_user.ENTRY,
        release.ENTRY,
        travel.ENTRY,
        publishing.ENTRY,
        onboarding.ENTRY,
        naming.ENTRY,
        buyer.ENTRY,
        rollout.ENTRY,
        rollout.NIGHT_SHIFT,
        mailroom.ENTRY,
        frontdesk.ENTRY,
        hotline.ENTRY,
    )
}
