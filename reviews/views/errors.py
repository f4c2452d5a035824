"""Pages for what went wrong. They need no database: it may be what is away."""

from __future__ import annotations

import sys
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

TYPED = ("why", "result", "json", "text")  # endings of the fields that hold sentences
MOST = 20  # texts that a page gives back
_MISSING = ("42P01", "42703")  # PostgreSQL: undefined table, undefined column


def server_error(request: HttpRequest, *args: Any) -> HttpResponse:
    """Answer 503 when the database is away or not migrated, 500 otherwise. No page asks the database for anything."""
    error = sys.exc_info()[1]
    behind = _is_not_migrated(error)
    away = behind or isinstance(error, OperationalError | InterfaceError)
    return _page(request, "503.html" if away else "500.html", status=503 if away else 500, not_migrated=behind)


def _is_not_migrated(error: BaseException | None) -> bool:
    """Tell whether a table or column is missing: SQLite says so as an OperationalError, PostgreSQL by its SQLSTATE."""
    if not isinstance(error, DatabaseError):
        return False
    state = getattr(error.__cause__, "sqlstate", None)
    return state in _MISSING or str(error).startswith(("no such table", "no such column"))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, "400.html", status=400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, "403.html", status=403, reason=str(exception or ""))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, "404.html", status=404)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Say that a form was too old, and give back what was typed. Nothing of it is sent again by this page."""
    if request.headers.get("HX-Request") == "true":
        return _page(request, "_too_old.html", status=403)
    texts = [(name, str(text)) for name, text in request.POST.items() if name.endswith(TYPED) and str(text).strip()]
    return _page(request, "csrf.html", status=403, texts=texts[:MOST], back=request.path)


def _page(request: HttpRequest, template: str, *, status: int, **context: Any) -> HttpResponse:
    response = render(request, template, {"plain": True, **context}, status=status)
    response["Cache-Control"] = "no-store"
    return response
