"""A desk with the agents of the benchmarks: embedded when it is run, ``app`` for the workers of a production desk.

``python -m project.benchmarks.desk`` is the embedded desk, with as many threads as the bench has agents at work;
``python -m project.benchmarks.desk seed_demo`` is a command of Django's.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from django.core.management import execute_from_command_line

from agents import catalog
from agents.benchmarks import players
from agents.catalog.entry import Entry
from project import embedded
from project.celery import app

__all__ = ["app"]
AT_WORK = 20

for build in (players.till, players.beacon, players.talker):
    name = build.__name__
    catalog.ENTRIES[name] = Entry(name, name.title(), "For benchmarks.", "1.0", build, openings=())

if __name__ == "__main__":
    embedded.WORKERS = AT_WORK
    if len(sys.argv) > 1:
        execute_from_command_line(sys.argv)
    else:
        sys.exit(embedded.main())
