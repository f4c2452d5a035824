"""The first minutes of a desk: a link, an account, a decision."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from reviews.tests.browser import desks
from reviews.tests.browser.people import newcomer


def test_two_clicks_from_the_sign_in_to_the_first_decision(chromium: Browser, tmp_path: Path) -> None:
    with desks.embedded(tmp_path / "data") as desk:
        rosa = newcomer(chromium, desk)
        page = rosa.page
        page.goto(desk.link)
        page.get_by_label("Your user name").fill("rosa")
        page.get_by_label("Password").fill("a long enough word")
        rosa.press("Make the account and open the inbox")

        question = page.get_by_role("link", name="Refund order 10482")
        newer = page.get_by_role("link", name=re.compile("^Show (it|them)$"))
        expect(question.or_(newer).first).to_be_visible()  # the demo threads are at work just now
        while not question.count():
            newer.click()
            page.wait_for_load_state()
            expect(question.or_(newer).first).to_be_visible()
        question.click()
        thread = page.get_by_role("link", name="Open the thread").get_attribute("href")
        rosa.press("Run as asked")
        rosa.see_recorded()

        assert thread is not None
        thread_id = thread.rstrip("/").rpartition("/")[2]
        rosa.watch(thread_id)
        ((kind, args),) = desk.effects(thread_id)
        assert (kind, args["amount"]) == ("refund", 129.0)

        stranger = newcomer(chromium, desk)
        stranger.page.goto(desk.link)
        expect(stranger.page.get_by_role("heading", level=1)).to_contain_text("link")
        assert stranger.page.get_by_label("Password").count() == 0
        assert rosa.complaints == stranger.complaints == []
        rosa.context.close()
        stranger.context.close()
