"""The socket of a page: server to browser, hints only. Whatever a browser sends is ignored; nothing is decided here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.contrib import auth
from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from agents.models import Thread
from reviews import looks, stream
from reviews.hub import hub
from reviews.lines import Line
from reviews.live import DESK, group_of
from reviews.models import Interrupt, Look, names_for, threads_for
from reviews.reminders import newest, reminders

log = logging.getLogger(__name__)

RECHECK_SECONDS = 30.0  # a logout or a lost right closes the socket within this time
SIGNED_OUT = 4401  # close codes: of HTTP's 401
RIGHT_LOST = 4403  # and 403; the page connects again and hears what it still may
NOT_THERE = 4404  # a thread that its reader may not see, or that is not there: the same answer
UNAVAILABLE = 1013  # try again later
MOST_WATCHED = 8  # threads a page
CLOCKS_APART = 1  # seconds between the clocks of web server and database, in which a change is named once too often
MOST_CAUGHT_UP = 100  # threads, and interrupts: a page shows no more of them

NOTHING_THERE: set[str] = {"nothing there"}  # no group's name


class PageConsumer(AsyncJsonWebsocketConsumer):
    """Joins the groups of the agents that its reader may see, and looks again every RECHECK_SECONDS.

    With ``?thread=<id>`` it watches that thread too: its events come as ``{"thread", "events"}``, and
    ``{"at": {<id>: <number>}}`` says which number its stream has reached. What is missing is asked for over HTTP.
    """

    channel_layer_alias = ""  # it has no channel of its own in the layer; the process's hub has one for all

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.joined: set[str] = set()
        self.heard: set[str] = set()  # of the joined ones: those whose messages are passed on
        self.threads = _named_threads(scope)
        self.at: dict[str, int] = {}  # thread -> number of the event that was sent last
        self.line = Line(self.send)
        self.watching: asyncio.Task[None] | None = None
        try:
            await super().__call__(scope, receive, send)
        finally:  # however it ends: nobody else would take it out of the hub
            await self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Leave what a browser sends unread: this socket has one direction."""
        if message["type"] != "websocket.receive":
            await super().dispatch(message)

    # ------------------------------------------------------------------------------------------------ it comes, it goes

    async def connect(self) -> None:
        try:
            await self._open()
        except Exception:  # the database or the layer is away: the page says so, polls, and tries again
            log.exception("A page's socket could not be opened.")
            await self.close(code=UNAVAILABLE)

    async def _open(self) -> None:
        user, groups = await self._groups()
        if groups is None:
            await self.close(code=SIGNED_OUT)
            return
        if groups == NOTHING_THERE:
            await self.close(code=NOT_THERE)
            return
        await self._join(groups)
        await self.accept()
        await self.send_json({"hello": {"now": timezone.now().isoformat(), "recheck": RECHECK_SECONDS}})
        await self._catch_up(user)
        reminders().add(self.threads, self)
        self.line.begin()
        self.watching = asyncio.create_task(self._watch())

    async def _catch_up(self, user: Any) -> None:
        """Name what changed since the page was made, and where its threads stand: nobody told it of that moment."""
        given = parse_qs(self.scope.get("query_string", b"")).get(b"since", [b""])[0]
        since = int(given) if given.isdigit() and len(given) <= 12 else None
        look = database_sync_to_async(_missed, thread_sensitive=False)
        try:
            names, standing = await look(user, since, self.threads)
        except Exception:
            log.exception("A page's socket cannot say what came before it.")
            return
        if names:
            self.line.names(names)
        for thread, seq in standing.items():
            self.at[thread] = max(seq, self.at.get(thread, 0))  # it may have heard of a newer one already
            self.line.at(thread, self.at[thread])

    async def disconnect(self, code: int) -> None:
        await self._leave()

    async def _leave(self) -> None:
        left, self.joined, self.heard = self.joined, set(), set()
        reminders().remove(self.threads, self)
        for task in filter(None, [self.watching]):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.line.end()
        for group in left:
            try:
                await hub().leave(group, self)
            except Exception:
                log.warning("The channel layer did not let a page leave %s.", group, exc_info=True)

    # ---------------------------------------------------------------------------------------------------- what it hears

    def hear(self, message: dict[str, Any]) -> None:
        """Pass on a message of the hub. The layer may deliver what was on its way when a right was lost."""
        if message["group"] not in self.heard:
            return
        if "frame" in message:
            frame = stream.Frame(*message["frame"])
            self.at[frame.thread] = frame.last
            self.line.frame(frame)
        else:
            self.line.names(message["changed"])

    def stands(self, thread: str, seq: int) -> None:
        """Name the newest event of a watched thread, unless it was the last one sent."""
        if self.at.get(thread) != seq and stream.group_of(thread) in self.heard:
            self.at[thread] = seq
            self.line.at(thread, seq)

    # ------------------------------------------------------------------------------------------------- what it may hear

    async def _join(self, groups: set[str]) -> None:
        for group in groups - self.joined:
            await hub().join(group, self)
            self.joined.add(group)
        self.heard = groups & self.joined

    async def _watch(self) -> None:
        while True:
            # Not all at once, after a restart brought all pages back in one moment.
            await asyncio.sleep(RECHECK_SECONDS * random.uniform(0.5, 1))  # noqa: S311
            try:
                await self._recheck()
            except Exception:
                log.exception("A page's rights could not be looked at again.")

    async def _recheck(self) -> None:
        _, groups = await self._groups()
        if groups is not None and groups >= self.joined:
            await self._join(groups)
            return
        self.heard &= groups or set()
        self.line.clear()
        await self.close(code=SIGNED_OUT if groups is None else RIGHT_LOST)

    async def _groups(self) -> tuple[Any, set[str] | None]:
        """Return the reader and the groups this page may be in; None when nobody is signed in (any more).

        NOTHING_THERE when it asks for a thread that its reader may not see.
        """
        # Not thread-sensitive: all sockets would stand in line for one thread.
        look = database_sync_to_async(_groups_of, thread_sensitive=False)
        found: tuple[Any, set[str] | None] = await look(self.scope.get("session"), self.threads)
        return found


def _reader(session: SessionBase | None) -> Any:
    """Return who is signed in, None for nobody (any more)."""
    if session is None or not session.session_key:
        return None
    request = HttpRequest()
    # Read anew: the socket's own copy is as old as the socket. Its class is asked for, since channels wraps it.
    request.session = session.__class__(session.session_key)
    user = auth.get_user(request)
    return user if user.is_authenticated and user.is_active else None


def _groups_of(session: SessionBase | None, threads: list[str]) -> tuple[Any, set[str] | None]:
    if (user := _reader(session)) is None:
        return None, None
    agents = names_for(user)
    if threads and Thread.objects.filter(pk__in=threads, agent__in=agents).count() < len(threads):
        return user, NOTHING_THERE
    groups = {group_of(agent) for agent in agents} | {stream.group_of(thread) for thread in threads}
    return user, groups | {DESK} if groups or user.is_superuser else set()


def _missed(user: Any, since: int | None, threads: list[str]) -> tuple[list[str], dict[str, int]]:
    """Return what changed since a moment, and where threads stand."""
    names = [] if since is None else _changed_since(user, since)
    return names, newest(threads) if threads else {}


def _changed_since(user: Any, moment: int) -> list[str]:
    """Return the names of what changed since ``moment`` (Unix seconds, rounded down), as hints would have named it."""
    since = datetime.fromtimestamp(moment - CLOCKS_APART, UTC)
    threads = threads_for(user).filter(updated_at__gte=since).order_by("-updated_at")
    newer = Q()
    for when in ("created_at", "decided_at", "applied_at", "withdrawn_at"):
        newer |= Q(**{f"{when}__gte": since})
    rows = Interrupt.objects.visible_to(user).filter(newer).order_by("-pk")
    names = [f"thread-{pk}" for pk in threads.values_list("pk", flat=True)[:MOST_CAUGHT_UP]]
    found = list(rows.values_list("pk", flat=True)[:MOST_CAUGHT_UP])
    names += [f"{kind}-{pk}" for pk in found for kind in ("inbox", "interrupt")]
    marks = Look.objects.visible_to(user).exclude(user=user).filter(until__gte=since + timedelta(seconds=looks.SECONDS))
    names += [f"look-{pk}" for pk in marks.values_list("interrupt", flat=True)[:MOST_CAUGHT_UP]]
    return [*names, "threads", *(["inbox"] if found else [])] if names else []


def _named_threads(scope: dict[str, Any]) -> list[str]:
    named = parse_qs(scope.get("query_string", b"")).get(b"thread", [])
    return [name.decode("utf-8", "replace").replace("\0", "") for name in dict.fromkeys(named)][:MOST_WATCHED]
