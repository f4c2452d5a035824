"""The inbox: what waits for people, oldest first, and what was decided."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.models import Agent, Thread
from reviews import inbox
from reviews.inbox import Filters
from reviews.models import Interrupt, Role, agents_for, threads_for
from reviews.views.door import signed_in


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show one page of rows. ``seen``: the newest row that the page knew, so that the bar counts what came after."""
    user, filters = request.user, Filters.read(request.GET)
    after, seen = request.GET.get("after", ""), request.GET.get("seen", "")
    page = inbox.page(user, filters, after=after)
    open_total = inbox.open_count(user)
    context = {
        "section": "inbox",
        "filters": filters,
        "page": page,
        "after": after,
        "total": open_total if filters.are_none else inbox.open_count(user, filters),
        "open_total": open_total,
        "thread": threads_for(user).filter(pk=filters.thread).first() if filters.thread else None,
        "new": inbox.new_count(user, filters, seen),
        "now": timezone.now(),
        "decided_today": inbox.decided_today(user),
    }
    context |= _facets(user, filters) | _addresses(filters, seen=seen or str(inbox.newest(user)), after=page.after)
    if not page.rows:
        context |= _why_empty(user)
    return render(request, "inbox.html", context)


def _facets(user: Any, filters: Filters) -> dict[str, Any]:
    return {
        "agents": inbox.agent_facets(user, filters),
        "tools": inbox.tool_facets(user, filters),
        "ages": inbox.age_facets(user, filters),
    }


def _addresses(filters: Filters, *, seen: str, after: str) -> dict[str, str]:
    return {
        "open_address": Filters().address(),
        "without_q": filters.address(q=""),
        "without_thread": filters.address(thread=""),
        "next_address": filters.address(after=after),
        "live_address": reverse("reviews:inbox") + filters.address(seen=seen),
    }


def _why_empty(user: Any) -> dict[str, Any]:
    """Collect what can explain an empty inbox: no agent, no right, nobody asked yet."""
    visible = agents_for(user)
    return {
        "visible_agents": visible,
        "decidable_agents": agents_for(user, Role.REVIEWER),
        "any_agent": Agent.objects.filter(is_active=True).exists(),
        "any_thread": Thread.objects.filter(agent__in=visible).exists(),
        "broken_agents": visible.exclude(problem=""),
    }


@require_safe
@signed_in
def row(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one row as it is now; a row that somebody decided stays on the page, greyed."""
    rows = inbox.light(Interrupt.objects.visible_to(request.user))
    found = get_object_or_404(rows, pk=pk)
    inbox.complete(request.user, [found])
    return render(request, "_row.html", {"row": found})


@require_safe
@signed_in
def count(request: HttpRequest) -> HttpResponse:
    return render(request, "_count.html", {"open_count": inbox.open_count(request.user)})
