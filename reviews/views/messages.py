"""What an operator does to the queue and the run of a thread, beside writing to it. Each is one POST and its words."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents import runs
from agents.models import Run, Thread
from reviews import threads
from reviews.models import Interrupt, Role
from reviews.views.door import is_fragment, signed_in
from reviews.views.thread import find


@require_POST
@signed_in
def clear(request: HttpRequest, pk: str) -> HttpResponse:
    """Take back everything that waits."""
    thread = find(request, pk, Role.OPERATOR)
    count = threads.clear_queue(request.user, thread)
    words = f"{count} message{'' if count == 1 else 's'} taken back\nNone of them was sent."
    return _done(request, thread, words if count else "Nothing waited\nSo nothing was taken back.")


@require_POST
@signed_in
def move(request: HttpRequest, pk: str, run: str) -> HttpResponse:
    """Let a message change places with its neighbour ``past``, as its sender saw it."""
    thread = find(request, pk, Role.OPERATOR)
    past = request.POST.get("past", "")
    return _try(request, thread, lambda: threads.move_message(request.user, thread, str(run), past=past))


@require_POST
@signed_in
def stop(request: HttpRequest, pk: str, run: str) -> HttpResponse:
    """Stop a run before its next step; with ``how=cancel``, in the middle of it."""
    thread = find(request, pk, Role.OPERATOR)
    now = request.POST.get("how") == "cancel"

    def act() -> str:
        return f"Stop is asked for\n{threads.stop_run(request.user, thread, str(run), now=now)}"

    return _try(request, thread, act)


@require_POST
@signed_in
def retry(request: HttpRequest, pk: str, run: str) -> HttpResponse:
    """Try a failed run again."""
    thread = find(request, pk, Role.OPERATOR)

    def act() -> str:
        threads.retry_run(request.user, thread, str(run), submit_token=request.POST.get("submit_token", ""))
        return "It is tried again\nSteps that ended keep their results; the one that failed is taken once more."

    return _try(request, thread, act)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def anyway(request: HttpRequest, pk: str) -> HttpResponse:
    """Send a message although questions are open: first a page that says what is withdrawn, then the act itself."""
    thread = find(request, pk, Role.OPERATOR)
    if request.method != "POST":
        return redirect("reviews:thread", pk)
    if request.POST.get("sure") != "1":
        return _confirm(request, thread)
    text, token = request.POST.get("text", ""), request.POST.get("submit_token", "")
    try:
        threads.send_anyway(request.user, thread, text=text, submit_token=token)
    except threads.Refused as refusal:
        return _confirm(request, thread, problem=str(refusal), status=422)
    messages.success(request, "Sent, and the open questions are withdrawn\nNone of the calls they asked about has run.")
    return redirect("reviews:thread", pk)


@require_POST
@signed_in
def unanswered(request: HttpRequest, pk: str) -> HttpResponse:
    """End a turn that waits for an answer, without one: first a page that says what becomes of it, then the act."""
    thread = find(request, pk, Role.OPERATOR, Role.REVIEWER)
    if request.POST.get("sure") != "1":
        return _confirm(request, thread, page="unanswered.html")
    try:
        threads.end_unanswered(request.user, thread, submit_token=request.POST.get("submit_token", ""))
    except threads.Refused as refusal:
        return _confirm(request, thread, page="unanswered.html", problem=str(refusal), status=422)
    messages.success(request, f"Ended without an answer\n{thread.agent.title} reads an error in its place.")
    return redirect("reviews:thread", pk)


def _confirm(
    request: HttpRequest, thread: Thread, *, page: str = "anyway.html", problem: str = "", status: int = 200
) -> HttpResponse:
    open_ones = Interrupt.objects.visible_to(request.user).open().filter(thread=thread)
    context = {
        "section": "threads",
        "thread": thread,
        "questions": open_ones.defer("value", "siblings").prefetch_related("actions").order_by("pk"),
        "ahead": [run for run in runs.queue(thread.pk) if run.kind == Run.Kind.INPUT],
        "text": request.POST.get("text", ""),
        "problem": problem,
        "token": request.POST.get("submit_token") or secrets.token_urlsafe(18),
    }
    return render(request, page, context, status=status)


def _try(request: HttpRequest, thread: Thread, act: Callable[[], str | None]) -> HttpResponse:
    try:
        words = act()
    except threads.Refused as refusal:
        if is_fragment(request):
            return HttpResponse(str(refusal), status=422, content_type="text/plain; charset=utf-8")
        messages.warning(request, f"Nothing was changed\n{refusal}", extra_tags="wait")
        return _back(request, thread)
    return _done(request, thread, words)


def _done(request: HttpRequest, thread: Thread, words: str | None) -> HttpResponse:
    if is_fragment(request):
        return HttpResponse(status=204)
    if words:
        messages.success(request, words)
    return _back(request, thread)


def _back(request: HttpRequest, thread: Thread) -> HttpResponse:
    """Lead back to where the button stood."""
    if request.POST.get("from") == "queue":
        return redirect("reviews:queue")
    return redirect(f"{reverse('reviews:thread', args=[thread.pk])}#queue")
