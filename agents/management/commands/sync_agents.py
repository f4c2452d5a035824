"""``manage.py sync_agents``: bring the list of agents up to date with what this installation registers."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from agents import registry
from agents.models import Agent


class Command(BaseCommand):
    help = "Bring the list of agents up to date. Run it after each deployment, as you run migrate."

    def handle(self, *args: Any, **options: Any) -> None:
        registry.sync()
        for agent in Agent.objects.filter(is_active=True).order_by("name"):
            self.stdout.write(f"{agent.name}: {agent.problem or 'ready'}")
