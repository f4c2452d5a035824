"""What is one person's own: settings, and the page of keys."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from reviews.models import Grant, Preference
from reviews.views.door import signed_in

THEMES = (("", "As the system"), ("light", "Light"), ("dark", "Dark"))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings(request: HttpRequest) -> HttpResponse:
    """Show and keep theme and letters; say which rights the person has."""
    preference = Preference.objects.filter(pk=request.user.pk).first() or Preference()
    if request.method == "POST":
        theme = request.POST.get("theme", "")
        values = {"theme": theme if theme in dict(THEMES) else "", "letters": request.POST.get("letters") == "1"}
        Preference.objects.update_or_create(pk=request.user.pk, defaults=values)
        messages.success(request, "Settings kept")
        return redirect("reviews:settings")
    return _settings(request, preference)


def _settings(request: HttpRequest, preference: Preference, *, form: Any = None, status: int = 200) -> HttpResponse:
    grants = Grant.objects.filter(group__user=request.user.pk).select_related("agent", "group").order_by("pk")
    context = {"preference": preference, "themes": THEMES, "grants": grants, "form": form}
    return render(request, "settings.html", context, status=status)


@sensitive_post_parameters()
@require_http_methods(["POST"])
@signed_in
def password(request: HttpRequest) -> HttpResponse:
    """Set one's own password. Who has one gives it too; who came by link only has none to give."""
    user: Any = request.user
    form_class = PasswordChangeForm if user.has_usable_password() else SetPasswordForm
    form = form_class(user, request.POST)
    if not form.is_valid():
        preference = Preference.objects.filter(pk=user.pk).first() or Preference()
        return _settings(request, preference, form=form, status=422)
    update_session_auth_hash(request, form.save())  # signs out this person's other sessions, not this one
    messages.success(request, "Password kept\nYour other sessions are signed out.")
    return redirect("reviews:settings")


@require_safe
@signed_in
def help(request: HttpRequest) -> HttpResponse:
    return render(request, "help.html")
