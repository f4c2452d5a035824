"""Coming in: by password, by the one-time link, again after a session ended; and going out."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DjangosStore
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reviews.models import AuditEntry, Decision, Interrupt, SignInLink
from reviews.signin import create_link
from reviews.tests.cast import PASSWORD, Cast
from reviews.tests.pages import look, page_of, press

pytestmark = pytest.mark.django_db
SIGN_IN = "/sign-in/"


def enter(client: Client, name: str, password: str = PASSWORD, **more: str):  # type: ignore[no-untyped-def]
    return client.post(SIGN_IN, {"username": name, "password": password, **more})


def test_ann_signs_in_and_comes_where_she_wanted(cast: Cast, client: Client) -> None:
    assert client.get("/threads/")["Location"] == "/sign-in/?next=/threads/"
    assert enter(client, "ann", next="/threads/")["Location"] == "/threads/"


@pytest.mark.parametrize("target", ["https://example.test/", "//example.test/", "javascript:alert(1)", ""])
def test_nobody_is_led_away_from_the_desk(cast: Cast, client: Client, target: str) -> None:
    assert enter(client, "ann", next=target)["Location"] == "/"


def test_a_wrong_password_is_said_and_nothing_more(cast: Cast, client: Client) -> None:
    wrong, unknown = enter(client, "ann", "no"), enter(client, "nobody", "no")
    assert wrong.status_code == unknown.status_code == 422
    texts = [page_of(one).text.replace("ann", "").replace("nobody", "") for one in (wrong, unknown)]
    assert texts[0] == texts[1], "an answer must not tell whether a name exists"


def test_guessing_is_locked_out_for_a_while(cast: Cast, client: Client) -> None:
    for _ in range(6):
        response = enter(client, "ann", "no")
    assert response.status_code == 429
    assert "Too many attempts" in page_of(response).text
    assert enter(client, "ann").status_code == 429


def test_the_admins_sign_in_is_the_desks(cast: Cast, client: Client) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0].startswith(SIGN_IN)
    assert client.post("/admin/login/", {"username": "root", "password": PASSWORD})["Location"].startswith(SIGN_IN)


def test_signing_out_needs_a_post(cast: Cast, client: Client) -> None:
    client.force_login(cast.ann)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == SIGN_IN
    assert client.get("/").status_code == 302


# -------------------------------------------------------------------------------------------------------- one-time link


def test_the_link_makes_the_first_person_an_administrator(db: None, client: Client) -> None:
    path = create_link()
    page = look(client, path)
    assert "Make this desk yours" in page.text
    response = client.post(path, {"username": "maria", "password": "a long enough one"})
    assert response["Location"] == "/"
    user = User.objects.get()
    assert (user.username, user.is_superuser, user.is_staff) == ("maria", True, True)
    assert client.get("/").status_code == 200
    assert client.session["signed_in"] == "link"


def test_looking_at_the_link_does_not_spend_it(db: None, client: Client) -> None:
    path = create_link()
    look(client, path)
    look(client, path)
    assert client.head(path).status_code == 200
    assert SignInLink.objects.get().used_at is None


def test_a_spent_link_says_what_to_do(db: None, client: Client) -> None:
    path = create_link()
    client.post(path, {"username": "maria", "password": "a long enough one"})
    text = look(Client(), path, status=410).text
    assert "This link was used before" in text
    assert "manage.py sign_in_link" in text
    assert Client().post(path, {"username": "eve", "password": "a long enough one"}).status_code == 410
    assert User.objects.count() == 1


def test_an_old_link_says_so(db: None, client: Client) -> None:
    path = create_link()
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "too old" in look(client, path, status=410).text


def test_a_wrong_link_opens_nothing(db: None, client: Client) -> None:
    create_link()
    assert "opens nothing" in look(client, "/sign-in/guessed/", status=404).text


def test_only_the_hash_of_a_link_is_kept(db: None) -> None:
    token = create_link().split("/")[-2]
    assert token not in str(SignInLink.objects.values().get())


def test_with_an_administrator_there_the_link_signs_in_as_them(cast: Cast, client: Client) -> None:
    path = create_link()
    page = look(client, path)
    assert "Sign in as root" in page.text
    form = next(form for form in page.forms if "administrator" in form.fields)
    assert client.post(path, form.fields)["Location"] == "/"
    assert client.session["_auth_user_id"] == str(cast.root.pk)
    assert Client().post(path, form.fields).status_code == 410


def test_the_link_signs_in_no_one_but_an_administrator(cast: Cast, client: Client) -> None:
    response = client.post(create_link(), {"administrator": "ann"})
    assert response.status_code == 404
    assert "_auth_user_id" not in client.session


def test_a_weak_password_is_refused_and_the_link_stays(db: None, client: Client) -> None:
    path = create_link()
    response = client.post(path, {"username": "maria", "password": "password"})
    assert response.status_code == 422
    assert not User.objects.exists()
    assert SignInLink.objects.get().used_at is None


def test_the_command_prints_a_link_that_works(db: None, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sign_in_link")
    look(client, capsys.readouterr().out.strip())


def test_an_empty_desk_says_how_to_get_in(db: None, client: Client) -> None:
    assert "Nobody can sign in yet" in look(client, SIGN_IN).text


# ------------------------------------------------------------------------------------------------- a session that ended


def test_text_survives_a_session_that_ended(cast: Cast, client: Client, payment: Interrupt) -> None:
    client.force_login(cast.ann)
    page = look(client, f"/interrupts/{payment.pk}/")
    client.logout()
    response = press(client, page, "reject", why="A long thought")
    shown = page_of(response)
    assert response.status_code == 401
    assert "nothing was recorded" in shown.text
    fields = next(form.fields for form in shown.forms if "kept" in form.fields)
    back = client.post(SIGN_IN, fields | {"username": "ann", "password": PASSWORD})
    assert back["Location"] == f"/interrupts/{payment.pk}/"
    assert "A long thought" in look(client, back["Location"]).html
    assert not Decision.objects.exists()


def test_kept_text_goes_to_nobody_who_may_not_decide(cast: Cast, client: Client, payment: Interrupt) -> None:
    response = client.post(f"/interrupts/{payment.pk}/", {f"d{payment.pk}-0-why": "A long thought"})
    fields = next(form.fields for form in page_of(response).forms if "kept" in form.fields)
    client.post(SIGN_IN, fields | {"username": "otto", "password": PASSWORD})
    assert client.get(f"/interrupts/{payment.pk}/").status_code == 404
    assert not cast.otto.drafts.exists()


def test_a_broken_seal_is_ignored(cast: Cast, client: Client) -> None:
    assert enter(client, "ann", kept="forged", next="/")["Location"] == "/"


def test_a_part_of_a_page_is_told_that_nobody_is_signed_in(cast: Cast, client: Client, payment: Interrupt) -> None:
    response = client.get("/count/", headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert "You are signed out" in page_of(response).text


def test_a_message_survives_too(cast: Cast, client: Client) -> None:
    path = reverse("reviews:thread", args=[cast.thread.pk])
    response = client.post(path, {"text": "A long message"})
    fields = next(form.fields for form in page_of(response).forms if "kept" in form.fields)
    back = client.post(SIGN_IN, fields | {"username": "olga", "password": PASSWORD})
    assert "A long message" in look(client, back["Location"]).html


def test_how_one_signed_in_stands_in_the_log(cast: Cast, client: Client, payment: Interrupt) -> None:
    enter(client, "ann")
    press(client, look(client, f"/interrupts/{payment.pk}/"), "approve")
    assert '"signed_in":"password"' in AuditEntry.objects.get(kind="decision recorded").body


# ------------------------------------------------------------------------------------------------------------- password


def test_a_password_of_ones_own(cast: Cast, client: Client) -> None:
    client.force_login(cast.ann)
    new = {"new_password1": "another good one", "new_password2": "another good one"}
    assert client.post("/settings/password/", {**new, "old_password": "wrong"}).status_code == 422
    assert client.post("/settings/password/", {**new, "old_password": PASSWORD}).status_code == 302
    assert look(client, "/settings/").text.count("Password kept") == 1
    assert enter(Client(), "ann", "another good one").status_code == 302


def test_who_has_no_password_sets_one_without(cast: Cast, client: Client) -> None:
    cast.root.set_unusable_password()
    cast.root.save()
    client.force_login(cast.root)
    new = {"new_password1": "another good one", "new_password2": "another good one"}
    assert client.post("/settings/password/", new).status_code == 302


# ------------------------------------------------------------------------------------------------- who a session is of


def test_a_session_begun_before_an_upgrade_goes_on(cast: Cast, client: Client) -> None:
    """Sessions hold the name of what reads their person, and a signature with the name of the store."""
    before = DjangosStore()
    before["_auth_user_id"] = str(cast.ann.pk)
    before["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    before["_auth_user_hash"] = cast.ann.get_session_auth_hash()
    before.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = before.session_key or ""
    assert client.get("/").status_code == 200


def test_a_session_that_has_ended_opens_nothing(cast: Cast, client: Client) -> None:
    enter(client, "ann")
    assert client.session["_auth_user_backend"] == "reviews.sessions.SignedIn"
    assert client.get("/").status_code == 200
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/")["Location"].startswith(SIGN_IN)


def test_nobody_stays_who_was_made_inactive_or_has_a_new_password(cast: Cast, client: Client) -> None:
    other = Client()
    for one in (client, other):
        enter(one, "ann")
    cast.ann.set_password("another good one")
    cast.ann.save()
    assert client.get("/")["Location"].startswith(SIGN_IN)
    enter(client, "ann", "another good one")
    assert client.get("/").status_code == 200
    User.objects.filter(pk=cast.ann.pk).update(is_active=False)
    assert client.get("/")["Location"].startswith(SIGN_IN)
    User.objects.filter(pk=cast.ann.pk).update(is_active=True)
    assert client.get("/").status_code == 200
    assert other.get("/").status_code == 302


def test_what_is_no_session_opens_nothing(cast: Cast, client: Client) -> None:
    for key in ("x" * 32, "short", "", "a'b" * 20):
        client.cookies[settings.SESSION_COOKIE_NAME] = key
        assert client.get("/").status_code == 302


def test_a_wrong_password_is_hashed_once(cast: Cast, client: Client) -> None:
    """What reads the person of a session asks for no passwords: a wrong one costs as much as before."""
    with patch.object(ModelBackend, "authenticate", autospec=True, return_value=None) as asked:
        assert enter(client, "ann", "no").status_code == 422
    assert asked.call_count == 1
