"""The session changes under an open page: HC-36, as the server sees it. Nothing is recorded, and no text is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reviews.models import Decision, Interrupt
from reviews.tests.cast import Cast, assert_untouched

pytestmark = pytest.mark.django_db
REASON = "Not before the customer has sent the photos <and> I have seen them."


class Tab:
    """An open page: it sends the token and the fields it was made with, whatever other tabs of the browser do."""

    def __init__(self, browser: Client, row: Interrupt) -> None:
        self.browser = browser
        self.path = reverse("reviews:interrupt", args=[row.pk])
        html = browser.get(self.path).content.decode()
        self.token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', html)[1]  # type: ignore[index]
        self.fields = {name: _value(html, name) for name in ("version", "digest", "submit_token")}
        self.why = re.search(r'name="(d\d+-\d+-why)"', html)[1]  # type: ignore[index]

    def reject(self, *, live: bool = False) -> Any:
        typed = {**self.fields, "decision": "reject", self.why: REASON, "csrfmiddlewaretoken": self.token}
        return self.browser.post(self.path, typed, headers={"HX-Request": "true"} if live else {})


def _value(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found is not None, name
    return found[1]


@pytest.fixture
def browser() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.mark.parametrize("who", ["ann", "ben"])
def test_a_form_of_an_older_session_records_nothing_and_gives_the_text_back(
    cast: Cast, payment: Interrupt, browser: Client, who: str
) -> None:
    """Signed out and in again elsewhere, as the same person or as another: never decided in the name of either."""
    browser.force_login(cast.ann)
    tab = Tab(browser, payment)
    browser.logout()
    browser.force_login(getattr(cast, who))
    browser.get("/")  # the other tab has a token of the new session
    answer = tab.reject()
    assert answer.status_code == 403
    assert "&lt;and&gt; I have seen them" in answer.content.decode()
    fragment = tab.reject(live=True)
    assert fragment.status_code == 403
    assert "<html" not in fragment.content.decode()
    assert len(fragment.content) < 2_000
    assert_untouched(payment)


def test_after_a_look_at_the_new_session_the_decision_is_recorded_in_its_name(
    cast: Cast, payment: Interrupt, browser: Client
) -> None:
    browser.force_login(cast.ann)
    Tab(browser, payment)
    browser.logout()
    browser.force_login(cast.ben)
    assert Tab(browser, payment).reject().status_code in (302, 303)
    assert Decision.objects.get().user == cast.ben


def test_a_form_without_a_session_asks_for_the_sign_in_and_keeps_the_text(
    cast: Cast, payment: Interrupt, browser: Client
) -> None:
    browser.force_login(cast.ann)
    tab = Tab(browser, payment)
    del browser.cookies["sessionid"]
    answer = tab.reject()
    assert answer.status_code == 401  # no redirect to a page of success
    assert "csrfmiddlewaretoken" in answer.content.decode()
    fragment = tab.reject(live=True)
    assert fragment.status_code == 401
    assert "<html" not in fragment.content.decode()
    assert "signed out" in fragment.content.decode()
    assert_untouched(payment)


def test_a_region_that_asks_for_itself_never_becomes_a_sign_in_page(cast: Cast, payment: Interrupt) -> None:
    browser = Client()
    for path in (reverse("reviews:row", args=[payment.pk]), reverse("reviews:thread", args=[payment.thread_id]), "/"):
        answer = browser.get(path, headers={"HX-Request": "true"})
        assert answer.status_code == 401, path
        assert "<html" not in answer.content.decode()
        assert "<form" not in answer.content.decode()
