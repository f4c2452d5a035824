"""Travel: a plain graph whose question says what an answer must look like (``response_schema``)."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from langgraph.graph import END, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from agents import demo
from agents.catalog.entry import Entry, Graph, Opening
from agents.catalog.plain import front_door, say, wish
from agents.catalog.toolkit import origin

INTRODUCTION = "I am Travel. Tell me about a trip (“Book Lisbon for the spring meeting”); I ask for the rest."


class Trip(BaseModel):
    """The details of one trip."""

    city: Literal["Berlin", "Lisbon", "Oslo"] = Field(description="Where to")
    departure: date = Field(description="First day of the trip")
    nights: int = Field(ge=1, le=14, description="How many nights, 1 to 14")
    budget: float = Field(default=900, ge=0, le=3000, description="All in all, in EUR, up to 3000")
    seat: Literal["aisle", "window"] = Field(default="aisle", description="Which seat")
    companions: list[str] = Field(default_factory=list, max_length=4, description="Who comes along, up to 4 names")
    send_itinerary: bool = Field(default=True, description="Send the itinerary by e-mail")
    remarks: str | None = Field(default=None, max_length=300, description="Anything else, up to 300 characters")


class TravelState(MessagesState):
    trip: dict[str, Any]


def ask(state: TravelState) -> dict[str, Any]:
    question = {"question": "Please fill in the details of this trip.", "wish": wish(state)}
    # As plain data: the checkpoint would hand an object back as a dict anyway.
    return {"trip": interrupt(question, response_schema=Trip).model_dump(mode="json")}


def book(state: TravelState, runtime: Runtime[Any]) -> dict[str, Any]:
    trip = state["trip"]
    demo.record("booking", trip, origin=origin(runtime), once=True)
    text = f"Booked {trip['city']} from {trip['departure']} for {trip['nights']} nights, {trip['seat']} seat."
    return say(state, text, speaker="book")


def build() -> Graph:
    builder = StateGraph(TravelState)
    builder.add_node("ask", ask)
    builder.add_node("book", book)
    front_door(builder, first="ask", introduction=INTRODUCTION)
    builder.add_edge("ask", "book")
    builder.add_edge("book", END)
    return builder.compile(name="travel")


ENTRY = Entry(
    name="travel",
    title="Travel",
    description="A plain graph that asks with a form: its question carries the schema of the answer.",
    version="1.2.0",
    build=build,
    openings=(Opening("Trip to the spring meeting", "Book the trip to the spring meeting in Lisbon."),),
)
