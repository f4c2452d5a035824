"""A thread's stream for those who were away: the socket pushes, this fills gaps."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from reviews import stream
from reviews.models import threads_for

LONGEST = 18  # digits of a number that a database holds


@require_safe
def events(request: HttpRequest, pk: str) -> HttpResponse:
    """Return what was told after ``?after=<number>``; without one, a snapshot of the conversation to start from.

    JSON for every outcome: 401 when nobody is signed in, 404 for a thread one may not see, 400 for no number.
    """
    response = _answer(request, pk)
    patch_cache_control(response, no_store=True, private=True)
    return response


def _answer(request: HttpRequest, pk: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return _problem("You have been signed out.", status=401)
    thread = threads_for(request.user).select_related("agent").filter(pk=pk).first() if "\0" not in pk else None
    if thread is None:
        return _problem("There is no such thread.", status=404)
    after = request.GET.get("after")
    if after is None:
        return HttpResponse(stream.snapshot(thread), content_type="application/json")
    if not (after.isascii() and after.isdigit() and len(after) <= LONGEST):
        return _problem("after must be a number.", status=400)
    return HttpResponse(stream.page_after(thread, int(after)), content_type="application/json")


def _problem(words: str, *, status: int) -> JsonResponse:
    return JsonResponse({"error": words}, status=status)
