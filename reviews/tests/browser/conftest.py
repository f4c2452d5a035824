"""A browser, a desk that runs, and the people who sit at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from project.services import find
from reviews.tests.browser import desks, staff
from reviews.tests.browser.desks import Desk
from reviews.tests.browser.people import LAUNCH, Person, newcomer, sign_in

Newcomer = Callable[..., Person]
States = dict[str, Any]

# What lives longer than a test ends with this folder: Playwright's loop would stand in the way of async tests.


def pytest_itemcollected(item: pytest.Item) -> None:
    """Asked for the tests of this folder only."""
    item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    program = find("chromium")
    if program is None:
        pytest.skip("needs Chromium; `make test` installs it")
    expect.set_options(timeout=25_000)  # below the 30 s after which pages ask by themselves
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=LAUNCH)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The embedded desk, with its demo threads, two agents more, and its staff."""
    with desks.embedded(tmp_path_factory.mktemp("desk") / "data", "reviews.tests.browser.desk") as running:
        running.run("reviews.tests.browser.staff")
        yield running


@pytest.fixture(scope="package")
def states(chromium: Browser, desk: Desk) -> States:
    """Who is signed in: name -> what their browser keeps."""
    found: States = {}
    for name in staff.ROLES:
        context = chromium.new_context()
        sign_in(context.new_page(), desk.url, name)
        found[name] = context.storage_state()
        context.close()
    return found


@pytest.fixture
def arrive(chromium: Browser, desk: Desk, states: States) -> Iterator[Newcomer]:
    """Let people come in: ``arrive("ann", **options of the browser context)``. No browser may complain of a page."""
    here: list[Person] = []

    def come(name: str = "", **options: Any) -> Person:
        person = newcomer(chromium, desk, state=states.get(name), **options)
        here.append(person)
        return person

    yield come
    for person in here:
        person.context.close()
    assert [complaint for person in here for complaint in person.complaints] == []


@pytest.fixture
def ann(arrive: Newcomer) -> Person:
    return arrive("ann")


@pytest.fixture
def ben(arrive: Newcomer) -> Person:
    return arrive("ben")
