"""What the sample agents import from a folder that their langgraph.json names."""

from __future__ import annotations


def price(amount: int) -> str:
    return f"{amount} crowns"
