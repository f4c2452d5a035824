"""A person at a browser: what they open, click, type and read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from reviews.tests.browser.desks import Desk
from reviews.tests.browser.staff import PASSWORD

SOON = 25_000  # ms: for an agent to take its next steps on a busy machine
_COMPLAINTS = re.compile(r"Content Security Policy|Refused to|Uncaught|SyntaxError|htmx", re.IGNORECASE)

LAUNCH = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Person:
    """Somebody signed in at ``desk`` with one tab. ``complaints``: what the browser held against our pages."""

    desk: Desk
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.on("console", self._hear)
        self.context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and _COMPLAINTS.search(message.text):
            self.complaints.append(message.text)

    # ------------------------------------------------------------------------------------------------------ going about

    def open(self, path: str) -> Page:
        self.page.goto(self.desk.url + path)
        return self.page

    def start(self, agent: str, text: str) -> str:
        """Start a thread through its page, and wait until the agent has stopped. Returns the thread's id."""
        page = self.open("/threads/")
        page.get_by_label("Agent", exact=True).select_option(agent)
        page.get_by_label("First message").fill(text)
        page.get_by_role("button", name="Start the thread").click()
        page.wait_for_url(re.compile(r"/threads/[^/]+/$"))
        # Idle too, until a worker takes the message up.
        runs = page.locator("#about .steps b + span")
        expect(runs.filter(has_text=re.compile("^(pending|running)"))).to_have_count(0, timeout=SOON)
        self.see_status(re.compile("interrupted|idle|error"))
        return page.url.rstrip("/").rpartition("/")[2]

    def see_status(self, status: str | re.Pattern[str]) -> None:
        """Wait, on the page of a thread, until it has come to ``status``."""
        expect(self.page.locator("#about header .chip")).to_have_text(status, timeout=SOON)

    def take_up(self, thread_id: str) -> Page:
        """Open the thread's oldest question, from the inbox."""
        page = self.open(f"/?thread={thread_id}")
        page.locator(".inbox .what a").first.click()
        expect(page.get_by_role("heading", level=1)).to_be_focused()
        return page

    def watch(self, thread_id: str, status: str = "idle") -> Page:
        """Open the thread and wait until its agent has come to ``status``."""
        page = self.open(f"/threads/{thread_id}/")
        self.see_status(status)
        return page

    # --------------------------------------------------------------------------------------------------------- deciding

    def box(self, name: str | re.Pattern[str], *, within: Locator | None = None) -> Locator:
        """Return the box of a verb by its heading."""
        return (within or self.page).get_by_role("region", name=name)

    def press(self, name: str | re.Pattern[str], *, within: Locator | None = None) -> None:
        """Press a button, and wait until its form was answered: by another page, or by another in this one's place."""
        (within or self.page).get_by_role("button", name=name).click()
        expect(self.page.locator("form[data-sent]")).to_have_count(0)
        self.page.wait_for_load_state()

    def see_recorded(self, words: str = "Recorded") -> None:
        expect(self.page.get_by_role("status").filter(has_text=words)).to_be_visible()
        expect(self.page.get_by_role("heading", level=1)).to_be_focused()

    def change(self, argument: str, value: str, *, within: Locator | None = None) -> None:
        """Type over one argument, or choose it, and wait until the page has taken note."""
        root = within or self.page
        field = root.get_by_label(argument, exact=True)
        if field.evaluate("field => field.matches('select')"):
            field.select_option(value)
        else:
            field.fill(value)
        state = self.page.locator(f'[id="state-{field.get_attribute("id")}"]')
        expect(state).to_contain_text(re.compile("changed by you|not right yet"))
        expect(root.get_by_role("button", name=re.compile("with my change"))).to_be_visible()


def sign_in(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}/sign-in/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def newcomer(browser: Browser, desk: Desk, *, state: Any = None, **options: Any) -> Person:
    """Return somebody with a browser of their own; signed in where ``state`` is that of a sign-in."""
    context = browser.new_context(storage_state=state, **{"viewport": {"width": 1440, "height": 900}, **options})
    context.set_default_timeout(25_000)
    return Person(desk, context, context.new_page())
