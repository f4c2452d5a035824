"""The door: sign in by name and password or by a one-time link, sign out."""

from __future__ import annotations

import getpass

from django import forms
from django.contrib.auth import get_user_model, login, logout
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from agents.models import Agent
from reviews import drafts, signin
from reviews.kept import unseal

BACKEND = "reviews.sessions.SignedIn"  # reads the person of a session from now on


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Ask for name and password; afterwards lead to where the person wanted to go, with what they had typed there."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    if request.method != "POST" and request.user.is_authenticated:
        return redirect(_inside(request, wanted))
    form = AuthenticationForm(request, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return _come_in(request, form.get_user(), wanted)
    context = {
        "form": form,
        "next": wanted,
        "kept": request.POST.get("kept", ""),
        "nobody_yet": not get_user_model().objects.filter(is_active=True).exists(),
    }
    return render(request, "sign_in.html", context, status=422 if form.errors else 200)


def _come_in(request: HttpRequest, user: User, wanted: str) -> HttpResponse:
    _enter(request, user, how="password")
    kept = unseal(request.POST.get("kept", ""))
    if kept is not None and not drafts.keep_sealed(user, *kept):
        request.session["typed_message"] = {"text": kept[1].get("text", ""), "agent": kept[1].get("agent", "")}
    return redirect(_inside(request, wanted))


def _enter(request: HttpRequest, user: User, *, how: str) -> None:
    """Sign in, and remember how: each decision's entry in the log says it."""
    login(request, user, backend=BACKEND)
    request.session["signed_in"] = how


def _inside(request: HttpRequest, wanted: str) -> str:
    """Return ``wanted`` when it is a place on this desk, the inbox otherwise."""
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours else reverse("reviews:inbox")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("reviews:sign-in")


class FirstPerson(forms.Form):
    """Name and password of the first administrator, checked as Django checks them everywhere."""

    username = forms.CharField(max_length=150, validators=[UnicodeUsernameValidator()])
    password = forms.CharField(strip=False, required=False)

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if get_user_model().objects.filter(username__iexact=name).exists():
            raise ValidationError(f"{name} is taken. Choose another name.")
        return name

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if not password:
            return ""
        validate_password(password, get_user_model()(username=self.cleaned_data.get("username", "")))
        return password


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """Open the desk by a one-time link: make the first account, or sign in as an administrator who exists."""
    try:
        signin.check_link(token)
        administrators = signin.administrators()
        form = FirstPerson(request.POST if request.method == "POST" else None)
        if request.method == "POST" and (user := _spend(request, token, form)):
            _enter(request, user, how="link")
            return redirect("reviews:inbox")
    except signin.LinkRefused as refusal:
        return _refused(request, refusal.reason)
    context = {
        "form": form,
        "administrators": administrators,
        "agents": Agent.objects.filter(is_active=True),
        "proposed": _proposed_name(),
    }
    invalid = request.method == "POST"
    return render(request, "link.html", context, status=422 if invalid else 200)


def _proposed_name() -> str:
    """Return the name of the account that runs the desk: the first person is most often the one who started it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine
        return "admin"


def _spend(request: HttpRequest, token: str, form: FirstPerson) -> User | None:
    if signin.administrators():
        return signin.sign_in_as(token, username=request.POST.get("administrator", ""))
    if not form.is_valid():
        return None
    cleaned = form.cleaned_data
    return signin.found_desk(token, username=cleaned["username"], password=cleaned["password"])


def _refused(request: HttpRequest, reason: str) -> HttpResponse:
    return render(request, "link_refused.html", {"reason": reason}, status=404 if reason == "unknown" else 410)
