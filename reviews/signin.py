"""One-time sign-in links: how the first person gets into a desk that has no default account."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from reviews.models import SignInLink

LINK_HOURS = 24


class LinkRefused(Exception):
    """The link opens nothing. ``reason``: ``unknown``, ``used`` or ``expired``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The sign-in link is {reason}.")
        self.reason = reason


def create_link(*, hours: int = LINK_HOURS) -> str:
    """Make a one-time administrator sign-in link and return its path. Only the hash of its token is kept."""
    token = secrets.token_urlsafe(32)
    SignInLink.objects.create(token_hash=_hash(token), expires_at=timezone.now() + timedelta(hours=hours))
    return reverse("reviews:link", args=[token])


def check_link(token: str) -> SignInLink:
    """Return the link of ``token`` when it still opens the desk. Raises LinkRefused."""
    link = SignInLink.objects.filter(token_hash=_hash(token)).first()
    if link is None:
        raise LinkRefused("unknown")
    if link.used_at is not None:
        raise LinkRefused("used")
    if link.expires_at <= timezone.now():
        raise LinkRefused("expired")
    return link


def administrators() -> list[User]:
    """Return who runs the desk, the longest-serving first."""
    return list(User.objects.filter(is_superuser=True, is_active=True).order_by("date_joined", "pk"))


@transaction.atomic
def found_desk(token: str, *, username: str, password: str) -> User:
    """Spend the link on the first administrator's account. Raises LinkRefused, also when somebody was faster.

    Without a password the account has none that could be guessed: it is entered by links only.
    """
    _spend(token)
    if administrators():
        raise LinkRefused("used")
    return User.objects.create_superuser(username=username, password=password or None)


@transaction.atomic
def sign_in_as(token: str, *, username: str) -> User:
    """Spend the link on signing in as an administrator who exists. Raises LinkRefused."""
    _spend(token)
    user = next((user for user in administrators() if user.get_username() == username), None)
    if user is None:
        raise LinkRefused("unknown")
    return user


def _spend(token: str) -> None:
    check_link(token)
    fresh = SignInLink.objects.filter(token_hash=_hash(token), used_at__isnull=True)
    if fresh.update(used_at=timezone.now()) != 1:
        raise LinkRefused("used")


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
