"""Who asks: the session and the person behind it, read by each request with queries that are written once.

What counts as valid is Django's own: a session that has not ended, a person who is active, and the hash that
``django.contrib.auth.get_user`` compares.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

from agents.compiled import Compiled

_LIVING = Compiled(lambda key, now: Session.objects.filter(session_key=key, expire_date__gt=now))
_ACTIVE = Compiled(lambda pk: User.objects.filter(pk=pk, is_active=True))


class SessionStore(db.SessionStore):
    """Django's sessions in the database. Its name goes into their signatures: those stored before stay valid."""

    def _get_session_from_db(self) -> Session | None:
        found = _LIVING.first(self.session_key, timezone.now())
        if found is None:
            self._session_key = None
        return found


class SignedIn(BaseBackend):
    """Finds the person of a session. Passwords and permissions are the business of Django's backend, beside it."""

    def get_user(self, user_id: Any) -> User | None:
        return _ACTIVE.first(user_id)
