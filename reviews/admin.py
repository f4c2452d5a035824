"""The administration: people, groups and grants. What has one writer elsewhere is only shown here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from agents.models import Agent, Run, Thread
from reviews.models import Action, AuditEntry, Decision, Grant, Interrupt


def sign_in(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Lead to the desk's own sign-in, which counts attempts; who has signed in and still stands here has no right."""
    if request.user.is_authenticated:
        raise PermissionDenied("The administration is for administrators.")
    wanted = request.GET.get("next", reverse("admin:index"))
    return redirect(f"{reverse('reviews:sign-in')}?{urlencode({'next': wanted})}")


admin.site.login = sign_in  # type: ignore[method-assign]  # one door, not two
admin.site.site_header = admin.site.site_title = "Countersign"
admin.site.index_title = "People and grants"


@admin.register(Grant)
class GrantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # the class takes no parameter at run time
    """Who may do what, for which agent."""

    list_display = ["group", "role", "agent"]
    list_filter = ["role", "agent"]
    list_select_related = ["group", "agent"]


class ShownOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """A model that is looked at here and written elsewhere."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Agent)
class AgentAdmin(ShownOnly):
    list_display = ["name", "title", "version", "guarantee", "is_active", "problem"]


@admin.register(Thread)
class ThreadAdmin(ShownOnly):
    list_display = ["id", "agent", "title", "status", "updated_at"]
    list_filter = ["status", "agent"]


@admin.register(Run)
class RunAdmin(ShownOnly):
    list_display = ["id", "thread", "kind", "status", "author", "created_at"]
    list_filter = ["kind", "status"]
    exclude = ["payload", "context"]


@admin.register(Interrupt)
class InterruptAdmin(ShownOnly):
    list_display = ["title", "agent", "status", "dialect", "created_at", "decided_by"]
    list_filter = ["status", "agent", "dialect"]
    exclude = ["value", "siblings", "response_schema"]  # what agents wrote is shown on the desk's own page only


@admin.register(Action)
class ActionAdmin(ShownOnly):
    list_display = ["interrupt", "position", "name", "effect", "differs"]
    fields = ["interrupt", "position", "name", "digest", "effect", "differs"]


@admin.register(Decision)
class DecisionAdmin(ShownOnly):
    list_display = ["action", "verdict", "user", "role", "created_at"]
    fields = ["action", "verdict", "user", "role", "digest", "created_at"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ShownOnly):
    list_display = ["seq", "kind", "actor", "agent", "verdict", "at"]
    list_filter = ["kind", "verdict"]
