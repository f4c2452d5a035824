"""The fixed cast of people."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reviews.models import Interrupt
from reviews.tests.cast import Cast, ask_calls, file_outcome, gather
from reviews.tests.door import Desk, open_desk


@pytest.fixture
def cast(db: None) -> Cast:
    return gather()


@pytest.fixture
def payment(cast: Cast) -> Interrupt:
    """One open question about one call: pay 5."""
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"amount": 5})))
    return row


@pytest.fixture
def desk(transactional_db: None) -> Iterator[Desk]:
    """Everybody, an agent that can be given any graph, and a worker on call: for stories from the door to the tools."""
    with open_desk() as opened:
        yield opened
