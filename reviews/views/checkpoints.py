"""Time travel to look at: a thread's timeline, one checkpoint of it, and what differs between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from agents import history
from agents.history import Point, UnknownCheckpoint
from agents.models import Thread
from agents.outcome import Asked, Snapshot, from_canonical
from reviews import beside, comparing, labels, talk, timeline
from reviews.models import Interrupt, Label, Role, names_for, thread_for, threads_for
from reviews.timeline import Sheet
from reviews.views.door import signed_in

SHOWN_LABELS = 50
SHOWN_BRANCHES = 20  # in the list of what can be compared with


@require_safe
@signed_in
def index(request: HttpRequest, pk: str) -> HttpResponse:
    """List a thread's checkpoints, newest first, with the tree of its branches and forks. No value is loaded."""
    thread = find_thread(request, pk)
    namespace = request.GET.get("ns", "")
    try:
        sheet = timeline.read(
            thread, namespace=namespace, before=request.GET.get("before", ""), after=request.GET.get("after", "")
        )
    except UnknownCheckpoint:
        raise Http404 from None
    if namespace and not sheet.lines:
        raise Http404
    return render(request, "checkpoints.html", _about(request, thread, sheet, namespace) | _tree(request, thread))


@require_safe
@signed_in
def show(request: HttpRequest, pk: str, checkpoint: str) -> HttpResponse:
    """Show one checkpoint beside the timeline: what it changed, compared with its parent or another; or all of it."""
    thread = find_thread(request, pk)
    namespace = request.GET.get("ns", "")
    snapshot = find_checkpoint(thread, checkpoint, namespace)
    sheet = timeline.around(thread, checkpoint, namespace=namespace, before=_cursor(request))
    context = _about(request, thread, sheet, namespace) | {
        "chosen": checkpoint,
        "snapshot": snapshot,
        "line": next(line for line in sheet.lines if line.step.point.checkpoint_id == checkpoint),
        "asked": list(_asked(thread, snapshot)),
        "may_label": labels.may_label(request.user, thread),
        "whole": request.GET.get("show") == "state",
    }
    if context["whole"]:
        context |= _state(thread, snapshot)
    else:
        context |= _difference(request, thread, snapshot)
    return render(request, "checkpoint.html", context)


@require_safe
@signed_in
def download(request: HttpRequest, pk: str, checkpoint: str) -> HttpResponse:
    """Give all that is stored of a checkpoint, as JSON. Types that nobody knows are data in it; nothing is built."""
    thread = find_thread(request, pk)
    try:
        content = history.raw_state(thread.pk, checkpoint, request.GET.get("ns", ""))
    except UnknownCheckpoint:
        raise Http404 from None
    headers = {
        "Content-Disposition": f'attachment; filename="checkpoint-{checkpoint}.json"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)


@require_safe
@signed_in
def compared(request: HttpRequest, pk: str) -> HttpResponse:
    """Show two branches or forks side by side: ``a`` (else this thread's head) and ``b``, a thread or a checkpoint."""
    thread = find_thread(request, pk)
    try:
        left = _end(request, thread, request.GET.get("a", "")) or _end(request, thread, thread.pk)
        right = _end(request, thread, request.GET.get("b", "")) or beside.other_than(thread)
        pickers = [("a", "Left", _names_of(left)), ("b", "Right", _names_of(right))]
        found = beside.beside(left, right) if left and right else None
    except UnknownCheckpoint:
        raise Http404 from None
    context = {"section": "threads", "thread": thread, "beside": found, "choices": _ends(thread), "pickers": pickers}
    return render(request, "beside.html", context)


def _end(request: HttpRequest, thread: Thread, text: str) -> Point | None:
    """Read ``<thread>:<checkpoint>``, or ``<thread>`` for its head; None for nothing, 404 for what may not be seen."""
    if not text:
        return None
    if ":" in text:
        return other_point(request, text)
    if "\0" in text or not threads_for(request.user).filter(pk=text).exists():
        raise Http404
    steps = history.timeline(text, limit=1).steps
    return steps[0].point if steps else None


def _names_of(point: Point | None) -> set[str]:
    """Return how the lists name a point: a head goes by its thread alone."""
    if point is None:
        return set()
    is_head = history.step_at(point).is_head
    return {point.thread_id if is_head else f"{point.thread_id}:{point.checkpoint_id}"}


def _ends(thread: Thread) -> list[Choice]:
    """Return what can stand on either side: heads and ends of branches of this thread and of its relatives."""
    tree = history.tree(thread.pk, limit=SHOWN_BRANCHES)
    found = [Choice(thread.pk, f"{thread.title or thread.pk}, its head", "This thread")]
    found += [
        Choice(f"{thread.pk}:{one.last}", f"Branch {one.number}, left at step {one.last_step}", "This thread")
        for one in tree.branches
        if not one.is_head
    ]
    forks = [fork for one in tree.branches for fork in one.forks]
    found += [Choice(fork.thread_id, fork.name or fork.thread_id, "Forks") for fork in forks]
    if thread.ancestor:
        found.append(Choice(thread.ancestor.pk, thread.ancestor.title or thread.ancestor.pk, "Forked from"))
        for fork in thread.ancestor.forks.exclude(pk=thread.pk).order_by("created_at")[:SHOWN_BRANCHES]:
            found.append(Choice(fork.pk, fork.title or fork.pk, "Other forks of it"))
    return found


@require_POST
@signed_in
def label(request: HttpRequest, pk: str, checkpoint: str) -> HttpResponse:
    """Give a checkpoint a name, or take one away."""
    thread = find_thread(request, pk)
    find_checkpoint(thread, checkpoint)
    place = f"{reverse('reviews:checkpoint', args=[thread.pk, checkpoint])}#labels"
    if taken := request.POST.get("remove", ""):
        row = get_object_or_404(Label, thread=thread, checkpoint_id=checkpoint, pk=taken if taken.isdigit() else 0)
        labels.remove(request.user, row)
        return redirect(place)
    try:
        labels.add(
            request.user,
            thread,
            checkpoint,
            name=request.POST.get("name", ""),
            note=request.POST.get("note", ""),
        )
    except labels.Refused as refusal:
        messages.warning(request, f"No label was kept\n{refusal}", extra_tags="wait")
    return redirect(place)


# ------------------------------------------------------------------------------------------------------------- finding


def find_thread(request: HttpRequest, pk: str) -> Thread:
    """Return a thread its reader may see; else 404."""
    thread = thread_for(request.user, pk)
    if thread is None:
        raise Http404
    return thread


def find_checkpoint(thread: Thread, checkpoint: str, namespace: str = "") -> Snapshot:
    """Return a checkpoint of this thread as it stood; 404 for one that is malformed, foreign or unknown."""
    try:
        return history.state_at(thread.pk, checkpoint, namespace)
    except UnknownCheckpoint:
        raise Http404 from None


def other_point(request: HttpRequest, text: str) -> Point:
    """Read ``<thread>:<checkpoint>``, a checkpoint of any thread that the reader may see; else 404."""
    thread_id, _, checkpoint = text.rpartition(":")
    if "\0" in text or not threads_for(request.user).filter(pk=thread_id).exists():
        raise Http404
    return Point(thread_id, checkpoint)


def _cursor(request: HttpRequest) -> str:
    """Return the page of the timeline that a link came from; one that cannot be read counts as none."""
    cursor = request.GET.get("before", "")
    return cursor if all(sign in "0123456789abcdef-" for sign in cursor) and len(cursor) <= 64 else ""


# --------------------------------------------------------------------------------------------------------------- pages


def _about(request: HttpRequest, thread: Thread, sheet: Sheet, namespace: str) -> dict[str, Any]:
    user, before = request.user, _cursor(request)
    query = f"?ns={quote(namespace, safe='')}" if namespace else f"?before={before}" if before else ""
    return {
        "section": "threads",
        "thread": thread,
        "sheet": sheet,
        "namespace": namespace,
        "query": query,
        "steps_at": reverse("reviews:checkpoints", args=[thread.pk]),
        "count": min(total := timeline.count(thread), timeline.MOST_COUNTED),
        "is_more": total > timeline.MOST_COUNTED,
        "seen": request.GET.get("seen", "") if _is_id(request.GET.get("seen", "")) else sheet.newest,
        "news": timeline.newer_than(thread, seen) if _is_id(seen := request.GET.get("seen", "")) else 0,
        "may_operate": thread.agent_id in names_for(user, Role.OPERATOR),
        "now": timezone.now(),
    }


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 64 and all(sign in "0123456789abcdef-" for sign in text)


def _tree(request: HttpRequest, thread: Thread) -> dict[str, Any]:
    before = request.GET.get("branches", "")
    tree = history.tree(thread.pk, before=int(before) if before.isdigit() and len(before) < 10 else None)
    return {
        "tree": tree,
        "limbs": timeline.limbs(tree),
        "fork_count": sum(len(branch.forks) for branch in tree.branches),
        "labels": labels.of(thread)[:SHOWN_LABELS],
    }


def _asked(thread: Thread, snapshot: Snapshot) -> Iterator[tuple[Asked, Any, Interrupt | None]]:
    """Yield the questions that were raised at a checkpoint, each with the desk's own row of it."""
    rows = Interrupt.objects.filter(thread=thread, superseded_by__isnull=True)
    known = {
        row.interrupt_id: row
        for row in rows.filter(interrupt_id__in=[one.interrupt_id for one in snapshot.asked]).defer("value")
    }
    for one in snapshot.asked:
        yield one, from_canonical(one.value), known.get(one.interrupt_id)


def _state(thread: Thread, snapshot: Snapshot) -> dict[str, Any]:
    values = from_canonical(snapshot.values)
    return {
        "talk": talk.as_it_stood(thread, snapshot.messages),
        "values": values.items() if isinstance(values, dict) else [("value", values)],
        "metadata": from_canonical(snapshot.metadata),
    }


# ------------------------------------------------------------------------------------------------------------ comparing


@dataclass(frozen=True)
class Choice:
    """A checkpoint that can be compared with."""

    value: str
    words: str
    group: str


def _difference(request: HttpRequest, thread: Thread, snapshot: Snapshot) -> dict[str, Any]:
    """Compare with the parent, or with what ``with`` names: ``head`` or ``<thread>:<checkpoint>``."""
    wanted = request.GET.get("with", "")
    parent = Point(thread.pk, snapshot.parent_id, snapshot.namespace) if snapshot.parent_id else None
    try:
        other = _other(request, thread, snapshot, wanted) if wanted else parent
        step = history.step_at(other) if other else None
        found = comparing.compare(other, snapshot)
    except UnknownCheckpoint:
        if wanted:
            raise Http404 from None
        step, found = None, comparing.compare(None, snapshot)  # the parent was pruned away
    return {
        "with": wanted,
        "other": step,
        "other_thread": Thread.objects.get(pk=step.point.thread_id) if wanted and step else None,
        "difference": found,
        "choices": [] if snapshot.namespace else _choices(thread, snapshot),
    }


def _other(request: HttpRequest, thread: Thread, snapshot: Snapshot, wanted: str) -> Point:
    if wanted != "head":
        return other_point(request, wanted if ":" in wanted else f"{thread.pk}:{wanted}")
    steps = history.timeline(thread.pk, namespace=snapshot.namespace, limit=1).steps
    return steps[0].point


def _choices(thread: Thread, snapshot: Snapshot) -> list[Choice]:
    """Return what is worth comparing with: ends of branches, forks, what a fork came from, and labelled ones."""
    tree = history.tree(thread.pk, limit=SHOWN_BRANCHES)
    found = [
        Choice(f"{thread.pk}:{one.last}", f"End of branch {one.number}, step {one.last_step}", "Branches")
        for one in tree.branches
        if len(tree.branches) > 1
    ]
    for fork in (fork for branch in tree.branches for fork in branch.forks):
        head = Thread.objects.filter(pk=fork.thread_id).values_list("head", flat=True).first()
        found.append(Choice(f"{fork.thread_id}:{head or ''}", fork.name or fork.thread_id, "Heads of forks"))
    if tree.origin:
        origin = Thread.objects.get(pk=tree.origin.thread_id)
        words = origin.title or origin.pk
        began = f"{origin.pk}:{tree.origin.checkpoint_id}"
        found.append(Choice(began, f"{words}, where this fork began", "Forked from"))
        found.append(Choice(f"{origin.pk}:{origin.head}", f"{words}, its head", "Forked from"))
    for kept in labels.of(thread)[:SHOWN_LABELS]:
        found.append(Choice(f"{thread.pk}:{kept.checkpoint_id}", kept.name, "Labelled"))
    own = f"{thread.pk}:{snapshot.checkpoint_id}"
    return [one for one in found if one.value != own and not one.value.endswith(":")]
