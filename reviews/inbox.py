"""The questions people see: which ones a filter finds, how many, in what order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from agents.compiled import Compiled, attach
from agents.statements import NOW, select
from reviews import looks
from reviews.models import Action, Decision, Interrupt, Role, agents_for, names_for
from reviews.paging import Page, by_time, cut, first_page

AGES = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
STATUSES = ("open", "decided", "all")
FACETS_SHOWN = 8


@dataclass(frozen=True)
class Filters:
    """What the address of the inbox asks for; the names of the fields are the only keys it knows."""

    status: str = "open"
    agent: str = ""
    tool: str = ""
    thread: str = ""
    age: str = ""
    q: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """Read the filters of an address. Unknown keys and values count as not given."""
        given = {field.name: query.get(field.name, "").strip()[:200].replace("\x00", "") for field in fields(cls)}
        given["status"] = given["status"] if given["status"] in STATUSES else "open"
        given["age"] = given["age"] if given["age"] in AGES else ""
        return cls(**given)

    def address(self, **changes: str) -> str:
        """Return the query string of these filters with some of them changed; ``?`` alone for none."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | changes
        if values["status"] == "open":
            values["status"] = ""
        return "?" + urlencode({name: value for name, value in values.items() if value})

    def along(self, **more: object) -> str:
        """Return the query string that goes along from the list of what waits to a question, and on to the next one."""
        kept = {name: getattr(self, name) for name in self.narrow} if self.status == "open" else {}
        values = {**more, **kept}
        return f"?{urlencode(values)}" if values else ""

    @property
    def are_none(self) -> bool:
        """Whether they show all that waits."""
        return not self.narrow and self.status == "open"

    @property
    def narrow(self) -> list[str]:
        """Return the names of the filters that hide something."""
        return [field.name for field in fields(self) if field.name != "status" and getattr(self, field.name)]


@dataclass(frozen=True)
class Facet:
    """One link beside the list: a value, its word, how many it would show, and its address."""

    value: str
    word: str
    count: int
    address: str
    chosen: bool


def found(user: Any, filters: Filters) -> QuerySet[Interrupt]:
    """Return what ``user`` may see and ``filters`` let through.

    The open ones of one pause are one row, unless the filter looks into the question: then each is its own.
    """
    rows = matching(user, filters)
    return leaders(rows) if filters.status == "open" and not (filters.tool or filters.q) else rows


def matching(user: Any, filters: Filters) -> QuerySet[Interrupt]:
    """Return every single question that ``user`` may see and ``filters`` let through."""
    rows = Interrupt.objects.visible_to(user)
    match filters.status:
        case "open":
            rows = rows.open()
        case "decided":
            rows = rows.filter(decided_at__isnull=False)
    if filters.agent:
        rows = rows.filter(agent=filters.agent)
    if filters.tool:
        rows = rows.filter(tools__contains=f" {filters.tool} ")
    if filters.thread:
        rows = rows.filter(thread=filters.thread)
    if filters.age:
        rows = rows.filter(created_at__lte=timezone.now() - AGES[filters.age])
    for word in filters.q.split()[:8]:
        rows = rows.filter(
            Q(title__icontains=word)
            | Q(summary__icontains=word)
            | Q(tools__icontains=word)
            | Q(thread__title__icontains=word)
        )
    return rows


def leaders(rows: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
    """Leave the first open interrupt of each checkpoint: those of one pause are one row in the inbox."""
    earlier = Interrupt.objects.open().filter(
        thread=OuterRef("thread"), checkpoint_id=OuterRef("checkpoint_id"), pk__lt=OuterRef("pk")
    )
    return rows.exclude(Exists(earlier), ~Q(checkpoint_id=""))


def page(user: Any, filters: Filters, after: str) -> Page[Interrupt]:
    """Return one page of rows: open ones oldest first, others newest first, each with how much it stands for."""
    if filters.are_none and not after:
        page = cut(_OLDEST(names_for(user)))
    else:
        rows = light(found(user, filters))
        field = "created_at" if filters.status == "open" else _NEWEST[filters.status]
        page = by_time(rows, field=field, after=after, newest_first=filters.status != "open")
    complete(user, page.rows)
    return page


def complete(user: Any, rows: list[Interrupt]) -> None:
    """Set on rows of the list what their templates show beside their own columns."""
    actions: dict[int, list[Action]] = defaultdict(list)
    for action in _ACTIONS([row.pk for row in rows]):
        actions[action.interrupt_id].append(action)
    for row in rows:
        attach(row, "actions", actions[row.pk])
    count_actions(rows)
    looked_at = looks.of_others(user, rows)
    for row in rows:
        row.seen_by = looked_at.get(row.pk, [])  # type: ignore[attr-defined]


def light(rows: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
    """Fetch what a row of the list shows and nothing else: values and arguments may be megabytes."""
    return rows.select_related("agent", "thread", "decided_by").defer("value", "siblings", "response_schema")


def _waiting(agents: Any) -> QuerySet[Interrupt]:
    """Return what ``found`` finds without a filter, for a query that is written once."""
    return leaders(Interrupt.objects.open().filter(agent__any_of=agents))


_NEWEST = {"decided": "decided_at", "all": "created_at"}
_OLDEST = Compiled(lambda agents: first_page(light(_waiting(agents)), field="created_at"))
_ACTIONS = Compiled(
    lambda interrupts: (
        Action.objects.filter(interrupt__any_of=interrupts)
        .select_related("decision")
        .only("interrupt", "position", "flags", "decision__verdict")
    )
)
_PAUSES: Compiled[Any] = Compiled(
    lambda threads: (
        Interrupt.objects.open()
        .filter(thread__any_of=threads)
        .values_list("thread", "checkpoint_id")
        .annotate(Count("pk", distinct=True), Count("actions"))
    )
)
_BY_AGENT: Compiled[Any] = Compiled(
    lambda agents: (
        _waiting(agents)
        .values_list("agent", "agent__title")
        .annotate(count=Count("pk"))
        .order_by("-count", "agent__title")
    )
)
_BY_TOOLS: Compiled[Any] = Compiled(
    lambda agents: (
        Interrupt.objects.open()
        .filter(agent__any_of=agents)
        .values_list("tools")
        .annotate(count=Count("pk"))
        .order_by()
    )
)
_DECIDED_SINCE: Compiled[Any] = Compiled(
    lambda user, since: (
        Decision.objects.filter(user=user, created_at__gte=since)
        .values("user")
        .annotate(count=Count("pk"))
        .values_list("count", flat=True)
    )
)
_LATEST = Compiled(
    lambda agents: Interrupt.objects.filter(agent__any_of=agents).order_by("-pk").values_list("pk", flat=True)[:1]
)


def count_actions(rows: list[Interrupt]) -> None:
    """Set ``action_count`` and ``question_count`` on each row: of its whole pause when open, of itself otherwise.

    ``is_alarming`` says that one of the row's own values has hidden characters.
    """
    counted = _PAUSES(list({row.thread_id for row in rows}))
    totals = {(thread, checkpoint): counts for thread, checkpoint, *counts in counted}
    for row in rows:
        actions = row.actions.all()
        row.is_alarming = any("hidden_chars" in action.flags for action in actions)  # type: ignore[attr-defined]
        own = (1, len(actions))
        together = row.status == Interrupt.Status.OPEN and row.checkpoint_id != ""
        counts = totals.get((row.thread_id, row.checkpoint_id), own) if together else own
        row.question_count, row.action_count = counts  # type: ignore[attr-defined]


# What `found` finds without a filter: each page counts it, each decision goes on with it.
_WAITING = """
from reviews_interrupt i where i.status = 'open' and i.agent_id = any(%s) and (
    i.checkpoint_id = '' or not exists (
        select 1 from reviews_interrupt e where e.status = 'open' and e.thread_id = i.thread_id
        and e.checkpoint_id = i.checkpoint_id and e.id < i.id
    )
)
"""
_OPEN = f"select count(*) {_WAITING}"
_AGED = f"select {', '.join(['count(*) filter (where i.created_at <= %s)'] * len(AGES))} {_WAITING}"
_NEXT = f"""
select i.id {_WAITING} and i.held_code = '' and i.id <> %s and not exists (
    select 1 from reviews_look k where k.interrupt_id = i.id and k.user_id <> %s and k.until > $now
) order by i.created_at, i.id limit 1
"""  # noqa: S608  # parts of our own
_PLACE = f"""
with own as (select created_at, id from reviews_interrupt where id = %s),
waiting as materialized (
    select i.id, i.created_at, i.checkpoint_id <> '' and i.thread_id = %s and i.checkpoint_id = %s beside {_WAITING}
),
before as (
    select w.id, w.created_at from waiting w, own o where not w.beside and (w.created_at, w.id) < (o.created_at, o.id)
)
select (select count(*) from before), (select count(*) from waiting),
    (select id from before order by created_at desc, id desc limit 1),
    (
        select w.id from waiting w, own o where not w.beside and (w.created_at, w.id) > (o.created_at, o.id)
        and not exists (
            select 1 from reviews_look k where k.interrupt_id = w.id and k.user_id <> %s and k.until > $now
        ) order by w.created_at, w.id limit 1
    )
"""  # noqa: S608  # parts of our own
_BESIDE = """
select 1 from reviews_interrupt where thread_id = %s and checkpoint_id = %s and status = 'open' and id <> %s limit 1
"""


def open_count(user: Any, filters: Filters | None = None) -> int:
    """Return how many rows wait in the inbox of ``user``; without ``filters``, of all: each page shows that."""
    if filters is None or filters.are_none:
        return int(select(_OPEN, [names_for(user)])[0][0])
    return found(user, filters).count()


def new_count(user: Any, filters: Filters, seen: str) -> int:
    """Return how many rows came after the interrupt with the key ``seen``."""
    if not (seen.isascii() and seen.isdigit()):
        return 0
    return found(user, filters).filter(pk__gt=int(seen[:18])).count()


def newest(user: Any) -> int:
    """Return the highest key that ``user`` may see, so that a page can ask later what came after it."""
    return _LATEST.first(names_for(user)) or 0


def agent_facets(user: Any, filters: Filters) -> list[Facet]:
    wider = replace(filters, agent="")
    rows = found(user, wider).values_list("agent", "agent__title").annotate(count=Count("pk"))
    counted = _BY_AGENT(names_for(user)) if wider.are_none else rows.order_by("-count", "agent__title")
    shown = [one for place, one in enumerate(counted) if place < FACETS_SHOWN or one[0] == filters.agent]
    if filters.agent and all(one[0] != filters.agent for one in shown):
        named = agents_for(user).filter(pk=filters.agent).values_list("title", flat=True).first()
        shown.append((filters.agent, named or filters.agent, 0))  # a filter that hides everything can be taken away
    return [_facet(filters, "agent", one) for one in sorted(shown, key=lambda one: one[1])]


def tool_facets(user: Any, filters: Filters) -> list[Facet]:
    counted: Counter[str] = Counter()
    wider = replace(filters, tool="")
    rows = matching(user, wider).values_list("tools").annotate(count=Count("pk")).order_by()
    for tools, count in _BY_TOOLS(names_for(user)) if wider.are_none else rows:
        counted.update(dict.fromkeys(set(tools.split()), count))
    shown = sorted({*counted.most_common(FACETS_SHOWN), (filters.tool, counted[filters.tool])} - {("", 0)})
    return [_facet(filters, "tool", (tool, tool, count)) for tool, count in shown]


def age_facets(user: Any, filters: Filters) -> list[Facet]:
    words = {"hour": "Over an hour", "day": "Over a day"}
    wider = replace(filters, age="")
    if wider.are_none:
        ends = [connection.ops.adapt_datetimefield_value(timezone.now() - delta) for delta in AGES.values()]
        counts = dict(zip(AGES, select(_AGED, [*ends, names_for(user)])[0], strict=True))
    else:
        rows = found(user, wider)
        counts = {name: rows.filter(created_at__lte=timezone.now() - delta).count() for name, delta in AGES.items()}
    return [_facet(filters, "age", (name, words[name], count)) for name, count in counts.items()]


def _facet(filters: Filters, name: str, shown: tuple[str, str, int]) -> Facet:
    value, word, count = shown
    chosen = getattr(filters, name) == value
    return Facet(value, word, count, filters.address(**{name: "" if chosen else value}), chosen)


def next_of_pause(user: Any, interrupt: Interrupt) -> int | None:
    """Return the key of the first other question of the same pause that is open and nobody else looks at."""
    if not interrupt.checkpoint_id or not select(_BESIDE, [interrupt.thread_id, interrupt.checkpoint_id, interrupt.pk]):
        return None
    beside = Interrupt.objects.visible_to(user).open().exclude(pk=interrupt.pk)
    rows = beside.filter(thread=interrupt.thread_id, checkpoint_id=interrupt.checkpoint_id)
    return rows.filter(~looks.by_others(user)).order_by("pk").values_list("pk", flat=True).first()


def next_open(user: Any, filters: Filters, *, besides: int) -> int | None:
    """Return the key of the oldest row in the filter that ``user`` may decide and nobody else looks at.

    ``besides``: another than this one.
    """
    mine = names_for(user, Role.REVIEWER)
    if filters.are_none:
        found_next = select(_NEXT.replace("$now", NOW[connection.vendor]), [mine, besides, user.pk])
        return int(found_next[0][0]) if found_next else None
    rows = found(user, filters).filter(agent__in=mine, held_code="")
    rows = rows.filter(~looks.by_others(user))
    return rows.exclude(pk=besides).order_by("created_at", "pk").values_list("pk", flat=True).first()


def decided_today(user: Any) -> int:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    return _DECIDED_SINCE.first(user.pk, midnight) or 0


@dataclass(frozen=True)
class Place:
    """Where an open question stands in its reader's inbox; keys of the rows beside it, None at the ends.

    ``next`` passes over what somebody else looks at.
    """

    number: int
    total: int
    previous: int | None
    next: int | None


def place_of(user: Any, interrupt: Interrupt, filters: Filters) -> Place:
    """Return the place of ``interrupt`` among the open rows of the filter; of another its place by age."""
    if filters.are_none:
        own = [interrupt.pk, interrupt.thread_id, interrupt.checkpoint_id]
        sql = _PLACE.replace("$now", NOW[connection.vendor])
        [(before, total, previous, following)] = select(sql, [*own, names_for(user), user.pk])
        return Place(before + 1, total, previous, following)
    return _narrow_place(user, interrupt, filters)


def _narrow_place(user: Any, interrupt: Interrupt, filters: Filters) -> Place:
    rows = found(user, filters)
    # Compared in the database: SQLite writes its own times otherwise than the parameters that it is given.
    own = Subquery(Interrupt.objects.filter(pk=interrupt.pk).values("created_at")[:1])
    before = rows.filter(Q(created_at__lt=own) | Q(created_at=own, pk__lt=interrupt.pk))
    behind = rows.filter(Q(created_at__gt=own) | Q(created_at=own, pk__gt=interrupt.pk))
    if interrupt.checkpoint_id:
        behind = behind.exclude(thread=interrupt.thread_id, checkpoint_id=interrupt.checkpoint_id)
        before = before.exclude(thread=interrupt.thread_id, checkpoint_id=interrupt.checkpoint_id)
    return Place(
        number=before.count() + 1,
        total=rows.count(),
        previous=before.order_by("-created_at", "-pk").values_list("pk", flat=True).first(),
        next=behind.filter(~looks.by_others(user)).order_by("created_at", "pk").values_list("pk", flat=True).first(),
    )
