"""The database of a benchmark: made for it, dropped after it, and as durable as a desk's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import django


@contextmanager
def test_database() -> Iterator[None]:
    """Set Django up with a test database on the server of ``DATABASE_URL``, or on SQLite."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.tests.settings"  # whoever imported `project` named the product's
    django.setup()
    from django.conf import settings
    from django.test.utils import setup_databases, teardown_databases

    from agents import connections

    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database["OPTIONS"]["init_command"] += "PRAGMA synchronous=NORMAL;"  # tests do without
    made = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        connections.close_all()
        teardown_databases(made, verbosity=0)
