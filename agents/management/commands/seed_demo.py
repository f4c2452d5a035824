"""``manage.py seed_demo``: give the agents we ship something to do, so that a new desk has something to decide."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from agents import registry, runs
from agents.catalog import ENTRIES
from agents.models import Agent

AUTHOR = "demo"


class Command(BaseCommand):
    help = "Begin the demo threads of the agents we ship. Each call begins them once more."

    def handle(self, *args: Any, **options: Any) -> None:
        registry.sync()
        ready = set(Agent.objects.filter(is_active=True, problem="").values_list("name", flat=True))
        openings = [(name, opening) for name in sorted(ready & set(ENTRIES)) for opening in ENTRIES[name].openings]
        for name, opening in openings:
            with transaction.atomic():
                thread_id = runs.create_thread(name, title=opening.text, author=AUTHOR)
                runs.enqueue(thread_id, kind="input", payload={"text": opening.say}, author=AUTHOR)
        self.stdout.write(f"{len(openings)} threads begun; a worker takes them up.")
