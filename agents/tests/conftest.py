"""Agents under test act on a folder of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents import connections, registry


@pytest.fixture
def shop(settings: Any, tmp_path: Path, transactional_db: None) -> Any:
    """The catalog's agents, registered, on demo data of this test alone.

    Returns the module that shows what they did.
    """
    from agents import demo

    settings.DATA_DIR = tmp_path
    registry.sync()
    yield demo
    connections.close_all()
