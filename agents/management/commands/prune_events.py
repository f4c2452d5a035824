"""Delete the streams of runs that ended some time ago; workers do the same by themselves now and then."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from agents import streams


class Command(BaseCommand):
    help = "Delete stream events that the checkpoints of their runs hold too."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--keep", type=float, default=settings.EVENT_SECONDS, help="seconds after the end of a run (EVENT_SECONDS)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        count = streams.prune(keep_seconds=options["keep"])
        self.stdout.write(f"{count} events deleted.")
