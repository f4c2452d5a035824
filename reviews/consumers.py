"""The socket of a page: server to browser, hints only. Whatever a browser sends is ignored; nothing is decided here."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from autobahn.exception import Disconnected
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.contrib import auth
from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from agents import streams
from reviews import looks, stream
from reviews.live import DESK, group_of
from reviews.models import Interrupt, Look, agents_for, threads_for

log = logging.getLogger(__name__)

RECHECK_SECONDS = 30.0  # a logout or a lost right closes the socket within this time
SIGNED_OUT = 4401  # close codes: of HTTP's 401
RIGHT_LOST = 4403  # and 403; the page connects again and hears what it still may
NOT_THERE = 4404  # a thread that its reader may not see, or that is not there: the same answer
UNAVAILABLE = 1013  # try again later
AT_SECONDS = 10.0  # how often a page is told where its thread's stream stands: its last event may have been lost
MOST_WATCHED = 8  # threads a page
CLOCKS_APART = 1  # seconds between the clocks of web server and database, in which a change is named once too often
MOST_CAUGHT_UP = 100  # threads, and interrupts: a page shows no more of them

NOTHING_THERE: set[str] = {"nothing there"}  # no group's name

Handler = Callable[..., Awaitable[None]]


def _survives(handler: Handler) -> Handler:
    """Log what a handler raises: an exception would close the socket, and hints are not worth that.

    A page that is left while a hint is on its way to it is no failure.
    """

    @functools.wraps(handler)
    async def surviving(self: PageConsumer, *args: Any) -> None:
        try:
            await handler(self, *args)
        except Disconnected:
            log.debug("A page was left before its hint came.")
        except Exception:
            log.exception("A page's socket failed in %s.", handler.__name__)

    return surviving


class PageConsumer(AsyncJsonWebsocketConsumer):
    """Joins the groups of the agents that its reader may see, and looks again every RECHECK_SECONDS.

    With ``?thread=<id>`` it watches that thread too: its events come as ``{"thread", "events"}``, and
    ``{"at": {<id>: <number>}}`` says which number its stream has reached. What is missing is asked for over HTTP.
    """

    async def connect(self) -> None:
        self.joined: set[str] = set()
        self.heard: set[str] = set()  # of the joined ones: those whose hints are passed on
        self.watching: list[asyncio.Task[None]] = []
        self.threads = _named_threads(self.scope)
        self.at: dict[str, int] = {}  # thread -> number of the event that was sent last
        try:
            await self._open()
        except Exception:  # the database or the layer is away: the page says so, polls, and tries again
            log.exception("A page's socket could not be opened.")
            await self.close(code=UNAVAILABLE)

    async def _open(self) -> None:
        groups = await self._groups()
        if groups is None:
            await self.close(code=SIGNED_OUT)
            return
        if groups == NOTHING_THERE:
            await self.close(code=NOT_THERE)
            return
        await self._join(groups)
        await self.accept()
        await self.send_json({"hello": {"now": timezone.now().isoformat(), "recheck": RECHECK_SECONDS}})
        await self._catch_up()
        self.watching = [asyncio.create_task(self._watch())]
        if self.threads:
            await self._say_where()
            self.watching.append(asyncio.create_task(self._remind()))

    @_survives
    async def _catch_up(self) -> None:
        """Name what changed since the page was made: hints of the moment before its socket stood reached nobody."""
        given = parse_qs(self.scope.get("query_string", b"")).get(b"since", [b""])[0]
        if not given.isdigit() or len(given) > 12:
            return
        look = database_sync_to_async(_changed_since, thread_sensitive=False)
        if names := await look(self.scope.get("session"), int(given)):
            await self.send_json({"changed": names})

    async def disconnect(self, code: int) -> None:
        for task in self.watching:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """Ignore it, unread: this socket has one direction."""

    @_survives
    async def hints_changed(self, event: dict[str, Any]) -> None:
        # The layer may deliver what was on its way when a right was lost.
        if event["group"] in self.heard:
            await self.send_json({"changed": event["changed"]})

    @_survives
    async def stream_events(self, event: dict[str, Any]) -> None:
        if event["group"] in self.heard:
            self.at[event["thread"]] = event["last"]
            await self.send(text_data=event["frame"])

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(AT_SECONDS)
            await self._say_where()

    @_survives
    async def _say_where(self) -> None:
        """Name the newest event of each watched thread, unless it was the last one sent."""
        look = database_sync_to_async(_newest, thread_sensitive=False)
        seen = [thread for thread in self.threads if stream.group_of(thread) in self.heard]
        newest = {thread: seq for thread, seq in (await look(seen)).items() if self.at.get(thread) != seq}
        if newest:
            self.at |= newest
            await self.send_json({"at": newest})

    async def _join(self, groups: set[str]) -> None:
        for group in groups - self.joined:
            await self.channel_layer.group_add(group, self.channel_name)
            self.joined.add(group)
        self.heard = groups & self.joined

    @_survives
    async def _leave(self) -> None:
        left, self.joined, self.heard = self.joined, set(), set()
        for group in left:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            await self._recheck()

    @_survives
    async def _recheck(self) -> None:
        groups = await self._groups()
        if groups is not None and groups >= self.joined:
            await self._join(groups)
            return
        self.heard &= groups or set()
        await self.close(code=SIGNED_OUT if groups is None else RIGHT_LOST)

    async def _groups(self) -> set[str] | None:
        """Return the groups this page may be in, None when nobody is signed in (any more).

        NOTHING_THERE when it asks for a thread that its reader may not see.
        """
        # Not thread-sensitive: all sockets would stand in line for one thread.
        look = database_sync_to_async(_groups_of, thread_sensitive=False)
        groups: set[str] | None = await look(self.scope.get("session"))
        if groups is None or not self.threads:
            return groups
        see = database_sync_to_async(_may_watch, thread_sensitive=False)
        if not await see(self.scope.get("session"), self.threads):
            return NOTHING_THERE
        return groups | {stream.group_of(thread) for thread in self.threads}


def _reader(session: SessionBase | None) -> Any:
    """Return who is signed in, None for nobody (any more)."""
    if session is None or not session.session_key:
        return None
    request = HttpRequest()
    # Read anew: the socket's own copy is as old as the socket. Its class is asked for, since channels wraps it.
    request.session = session.__class__(session.session_key)
    user = auth.get_user(request)
    return user if user.is_authenticated and user.is_active else None


def _groups_of(session: SessionBase | None) -> set[str] | None:
    if (user := _reader(session)) is None:
        return None
    agents = agents_for(user).values_list("pk", flat=True)
    groups = {group_of(agent) for agent in agents}
    return groups | {DESK} if groups or user.is_superuser else set()


def _changed_since(session: SessionBase | None, moment: int) -> list[str]:
    """Return the names of what changed since ``moment`` (Unix seconds, rounded down), as hints would have named it."""
    if (user := _reader(session)) is None:
        return []
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


def _may_watch(session: SessionBase | None, threads: list[str]) -> bool:
    user = _reader(session)
    return user is not None and threads_for(user).filter(pk__in=threads).count() == len(threads)


def _newest(threads: list[str]) -> dict[str, int]:
    return {thread: streams.last_seq(thread) for thread in threads}
