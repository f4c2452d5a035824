"""The queue page: what runs, waits, is held, failed or got lost, who works, and how the last hour went."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from agents.models import Thread
from agents.status import ROWS, TIMES
from reviews import charts, status, threads
from reviews.models import Role, agents_for, names_for
from reviews.views.door import signed_in
from reviews.views.thread import find

# What the finder offers to do (``status.Lost.verb``) -> what does it. A replay is asked for on the thread's own page.
REPAIRS: dict[str, Callable[..., Any]] = {
    "go on": threads.go_on,
    "look": threads.look_again,
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the queue of the agents that the reader operates or audits."""
    if not status.may_look(request.user):
        raise PermissionDenied("The queue is for operators and auditors.")
    if (state := request.GET.get("state", "")) in TIMES:
        return _list(request, state)
    overview = status.overview(request.user)
    context = {
        "section": "queue",
        "overview": overview,
        "titles": dict(agents_for(request.user).values_list("pk", "title")),
        "operated": set(names_for(request.user, Role.OPERATOR)),
        "throughput": charts.throughput(overview.minutes),
        "waiting": charts.waiting(overview.minutes),
        "cut": [(name, len(getattr(overview, name))) for name in TIMES if len(getattr(overview, name)) == ROWS],
        "told": [minute for minute in overview.minutes if minute.begun or minute.ended],
        "token": secrets.token_urlsafe(18),
    }
    return render(request, "queue.html", context)


def _list(request: HttpRequest, state: Any) -> HttpResponse:
    """Show one list of runs, a page at a time."""
    rows, following = status.listed(request.user, state, request.GET.get("after", ""))
    context = {
        "section": "queue",
        "state": state,
        "rows": rows,
        "is_first": not request.GET.get("after"),
        "next": f"?{urlencode({'state': state, 'after': following})}" if following else "",
        "titles": dict(agents_for(request.user).values_list("pk", "title")),
        "operated": set(names_for(request.user, Role.OPERATOR)),
        "token": secrets.token_urlsafe(18),
    }
    return render(request, "queue_list.html", context)


@require_POST
@signed_in
def repair(request: HttpRequest, pk: str) -> HttpResponse:
    """Do what the finder of lost requests proposes for a thread."""
    thread: Thread = find(request, pk, Role.OPERATOR)
    act = REPAIRS.get(request.POST.get("verb", ""))
    try:
        if act is None:
            raise threads.Refused("There is no such repair.")
        act(request.user, thread, submit_token=request.POST.get("submit_token", ""))
        messages.success(request, "A worker looks at it\nWhat it finds is shown here and on the thread.")
    except threads.Refused as refusal:
        messages.warning(request, f"Nothing was changed\n{refusal}", extra_tags="wait")
    return redirect("reviews:queue")
