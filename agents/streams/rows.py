"""The rows behind a stream: numbered without gaps, under the fencing token of the run they tell of.

One statement writes what a flush holds. It reads the thread's token first, as the saver's do: a worker that lost its
thread writes nothing, and whoever holds the thread is the only one who gives numbers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from agents.compiled import Compiled
from agents.models import Run, RunEvent
from agents.outcome import Outcome, StreamEvent, canonical_bytes
from agents.statements import execute
from agents.store import Fenced
from agents.streams.events import BASES, END, ERROR, INTERRUPT, Told, clean

PAGE = 1_000  # events
PAGE_BYTES = 1_000_000
_CHUNK = 500  # rows a statement

_INSERT = """
with fence as materialized (select token from agents_thread where id = %s $share),
new (seq, kind, data) as (values $rows)
insert into agents_runevent (thread_id, run_id, seq, kind, data)
select %s, %s, seq, kind, data from new where exists (select 1 from fence where token = %s)
returning seq
"""


def last_seq(thread_id: str) -> int:
    """Return the number of a thread's newest event, 0 before its first."""
    [(last,)] = execute("select max(seq) from agents_runevent where thread_id = %s", [thread_id])
    return last or 0


def write(thread_id: str, run_id: str, *, token: int, first: int, told: Sequence[Told]) -> None:
    """Store events under the numbers from ``first``. Raises Fenced, and IntegrityError for numbers that are taken."""
    for start in range(0, len(told), _CHUNK):
        chunk = told[start : start + _CHUNK]
        share = "for share" if connection.vendor == "postgresql" else ""
        sql = _INSERT.replace("$share", share).replace("$rows", ", ".join(["(%s, %s, %s)"] * len(chunk)))
        params: list[Any] = [thread_id]
        for number, one in enumerate(chunk, first + start):
            params += [number, one.kind, canonical_bytes(one.data)]
        run_key = RunEvent._meta.get_field("run").get_db_prep_value(uuid.UUID(run_id), connection)
        with connection.cursor() as cursor:
            cursor.execute(sql, [*params, thread_id, run_key, token])
            if not cursor.fetchall():
                raise Fenced(
                    f"Run {run_id!r} tells of thread {thread_id} with token {token}, which is not the current one."
                )


def close(outcome: Outcome) -> None:
    """Tell how a run ended: what it asks, its error, its end. In the transaction that closes it, the thread locked."""
    told = [
        Told(INTERRUPT, {"lane": ask.namespace, "interrupt": ask.interrupt_id, "node": clean(ask.node)})
        for ask in outcome.asks
    ]
    if outcome.error:
        told.append(Told(ERROR, {"lane": "", "error": clean(_error(outcome))}))
    told.append(Told(END, {"lane": "", "status": outcome.status, "checkpoint": outcome.head}))
    first = last_seq(outcome.thread_id) + 1
    write(outcome.thread_id, outcome.run_id, token=outcome.token, first=first, told=told)


def _error(outcome: Outcome) -> str:
    """Return the error's words; where an agent's streams are redacted, only its kind: words may quote what was said."""
    redacts = Run.objects.filter(pk=outcome.run_id).values_list("thread__agent__redacts", flat=True).first()
    return outcome.error[:2_000] if redacts == "no" else outcome.error.partition(":")[0][:200]


# ----------------------------------------------------------------------------------------------------------------- read


@dataclass(frozen=True)
class Page:
    """Events in order, without gaps.

    ``gap``: what would come first is gone, load the thread anew. ``more``: there are others, ask again from ``last``.
    """

    events: tuple[StreamEvent, ...]
    last: int  # number of the last event of this page; of the newest one where there is none
    newest: int
    gap: bool = False

    @property
    def more(self) -> bool:
        return not self.gap and self.last < self.newest


def since(thread_id: str, after: int, *, limit: int = PAGE) -> Page:
    """Return what was told after number ``after``, as much as fits into one answer."""
    rows = RunEvent.objects.filter(thread_id=thread_id, seq__gt=after).order_by("seq")[:limit]
    events: list[StreamEvent] = []
    size = 0
    for row in rows:
        if row.seq != after + len(events) + 1 or size > PAGE_BYTES:
            break
        events.append(_event(row))
        size += len(json.dumps(row.data))
    newest = last_seq(thread_id)
    if not events and after != newest:
        return Page((), newest, newest, gap=True)
    return Page(tuple(events), events[-1].seq if events else newest, newest)


def base(thread_id: str) -> tuple[int, str | None]:
    """Return where a newcomer starts: the state at a checkpoint, and what was told after a number.

    The checkpoint is "" where nothing was stored yet, and None where no event names one: then it is the head.
    """
    data: Any  # the field's values are what was told, not its bytes
    for seq, data in _NEWEST_BASES(thread_id):
        if "checkpoint" in data:
            return seq, data["checkpoint"]
    return last_seq(thread_id), None


_NEWEST_BASES = Compiled(
    lambda thread: (
        RunEvent.objects.filter(thread=thread, kind__in=BASES).order_by("-seq").values_list("seq", "data")[:20]
    )
)


def closing(run_id: str) -> list[StreamEvent]:
    """Return how a closed run ended: its last events, from the first that ``close`` wrote."""
    return [_event(row) for row in _CLOSING(run_id)]


_CLOSING = Compiled(
    lambda run: RunEvent.objects.filter(run=run, kind__in=(INTERRUPT, ERROR, END)).order_by("seq").defer("created_at")
)


def _event(row: RunEvent) -> StreamEvent:
    return StreamEvent(row.thread_id, str(row.run_id), row.seq, row.kind, row.data)


# ---------------------------------------------------------------------------------------------------------------- prune


def prune(*, keep_seconds: float | None = None) -> int:
    """Delete events that nobody needs: of runs that ended well, so that checkpoints hold what they told, after a while.

    What a failed or cancelled run told stands nowhere else; it is kept ten times as long. Returns how many went.
    """
    keep = timedelta(seconds=settings.EVENT_SECONDS if keep_seconds is None else keep_seconds)
    held = Q(status__in=[Run.Status.SUCCESS, Run.Status.INTERRUPTED], finished_at__lt=Now() - keep)
    lost = Q(status__in=[Run.Status.ERROR, Run.Status.CANCELLED], finished_at__lt=Now() - keep * 10)
    over = Run.objects.filter(held | lost, pk=OuterRef("run_id"))
    later = RunEvent.objects.filter(thread_id=OuterRef("thread_id"), seq__gt=OuterRef("seq"))
    count, _ = RunEvent.objects.filter(Exists(over), Exists(later)).delete()
    return count
