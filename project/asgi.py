"""The door: HTTP to Django, sockets of our own pages to their consumer, every other socket refused."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.urls import path

django.setup()  # whatever touches models is imported after it

from project.backpressure import Patient
from project.handler import PageHandler
from reviews.consumers import PageConsumer


class SameOriginOnly:
    """Passes on a socket only when the page that opens it is ours.

    Browsers send cookies with a socket whoever opens it, so the origin has to be our own host, port included, or one of
    CSRF_TRUSTED_ORIGINS. A client that names no origin is refused too.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        answer = self.inner if is_own_origin(scope) else WebsocketDenier()
        return await answer(scope, receive, send)


def is_own_origin(scope: dict[str, Any]) -> bool:
    """Say whether the request of ``scope`` names one origin and one host, and both are ours."""
    origins, hosts = ([value.decode("latin-1") for key, value in scope["headers"] if key == name] for name in _NAMES)
    if len(origins) != 1 or len(hosts) != 1:
        return False
    domain, _ = split_domain_port(hosts[0])
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    return origins[0] in settings.CSRF_TRUSTED_ORIGINS or _place(origins[0]) == hosts[0].lower()


_NAMES = (b"origin", b"host")


def _place(origin: str) -> str | None:
    """Return host and port of an http(s) origin, None for anything else (``null``, an extension, a broken one)."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None


application = ProtocolTypeRouter(
    {
        "http": PageHandler(),
        "websocket": SameOriginOnly(Patient(SessionMiddlewareStack(URLRouter([path("ws/", PageConsumer.as_asgi())])))),
    }
)
