"""The fixed cast of people."""

from __future__ import annotations

import pytest

from reviews.models import Interrupt
from reviews.tests.cast import Cast, ask_calls, file_outcome, gather


@pytest.fixture
def cast(db: None) -> Cast:
    return gather()


@pytest.fixture
def payment(cast: Cast) -> Interrupt:
    """One open question about one call: pay 5."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    return row
