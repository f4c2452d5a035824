"""A desk whose database lacks a table says what to type, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client


@pytest.mark.django_db(transaction=True)
def test_a_missing_table_is_told_with_the_command_that_makes_it(client: Client) -> None:
    client.raise_request_exception = False
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE auth_user RENAME TO auth_user_away")
        try:
            answer = client.post("/sign-in/", {"username": "ann", "password": "whatever it is"})
        finally:
            cursor.execute("ALTER TABLE auth_user_away RENAME TO auth_user")
    assert answer.status_code == 503
    assert "python manage.py migrate" in answer.content.decode()
