"""``manage.py sign_in_link``: print a one-time administrator sign-in link."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from reviews.signin import LINK_HOURS, create_link


class Command(BaseCommand):
    help = f"Print the path of a one-time administrator sign-in link; it lives for {LINK_HOURS} hours."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(create_link())
