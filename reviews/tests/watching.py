"""A browser's page of a thread, without a browser: plays what is pushed, and asks for what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.urls import reverse

from agents.outcome import MessageView, StreamEvent
from agents.tests.screen import Gap, Screen

Get = Callable[..., Any]  # (path, query) -> a response that has ``json()``


def events_of(frame: Mapping[str, Any]) -> list[StreamEvent]:
    return [
        StreamEvent(frame["thread"], event["run"], event["seq"], event["kind"], event["data"])
        for event in frame["events"]
    ]


class Page:
    """``get`` asks the desk as the page's reader. ``events`` holds what was played, in order; ``asked`` how often
    something was missing, ``reloads`` how often it had to start anew."""

    def __init__(self, get: Get, thread_id: str) -> None:
        self.get = get
        self.path = reverse("reviews:events", args=[thread_id])
        self.screen = Screen()
        self.events: list[StreamEvent] = []
        self.asked = self.reloads = 0

    @property
    def numbers(self) -> list[int]:
        return [event.seq for event in self.events]

    def load(self) -> None:
        """Start from the snapshot, and ask for the tail."""
        answer = self.get(self.path).json()
        views = [MessageView(one["id"], one["role"], one["content"], one["name"]) for one in answer["messages"]]
        self.screen = Screen.of(views, answer["last"])
        self.reloads += 1
        self.events = []
        self.ask()

    def ask(self) -> None:
        self.asked += 1
        more = True
        while more:
            answer = self.get(self.path, {"after": self.screen.seq}).json()
            if answer["gap"]:
                return self.load()
            self._play(events_of(answer))
            more = answer["more"]

    def push(self, frame: Mapping[str, Any]) -> None:
        """Take what the socket brought: events, or where the stream stands."""
        if "at" in frame:
            if next(iter(frame["at"].values())) > self.screen.seq:
                self.ask()
            return
        try:
            self._play(events_of(frame))
        except Gap:
            self.ask()

    def _play(self, events: list[StreamEvent]) -> None:
        before = self.screen.seq
        if events and self.screen.seq == 0 and events[0].seq != 1:
            raise Gap(events[0].seq)
        try:
            self.screen.play(events)
        finally:
            self.events += [event for event in events if before < event.seq <= self.screen.seq]
