"""The secret key: read from the environment in production, made at the first start of an embedded desk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

SAMPLES = ("change-me", "changeme", "django-insecure", "sample", "secret", "your-secret-key", "example")
SHORTEST = 32  # characters


def checked_key(key: str, *, debug: bool) -> str:
    """Return ``key``, or refuse to start: with no key at all, and outside DEBUG with a sample or a short one."""
    if not key:
        raise ImproperlyConfigured(f"SECRET_KEY is not set. Set it to a random text of {SHORTEST} characters or more.")
    if not debug and (len(key) < SHORTEST or key.lower().startswith(SAMPLES)):
        raise ImproperlyConfigured(
            f"SECRET_KEY is a sample or shorter than {SHORTEST} characters. Whoever knows it can sign in as anybody. "
            "Set it to a random text."
        )
    return key


def local_key(path: Path) -> str:
    """Return the key kept in ``path``, made there when there is none, readable by its owner only.

    Raises OSError where the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()
