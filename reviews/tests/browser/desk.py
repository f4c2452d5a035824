"""The embedded desk with some agents more, else as `make run` starts it: ``python -m reviews.tests.browser.desk``."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from agents import catalog
from project import embedded
from reviews.tests.browser import more_agents

if __name__ == "__main__":
    catalog.ENTRIES.update(more_agents.ENTRIES)
    sys.exit(embedded.main())
