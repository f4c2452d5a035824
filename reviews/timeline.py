"""The checkpoints of a thread as people read them: what each step did, who decided at it, where branches begin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from agents import history
from agents.compiled import Compiled, attach
from agents.history import Fork, Nested, Page, Point, Step, Tree
from agents.models import Checkpoint, Run, Thread
from agents.statements import select
from reviews.models import Decision, Interrupt, Label
from reviews.people import name_of
from reviews.talk import ICONS, VERDICT_WORDS
from reviews.tracks import Knot, Track, tracks

PAGE = 50
MOST_COUNTED = 1000  # checkpoints that are counted for the head of the page
MOST_INNER = 200  # checkpoints of subgraphs that fold out on one page


@dataclass(frozen=True)
class Mark:
    """What people have to do with a step: it asks, or somebody decided. ``tone``: wait, ink, or "" for nobody's."""

    tone: str
    words: str
    icon: str = ""
    pk: int | None = None  # of the interrupt


@dataclass(frozen=True)
class InnerStep:
    """A checkpoint of a subgraph. ``next``: names of the nodes that were due."""

    checkpoint_id: str
    step: int | None
    source: str
    next: str
    messages: int | None
    at: datetime


@dataclass(frozen=True)
class Inner:
    """The steps of a subgraph that ran in a step. ``left_out``: how many more there are."""

    nested: Nested
    steps: tuple[InnerStep, ...]

    @property
    def left_out(self) -> int:
        return self.nested.count - len(self.steps)


@dataclass(frozen=True)
class Line:
    """One row. ``title`` is the desk's own words; ``name`` a name out of the agent's code, shown as such."""

    step: Step
    title: str
    name: str
    track: Track
    marks: tuple[Mark, ...] = ()
    inner: tuple[Inner, ...] = ()
    labels: tuple[Label, ...] = ()

    @property
    def dot(self) -> str:
        """The colour of its dot: amber waits for a person, ink shows that one decided or began a branch here."""
        tones = {mark.tone for mark in self.marks}
        return "wait" if "wait" in tones else "ink" if "ink" in tones else ""

    @property
    def is_start(self) -> bool:
        """Whether somebody began here: a fork, or a branch."""
        return self.step.source == "fork" or bool(self.step.left)

    @property
    def folds(self) -> bool:
        """Whether rows follow under it: forks, or the steps of a subgraph."""
        return bool(self.inner or self.step.forks)


@dataclass(frozen=True)
class Sheet:
    """One page of rows, newest first; cursors as in history.Page."""

    lines: tuple[Line, ...]
    older: str
    newer: str

    @property
    def newest(self) -> str:
        return self.lines[0].step.point.checkpoint_id if self.lines else ""


def read(thread: Thread, *, namespace: str = "", before: str = "", after: str = "", at: str = "") -> Sheet:
    """Return a page of a thread's timeline; no value of any checkpoint is loaded. Raises UnknownCheckpoint."""
    page = history.timeline(thread.pk, before=before, after=after, at=at, limit=PAGE, namespace=namespace)
    reading = _Reading(thread, namespace, page)
    drawn = tracks([reading.knot(step) for step in page.steps], above=_above(thread, namespace, page))
    lines = tuple(reading.line(step, track) for step, track in zip(page.steps, drawn, strict=True))
    return Sheet(lines, page.older, page.newer)


def around(thread: Thread, checkpoint_id: str, *, namespace: str = "", before: str = "") -> Sheet:
    """Return the page that shows a checkpoint: the one that ``before`` leads to, the first, else from it on."""
    for cursor in dict.fromkeys([before, ""]):
        if not _is_on_page(Point(thread.pk, checkpoint_id, namespace), cursor):
            continue
        sheet = read(thread, namespace=namespace, before=cursor)
        if any(line.step.point.checkpoint_id == checkpoint_id for line in sheet.lines):  # it was not pushed off since
            return sheet
    return read(thread, namespace=namespace, at=checkpoint_id)


def _is_on_page(point: Point, before: str) -> bool:
    """Tell whether the page that ``before`` leads to shows a checkpoint, by counting those between."""
    order, top = history.order_of(point), history.order_of(replace(point, checkpoint_id=before)) if before else None
    if order is None or (before and (top is None or order >= top)):
        return False
    between = Checkpoint.objects.filter(thread=point.thread_id, ns=point.namespace, pk__gt=order)
    return (between.filter(pk__lt=top) if before else between).order_by("pk").values("pk")[:PAGE].count() < PAGE


def count(thread: Thread) -> int:
    """Return how many checkpoints a thread has, MOST_COUNTED + 1 for more than that."""
    sql = """
    select count(*) from (select 1 from agents_checkpoint where thread_id = %s and ns = '' limit %s) as counted
    """
    return int(select(sql, [thread.pk, MOST_COUNTED + 1])[0][0])


def newer_than(thread: Thread, seen: str, *, namespace: str = "") -> int:
    """Return how many checkpoints came after ``seen``, capped as ``count``."""
    order = history.order_of(history.Point(thread.pk, seen, namespace))
    rows = Checkpoint.objects.filter(thread=thread, ns=namespace, pk__gt=order or 0)
    return rows.order_by("pk").values("pk")[: MOST_COUNTED + 1].count()


def line_of(thread: Thread, step: Step) -> Line:
    """Return one step as its row would show it, without the lines of the others."""
    reading = _Reading(thread, step.point.namespace, Page((step,)))
    return reading.line(step, tracks([reading.knot(step)])[0])


def _above(thread: Thread, namespace: str, page: Page) -> list[Knot]:
    """Return what comes down to a page from newer ones: the row before its first, and the branches that begin there."""
    if not page.newer or not page.steps or namespace:
        return []
    first, last = page.steps[0], page.steps[-1]
    top, bottom = first.point.checkpoint_id, last.point.checkpoint_id
    found = [
        Knot(branch.first, branch.parent_id, _ink(branch.number))
        for branch in history.tree(thread.pk).branches
        if branch.first > top and branch.parent_id and bottom <= branch.parent_id <= top
    ]
    goes_on = history.timeline(thread.pk, after=top, limit=1).steps
    return [Knot(one.point.checkpoint_id, one.parent_id, _ink(one.branch)) for one in goes_on] + found


def _ink(branch: int) -> Any:
    return "ink" if branch else ""


# ----------------------------------------------------------------------------------------------------- one page's rows


_CALLS = """
select checkpoint_id, name from agents_toolexecution
where thread_id = %s and namespace = %s and checkpoint_id = any(%s) and calls > 0 order by started_at, id
"""


# What folds out under the rows.
_INNER: Compiled[Any] = Compiled(
    lambda thread, outer, namespaces: (
        Checkpoint.objects.filter(thread=thread, outer_id__any_of=outer, ns__any_of=namespaces)
        .order_by("-pk")
        .values_list("ns", "checkpoint_id", "metadata", "next_nodes", "messages", "created_at")[:MOST_INNER]
    )
)


class _Reading:
    """What a fixed number of queries tells about the steps of a page."""

    def __init__(self, thread: Thread, namespace: str, page: Page) -> None:
        self.thread, self.namespace, self.steps = thread, namespace, page.steps
        self.ids = [step.point.checkpoint_id for step in page.steps]
        self.questions = {} if namespace else questions_at(thread, self.ids)
        self.calls = self._calls()
        self.authors = _authors({step.run_id for step in page.steps if step.source in ("input", "update", "fork")})
        self.inner = self._inner()
        self.labels = labels_at(thread, self.ids)

    def knot(self, step: Step) -> Knot:
        return Knot(step.point.checkpoint_id, step.parent_id, _ink(step.branch))

    def line(self, step: Step, track: Track) -> Line:
        key = step.point.checkpoint_id
        asked = self.questions.get(key, [])
        title, name = self._title(step, asked)
        return Line(
            step,
            title,
            name,
            track,
            marks=tuple(_marks(step, asked)),
            inner=tuple(Inner(one, tuple(self.inner.get(one.namespace, ()))) for one in step.nested),
            labels=tuple(self.labels.get(key, ())),
        )

    def _title(self, step: Step, asked: Sequence[Interrupt]) -> tuple[str, str]:
        """Say what a step is: in our words, and with the name of what ran. Nothing of an agent's or outsider's text."""
        author = self.authors.get(step.run_id, "")
        match step.source:
            case "input":
                return (f"Message by {author}" if author else "Input"), ""
            case "update":
                return (f"Changed by {author}" if author else "Changed from outside"), ""
            case "fork":
                return _beginning(step, author), ""
        if asked:
            return f"Asks: {asked[0].title}", ""
        if ran := self.calls.get(step.parent_id):
            return "Ran", ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in ran.items())
        if step.nodes == ("__start__",):
            return "Takes the input in", ""
        return ("", ", ".join(step.nodes)) if step.nodes else ("Step", "")

    def _calls(self) -> Mapping[str, Mapping[str, int]]:
        """Map checkpoints to the tools that were called in their next step, with how often."""
        parents = {step.parent_id for step in self.steps} - {""}
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for checkpoint_id, name in select(_CALLS, [self.thread.pk, self.namespace, list(parents)]):
            found[checkpoint_id][name] = found[checkpoint_id].get(name, 0) + 1
        return found

    def _inner(self) -> Mapping[str, list[InnerStep]]:
        """Map namespaces to the steps of the subgraphs that ran in these steps, newest first."""
        namespaces = [one.namespace for step in self.steps for one in step.nested]
        if not namespaces:
            return {}
        found: dict[str, list[InnerStep]] = defaultdict(list)
        for ns, pk, metadata, next_nodes, *rest in _INNER(self.thread.pk, self.ids, namespaces):
            source, due = str(metadata.get("source", "")), next_nodes.replace("|", ", ")
            found[ns].append(InnerStep(pk, metadata.get("step"), source, due, *rest))
        return found


def _beginning(step: Step, author: str) -> str:
    if not step.parent_id:
        return "Start of this fork"
    return f"Taken up again by {author}" if author else "Taken up again"


def _marks(step: Step, asked: Sequence[Interrupt]) -> Iterable[Mark]:
    for row in asked:
        yield mark_of(row)
    if step.asked and not asked:
        words = "answered" if step.answered == step.asked else "asked"
        yield Mark("wait" if step.is_head and words == "asked" else "", words, "question")


def mark_of(row: Interrupt) -> Mark:
    """Say what became of a question. ``row`` is one of ``with_decisions``."""
    match row.status:
        case Interrupt.Status.OPEN:
            return Mark("wait", "held" if row.held_code else "open question", pk=row.pk)
        case Interrupt.Status.WITHDRAWN:
            return Mark("", "withdrawn", "question", row.pk)
    made = [decision for action in row.actions.all() if (decision := getattr(action, "decision", None))]
    if not made:
        return Mark("ink", "decided", "check", row.pk)
    words = {VERDICT_WORDS.get(decision.verdict, decision.verdict) for decision in made}
    said = words.pop() if len(words) == 1 else "decided"
    icon = ICONS.get(made[0].verdict, "check") if said != "decided" else "check"
    return Mark("ink", f"{name_of(row.decided_by)} {said}", icon, row.pk)


def questions_at(thread: Thread, checkpoint_ids: Iterable[str]) -> Mapping[str, list[Interrupt]]:
    """Map checkpoints to the questions that were asked there: of each the newest version, with its decisions."""
    found: dict[str, list[Interrupt]] = defaultdict(list)
    for row in with_decisions(_ASKED_AT(thread.pk, list(checkpoint_ids))):
        found[row.checkpoint_id].append(row)
    return found


def newest_versions() -> QuerySet[Interrupt]:
    """Return questions as a list shows them, without what was asked as a whole; of each the newest version."""
    return (
        Interrupt.objects.filter(superseded_by__isnull=True)
        .select_related("decided_by")
        .defer("value", "siblings", "response_schema")
        .order_by("pk")
    )


_ASKED_AT = Compiled(lambda thread, ids: newest_versions().filter(thread=thread, checkpoint_id__any_of=ids))
_DECISIONS = Compiled(
    lambda interrupts: (
        Decision.objects.filter(action__interrupt__any_of=interrupts)
        .select_related("action", "user")
        .only("verdict", "user", "action__interrupt", "action__position")
        .order_by("action__position")
    )
)


def with_decisions(rows: list[Interrupt]) -> list[Interrupt]:
    """Return ``newest_versions``, each with its decisions, without its arguments."""
    made: dict[int, list[Any]] = defaultdict(list)
    for decision in _DECISIONS([row.pk for row in rows]) if rows else ():
        made[decision.action.interrupt_id].append(decision.action)
        decision.action.decision = decision
    for row in rows:
        attach(row, "actions", made[row.pk])
    return rows


def labels_at(thread: Thread, checkpoint_ids: Iterable[str]) -> Mapping[str, list[Label]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for label in _LABELS_AT(thread.pk, list(checkpoint_ids)):
        found[label.checkpoint_id].append(label)
    return found


_LABELS_AT = Compiled(
    lambda thread, ids: (
        Label.objects.filter(thread=thread, checkpoint_id__any_of=ids).select_related("author").order_by("pk")
    )
)
_AUTHORS = Compiled(lambda ids: Run.objects.filter(pk__any_of=ids).values_list("pk", "author"))


def _authors(run_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the authors of runs. What another client wrote may bear ids that are none of ours."""
    ours = [one for one in run_ids if _is_uuid(one)]
    return {str(pk): author for pk, author in _AUTHORS(ours)} if ours else {}


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------------------------------- branches and forks


@dataclass(frozen=True)
class Limb:
    """A row of the tree: a branch of the thread, or a thread that was forked from it."""

    track: Track
    number: int
    checkpoint_id: str  # where a branch ends, or a fork begins
    first_step: int | None = None
    last_step: int | None = None
    is_head: bool = False
    fork: Fork | None = None
    span: timedelta | None = None
    began_at: Any = None


def limbs(tree: Tree) -> list[Limb]:
    """Return the tree of a thread as rows, newest first: each branch with the forks that leave it above it."""
    rows: list[tuple[Knot, Limb]] = []
    blank = tracks([Knot("", "")])[0]
    for branch in tree.branches:
        for fork in reversed(branch.forks):
            knot = Knot(f"fork {fork.thread_id}", f"branch {branch.number}", "ink")
            rows.append((knot, Limb(blank, branch.number, fork.checkpoint_id, fork=fork, began_at=fork.at)))
        parent = f"branch {branch.parent}" if branch.parent is not None else ""
        limb = Limb(
            blank,
            branch.number,
            branch.last,
            branch.first_step,
            branch.last_step,
            branch.is_head,
            span=branch.ended_at - branch.began_at if branch.ended_at and branch.began_at else None,
            began_at=branch.began_at,
        )
        rows.append((Knot(f"branch {branch.number}", parent, _ink(branch.number)), limb))
    drawn = tracks([knot for knot, _ in rows])
    return [replace(limb, track=track) for (_, limb), track in zip(rows, drawn, strict=True)]
