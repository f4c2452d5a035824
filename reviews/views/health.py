"""For those who watch the desk from outside: is it alive, is it ready, how is it doing. Numbers only, no words."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents import status, workers
from agents.models import Agent, LedgerIncident
from reviews import status as desk
from reviews import tasks
from reviews.models import AuditEntry, Interrupt

_migrated = False  # they are looked for until they are there; nobody takes them away from a running process


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that this process answers. Asks nobody else, so that a database that is away restarts no web process."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Say whether requests can be served: database, migrations, a worker seen lately. 503 with what is missing.

    ``?without=workers`` for who balances web processes only: people can read and decide while no worker runs.
    """
    checks = {"database": _has_database, "migrations": _is_migrated, "workers": _has_workers}
    wanted = {name: check for name, check in checks.items() if name not in request.GET.getlist("without")}
    found = {name: _holds(check) for name, check in wanted.items()}
    return JsonResponse(found, status=200 if all(found.values()) else 503)


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except Error:
        return False


def _has_database() -> bool:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("select 1")
        return bool(cursor.fetchone())


def _is_migrated() -> bool:
    global _migrated
    if not _migrated:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _migrated


def _has_workers() -> bool:
    return workers.alive().exists()


# -------------------------------------------------------------------------------------------------------------- metrics


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return numbers in Prometheus' text format, for administrators and for who brings METRICS_TOKEN. Others: 404."""
    if not _may_measure(request):
        raise Http404
    return HttpResponse("".join(_lines()), content_type="text/plain; version=0.0.4; charset=utf-8")


def _may_measure(request: HttpRequest) -> bool:
    scheme, _, brought = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and scheme == "Bearer":
        return hmac.compare_digest(brought.encode(), settings.METRICS_TOKEN.encode())
    user: Any = request.user
    return bool(user.is_authenticated and user.is_active and user.is_superuser)


def _lines() -> Iterator[str]:
    agents = list(Agent.objects.values_list("pk", flat=True))
    waiting = Interrupt.objects.open()
    oldest = waiting.order_by("created_at").values_list("created_at", flat=True).first()
    age = (status.database_now() - oldest).total_seconds() if oldest else 0.0
    yield from _gauge("interrupts_open", "Questions that wait for people.", {"": waiting.count()})
    yield from _gauge("interrupt_oldest_seconds", "Age of the oldest of them.", {"": round(max(age, 0.0), 3)})
    counted = status.counts(agents)
    runs = {f'status="{name}"': number for name, number in counted.items()}
    yield from _gauge("runs", "Runs by status: pending, held and running now, others of the last hour.", runs)
    threads = {f'status="{name}"': number for name, number in status.threads_by_status(agents).items()}
    yield from _gauge("threads", "Threads by status.", threads)
    yield from _gauge("runs_stuck", "Runs that are due and that nobody does.", {"": len(status.stuck(agents))})
    yield from _gauge("workers_alive", "Processes that run graphs and were heard of lately.", {"": _workers()})
    repairs = AuditEntry.objects.filter(kind="head replayed").count()
    yield from _counter("repairs_total", "Heads that people looked at again, replayed or tried again.", {"": repairs})
    incidents = LedgerIncident.objects.count()
    yield from _counter("incidents_total", "Calls that the ledger refused.", {"": incidents})
    pushes = {f'result="{name}"': number for name, number in desk.hints().items()}
    yield from _counter("pushes_total", "Messages to open pages, of this process.", pushes)
    yield from _gauge("workers_unwoken", "Wake-ups the broker did not take, of this process.", {"": tasks.unwoken})


def _workers() -> int:
    return workers.alive().count()


def _gauge(name: str, words: str, values: Mapping[str, float]) -> Iterator[str]:
    yield from _metric("gauge", name, words, values)


def _counter(name: str, words: str, values: Mapping[str, float]) -> Iterator[str]:
    yield from _metric("counter", name, words, values)


def _metric(kind: str, name: str, words: str, values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP countersign_{name} {words}\n# TYPE countersign_{name} {kind}\n"
    for labels, value in values.items():
        yield f"countersign_{name}{'{' + labels + '}' if labels else ''} {value:g}\n"
