"""Who may come in: the decorator of every page behind the sign-in, and what somebody gets whose session has ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control

from reviews.kept import seal
from reviews.models import rights_kept

Arguments = ParamSpec("Arguments")
View = Callable[Concatenate[HttpRequest, Arguments], HttpResponseBase]


def signed_in(view: View[Arguments]) -> View[Arguments]:
    """Let a page be seen by people who have signed in, and kept by no cache: it may show what an agent wants to do."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            response: HttpResponseBase = _signed_out(request)
        else:
            with rights_kept():
                response = _go_to(request, view(request, *args, **kwargs))
        patch_cache_control(response, no_store=True, private=True)
        return response

    return guarded


def _go_to(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Tell a page that sent its form beside itself (decide.js) where to go: a redirect would be followed unseen."""
    if "Sent-Beside" in request.headers and response.status_code in (302, 303):
        response.headers["Go-To"] = response.headers["Location"]
        del response.headers["Location"]
        response.status_code = 204
    return response


def see_other(request: HttpRequest, address: str, words: str) -> HttpResponse:
    """Lead from a form to a page that says what was done: its first line bold.

    Who sent the form beside the page gets the words at once; for a browser that leaves its page they wait.
    """
    if "Sent-Beside" in request.headers:
        told = render(request, "_notice.html", {"message": {"message": words}})
        told.headers["Go-To"] = address
        return told
    messages.success(request, words)
    response = redirect(address)
    response.status_code = 303
    return response


def _signed_out(request: HttpRequest) -> HttpResponse:
    """Ask for a sign-in. A form that was sent comes along, sealed, and is given back as a draft afterwards."""
    if is_fragment(request):
        return render(request, "_signed_out.html", {"next": request.path}, status=401)
    if request.method != "POST":
        return redirect(f"{reverse('reviews:sign-in')}?next={quote(request.get_full_path())}")
    context: dict[str, Any] = {"next": request.path, "kept": seal(request.path, request.POST), "after_post": True}
    return render(request, "sign_in.html", context, status=401)


def is_fragment(request: HttpRequest) -> bool:
    """Say whether htmx asks, for a part of a page."""
    return request.headers.get("HX-Request") == "true"
