"""What every answer of the desk carries, and what it never does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/admin/login/", "/nowhere/", "/static/css/app.css"])
def test_every_answer_has_a_strict_policy(client: Client, path: str) -> None:
    policy = client.get(path).headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy


def test_a_static_file_comes_in_one_piece(client: Client) -> None:
    answer = client.get("/static/admin/css/base.css")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/css")
    assert int(answer.headers["Content-Length"]) == len(answer.content) > 1_000
    assert not answer.streaming
    again = client.get("/static/admin/css/base.css", headers={"If-Modified-Since": answer.headers["Last-Modified"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.fixture
def rosa(settings: Settings) -> Iterator[User]:
    settings.AXES_FAILURE_LIMIT = 3
    yield User.objects.create_user("rosa", password="right", is_staff=True)


def sign_in(client: Client, password: str, name: str = "rosa") -> int:
    return client.post("/sign-in/", {"username": name, "password": password}).status_code


def test_guessing_a_password_ends_soon(client: Client, rosa: User) -> None:
    assert [sign_in(client, "wrong") for _ in range(3)] == [422, 422, 429]
    assert sign_in(client, "right") == 429
    assert sign_in(client, "wrong", name="ben") == 422  # one who guesses does not lock out everybody behind a proxy


def test_the_administration_has_no_door_of_its_own(client: Client, rosa: User) -> None:
    answer = client.post("/admin/login/?next=/admin/", {"username": "rosa", "password": "right"})
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/sign-in/")
    assert client.get("/admin/").status_code == 302


def test_a_person_who_mistypes_once_gets_in(client: Client, rosa: User) -> None:
    assert [sign_in(client, "wrong"), sign_in(client, "right")] == [422, 302]
