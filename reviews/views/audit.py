"""The audit log for those who read it: who decided what, when, and what ran."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from reviews import audit_search, audit_walk, questions
from reviews.audit_search import Search
from reviews.chain import Kind
from reviews.models import AuditEntry, AuditSecret, Role, agents_for, names_for
from reviews.paging import by_key
from reviews.views.door import signed_in

VERDICTS = ("approve", "edit", "reject", "respond", "mixed")
FAULTS_SHOWN = 20


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List and search the log; or verify all of it now."""
    _let_in(request)
    if request.method == "POST":
        return _verify(request)
    user, search, after = request.user, Search.read(request.GET), request.GET.get("after", "")
    rows = audit_search.found(user, search)
    page = by_key(rows, after=after)
    changed = audit_search.changes_in(page.rows)
    readable = audit_search.readable_by(user)
    context = {
        "section": "audit",
        "search": search,
        "page": page,
        "entries": [(entry, audit_search.body_of(entry), changed.get(entry.seq, [])) for entry in page.rows],
        "after": after,
        "next_address": search.address(after=page.after) if page.after else "",
        "total": rows.count(),
        "all_total": readable.count(),
        "first": readable.order_by("seq").first(),
        "people": readable.exclude(actor="").order_by("actor").values_list("actor", flat=True).distinct(),
        "agents": agents_for(user, Role.AUDITOR).order_by("title"),
        "kinds": list(Kind),
        "verdicts": VERDICTS,
        "verified": request.session.get("verified"),
    }
    return render(request, "audit.html", context)


def _let_in(request: HttpRequest) -> None:
    """Auditors and administrators come in. Who sees no agent at all learns nothing, not even that there is a log."""
    if names_for(request.user, Role.AUDITOR) or request.user.is_superuser:
        return
    if names_for(request.user):
        raise PermissionDenied("The audit log is for auditors and administrators.")
    raise Http404


def _verify(request: HttpRequest) -> HttpResponse:
    """Walk the whole chain; keep in the session what was found, with its time."""
    report = audit_walk.examine()
    request.session["verified"] = {
        "at": timezone.now().isoformat(),
        "entries": AuditEntry.objects.count(),
        "faults": [str(fault) for fault in report.faults[:FAULTS_SHOWN]],
    }
    return redirect("reviews:audit")


@require_safe
@signed_in
def entry(request: HttpRequest, seq: int) -> HttpResponse:
    """Show one entry: what was proposed, decided and executed, and its place in the chain."""
    _let_in(request)
    rows = audit_search.readable_by(request.user).select_related("user", "agent", "thread", "interrupt")
    found = get_object_or_404(rows, pk=seq)
    place = audit_search.place_of(found)
    context: dict[str, Any] = {
        "section": "audit",
        "place": place,
        "entry": found,
        "body": place.body,
        "secrets": AuditSecret.objects.filter(entry=found).order_by("name"),
        "question": questions.read(request.user, found.interrupt) if found.interrupt else None,
        "readable": set(
            audit_search.readable_by(request.user).filter(pk__in=[seq - 1, seq + 1]).values_list("pk", flat=True)
        ),
    }
    return render(request, "audit_entry.html", context)
