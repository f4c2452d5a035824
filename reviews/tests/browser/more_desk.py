"""A production desk with some agents more: ``app`` for its workers, and its commands.

``celery -A reviews.tests.browser.more_desk worker``, ``python -m reviews.tests.browser.more_desk seed_demo``.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from django.core.management import execute_from_command_line

from agents import catalog
from project.celery import app
from reviews.tests.browser import more_agents

__all__ = ["app"]
catalog.ENTRIES.update(more_agents.ENTRIES)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
