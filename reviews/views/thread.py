"""Threads: the list, one conversation with its queue, and what an operator does there."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from agents import history, runs, streams
from agents.compiled import Compiled
from agents.models import Agent, Run, Thread
from agents.queue import WARN_ABOVE
from agents.statements import select
from agents.streams import standing
from reviews import forks, labels, questions, talk, threads
from reviews.models import Interrupt, Role, agents_for, names_for, thread_for, threads_for
from reviews.paging import by_time
from reviews.people import roles_of
from reviews.views.door import is_fragment, signed_in

SHOWN_RUNS = 5
STRATEGIES = (
    ("enqueue", "queue it"),
    ("reject", "refuse it"),
    ("interrupt", "stop the run and keep what it did"),
    ("rollback", "stop the run and undo it"),
)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List threads, newest first; or start one."""
    if request.method == "POST":
        return _start(request)
    return _list(request)


def _list(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    user, chosen = request.user, request.GET.get("status", "")
    rows = threads_for(user).select_related("agent")
    agent = request.GET.get("agent", "")[:100].replace("\x00", "")
    if agent:
        rows = rows.filter(agent=agent)
    if chosen in Thread.Status.values:
        rows = rows.filter(status=chosen)
    typed = request.POST if request.method == "POST" else request.session.pop("typed_message", {})
    context = {
        "section": "threads",
        "page": by_time(rows, field="updated_at", after=request.GET.get("after", ""), newest_first=True),
        "total": rows.count(),
        "agents": agents_for(user).order_by("title"),
        "startable": agents_for(user, Role.OPERATOR).filter(is_active=True, problem="").order_by("title"),
        "statuses": Thread.Status.values,
        "agent": agent,
        "status": chosen,
        "problem": problem,
        "typed": typed,
        "token": secrets.token_urlsafe(18),
        "now": timezone.now(),
    }
    return render(request, "threads.html", context, status=status)


def _start(request: HttpRequest) -> HttpResponse:
    wanted = request.POST.get("agent", "")[:100].replace("\x00", "")
    get_object_or_404(agents_for(request.user), pk=wanted)
    if wanted not in names_for(request.user, Role.OPERATOR):
        raise PermissionDenied("You may see this agent, but not start threads with it.")
    try:
        thread_id = threads.start_thread(
            request.user, wanted, text=request.POST.get("text", ""), submit_token=request.POST.get("submit_token", "")
        )
    except threads.Refused as refusal:
        return _list(request, problem=str(refusal), status=422)
    return redirect("reviews:thread", thread_id)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest, pk: str) -> HttpResponse:
    """Show one thread; or line up a message for it."""
    thread = find(request, pk)
    if request.method == "POST":
        return _send(request, thread)
    return _page(request, thread)


def find(request: HttpRequest, pk: str, *roles: str) -> Thread:
    """Return a thread its reader may see. With ``roles``, raises PermissionDenied for who has none of them."""
    thread = thread_for(request.user, pk)
    if thread is None:
        raise Http404
    if roles and thread.agent_id not in names_for(request.user, *roles):
        raise PermissionDenied("You may see this thread, but not act on it.")
    return thread


_QUEUE = Compiled(lambda thread: runs.queue(thread))
_RUNNING = Compiled(lambda thread: Run.objects.filter(thread=thread, status=Run.Status.RUNNING))
_ENDED_LAST = Compiled(
    lambda thread: Run.objects.filter(thread=thread).exclude(finished_at=None).order_by("-finished_at")[:1]
)
_LAST = Compiled(lambda thread: Run.objects.filter(thread=thread).order_by("-created_at")[:SHOWN_RUNS])
_OPEN = Compiled(
    lambda thread, agents: (
        Interrupt.objects.open()
        .filter(thread=thread, agent__any_of=agents)
        .defer("value", "siblings", "response_schema")
        .order_by("pk")
    )
)
_FORKS = Compiled(lambda thread, agents: Thread.objects.filter(ancestor=thread, agent__any_of=agents))
_COUNTS = """
select (select count(*) from agents_run where thread_id = %s), (
    select count(*) from reviews_interrupt where thread_id = %s and agent_id = any(%s) and decided_at is not null
)
"""


def _page(request: HttpRequest, thread: Thread, *, problem: str = "", status: int = 200) -> HttpResponse:
    user, seen = request.user, names_for(request.user)
    told, _ = streams.base(thread.pk)  # before the conversation is read: it holds at least what was told up to here
    queue = _QUEUE(thread.pk)
    [(run_count, decided_count)] = select(_COUNTS, [thread.pk, thread.pk, seen])
    context = {
        "section": "threads",
        "thread": thread,
        "agent_title": thread.agent.title,
        "told": told,
        "talk": talk.read(thread, standing.conversation(thread.pk)),
        "running": _RUNNING.first(thread.pk),
        "queued": _with_neighbours([run for run in queue if run.kind == Run.Kind.INPUT]),
        "answers": [run for run in queue if run.kind != Run.Kind.INPUT],
        "held": thread.waits and any(run.kind == Run.Kind.INPUT for run in queue),
        "open_questions": _OPEN(thread.pk, seen),
        "decided_count": decided_count,
        "warns": len(queue) > WARN_ABOVE,
        "strategies": STRATEGIES,
        "failed": _failed(thread),
        "last_runs": _LAST(thread.pk),
        "run_count": run_count,
        "forks": _FORKS(thread.pk, seen),
        "safety": _safety(thread) if thread.stuck else None,
        "labels": labels.of(thread),
        "may_operate": bool({"administrator", Role.OPERATOR} & set(roles_of(user, thread.agent_id))),
        "problem": problem,
        "text": request.POST.get("text", "") or _text_from(request),
        "token": secrets.token_urlsafe(18),
        "now": timezone.now(),
    }
    return render(request, "thread.html", context, status=status)


def _with_neighbours(queued: list[Run]) -> list[Run]:
    """Set on each waiting message the one ``before`` and ``after`` it, "" at the ends: a move names whom it passes."""
    ids = ["", *(str(run.pk) for run in queued), ""]
    for number, run in enumerate(queued):
        run.before, run.after = ids[number], ids[number + 2]  # type: ignore[attr-defined]
    return queued


def _failed(thread: Thread) -> Run | None:
    """Return the run that failed last, unless something came after it: it can be tried again."""
    last = _ENDED_LAST.first(thread.pk)
    return last if last and last.status == Run.Status.ERROR and not thread.stuck else None


def _safety(thread: Thread) -> history.SafetySheet | None:
    """Return what a replay of the head does again; None where nobody can tell, because the agent's code is not here."""
    try:
        return forks.sheet_of(thread, "", forks.Wish(), kind="replay head")
    except (forks.Refused, forks.UnknownCheckpoint):
        return None


def _text_from(request: HttpRequest) -> str:
    """Return what a person had typed elsewhere: before the session ended, or for a question somebody else decided."""
    kept = request.session.pop("typed_message", {})
    source = request.GET.get("from", "")
    interrupt = Interrupt.objects.visible_to(request.user).filter(pk=source[:18]).first() if source.isdigit() else None
    if interrupt is None:
        return str(kept.get("text", ""))
    sheets = questions.read(request.user, interrupt).sheets
    return "\n\n".join(text for sheet in sheets for text in (sheet.feedback, sheet.result) if text.strip())


def _send(request: HttpRequest, thread: Thread) -> HttpResponse:
    find(request, thread.pk, Role.OPERATOR)
    try:
        _line_up(request, thread)
    except threads.Refused as refusal:
        if is_fragment(request):
            return HttpResponse(str(refusal), status=422, content_type="text/plain; charset=utf-8")
        return _page(request, thread, problem=str(refusal), status=422)
    if is_fragment(request):
        return HttpResponse(status=204)
    return redirect(f"{reverse('reviews:thread', args=[thread.pk])}#m")


def _line_up(request: HttpRequest, thread: Thread) -> None:
    """Line up what was typed: as one message, each line as one, or the first with the others as its follow-ups."""
    text, how = request.POST.get("text", ""), request.POST.get("lines", "")
    named = {"submit_token": request.POST.get("submit_token", ""), "strategy": request.POST.get("strategy", "")}
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    match how:
        case "each":
            threads.send_several(request.user, thread, lines=text, **named)
        case "follow":
            threads.send_message(request.user, thread, text=first, follow_ups=others, **named)
        case _:
            threads.send_message(request.user, thread, text=text, **named)


@require_POST
@signed_in
def cancel(request: HttpRequest, pk: str, run: str) -> HttpResponse:
    thread = find(request, pk, Role.OPERATOR)
    try:
        threads.cancel_message(request.user, thread, str(run))
        messages.success(request, "Message taken back\nIt was not sent.")
    except threads.Refused as refusal:
        messages.warning(request, f"Nothing was changed\n{refusal}", extra_tags="wait")
    return redirect("reviews:thread", pk)


@require_POST
@signed_in
def replay(request: HttpRequest, pk: str) -> HttpResponse:
    """Replay the head of a stuck thread, once the person said that they read what will run again."""
    thread = find(request, pk, Role.OPERATOR)
    if request.POST.get("sure") != "1":
        return _page(request, thread, problem="Tick the box first: some steps run a second time.", status=422)
    try:
        threads.replay_head(request.user, thread, submit_token=request.POST.get("submit_token", ""))
        messages.success(request, "The head is replayed\nThe agent asks afresh; the bad answer is left behind.")
    except threads.Refused as refusal:
        messages.warning(request, f"Nothing was changed\n{refusal}", extra_tags="wait")
    return redirect("reviews:thread", pk)


@require_http_methods(["GET", "HEAD"])
@signed_in
def agents(request: HttpRequest) -> HttpResponse:
    """List the agents their reader may see: what each can promise, and what is wrong with it."""
    rows: list[tuple[Agent, dict[str, Any]]] = []
    for agent in agents_for(request.user).order_by("title"):
        waiting = Interrupt.objects.filter(agent=agent).open().count()
        facts = {"waiting": waiting, "threads": agent.threads.count(), "roles": roles_of(request.user, agent.pk)}
        agent.own_transformers = any(one["source"] == "agent" for one in agent.transformers)  # type: ignore[attr-defined]
        rows.append((agent, facts))
    return render(request, "agents.html", {"section": "agents", "rows": rows})
