"""What is one person's own: settings, and the page of keys."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from reviews.models import Grant, Preference
from reviews.views.door import signed_in

THEMES = (("", "As the system"), ("light", "Light"), ("dark", "Dark"))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings(request: HttpRequest) -> HttpResponse:
    """Show and keep theme and letters; say which rights the person has."""
    preference = Preference.objects.filter(pk=request.user.pk).first() or Preference(user_id=request.user.pk)
    if request.method == "POST":
        theme = request.POST.get("theme", "")
        values = {"theme": theme if theme in dict(THEMES) else "", "letters": request.POST.get("letters") == "1"}
        Preference.objects.update_or_create(pk=request.user.pk, defaults=values)
        messages.success(request, "Settings kept")
        return redirect("reviews:settings")
    grants = Grant.objects.filter(group__user=request.user.pk).select_related("agent", "group").order_by("pk")
    return render(request, "settings.html", {"preference": preference, "themes": THEMES, "grants": grants})


@require_safe
@signed_in
def help(request: HttpRequest) -> HttpResponse:
    return render(request, "help.html")
