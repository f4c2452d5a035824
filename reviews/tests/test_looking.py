"""Who looks at what: told to others, reserved for nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from channels.layers import channel_layers
from django.db.models import F
from django.test import Client
from django.urls import reverse

from reviews import inbox, live, looks
from reviews.models import Interrupt, Look
from reviews.tests.cast import ALL, APPROVE, Cast, ask, ask_calls, decide, file_outcome, hitl, new_thread
from reviews.tests.pages import look, press
from reviews.tests.sockets import Socket, connected, doorman, stored

pytestmark = [pytest.mark.django_db, pytest.mark.long]


def signed_in(cast: Cast, name: str) -> Client:
    client = Client()
    client.force_login(getattr(cast, name))
    return client


@pytest.fixture
def ann(cast: Cast) -> Client:
    return signed_in(cast, "ann")


@pytest.fixture
def ben(cast: Cast) -> Client:
    return signed_in(cast, "ben")


def path_of(row: Interrupt) -> str:
    return reverse("reviews:interrupt", args=[row.pk])


def asked(title: str) -> Interrupt:
    (row,) = file_outcome(new_thread(title), ask_calls(("pay", {"amount": 5})))
    return row


def pass_time(seconds: float) -> None:
    Look.objects.update(until=F("until") - timedelta(seconds=seconds))


def test_opening_leaves_a_mark_on_row_and_page(ann: Client, ben: Client, payment: Interrupt) -> None:
    assert "nobody looks" in look(ann, "/").text
    assert "nobody else looks" in look(ben, path_of(payment)).text
    assert "looked at by ben" in look(ann, "/").text
    assert "looked at by ben" in look(ann, reverse("reviews:row", args=[payment.pk])).text
    assert "ben is looking at this" in look(ann, path_of(payment)).text


def test_ones_own_mark_is_not_shown_to_oneself(ben: Client, payment: Interrupt) -> None:
    for _ in range(2):
        assert "nobody else looks" in look(ben, path_of(payment)).text
    assert "looked at by" not in look(ben, "/").text


def test_several_are_counted(cast: Cast, ann: Client, ben: Client, payment: Interrupt) -> None:
    for client in (ben, signed_in(cast, "root")):
        look(client, path_of(payment))
    assert "ben and 1 other are looking at this" in look(ann, path_of(payment)).text
    assert "looked at by ben +1" in look(ann, "/").text


def test_a_mark_ends_after_two_minutes_unless_its_page_renews_it(ann: Client, ben: Client, payment: Interrupt) -> None:
    look(ben, path_of(payment))
    pass_time(looks.SECONDS - 20)
    assert ben.post(reverse("reviews:looking", args=[payment.pk])).status_code == 204
    pass_time(looks.SECONDS - 20)
    assert "ben is looking at this" in look(ann, reverse("reviews:looking", args=[payment.pk])).text
    pass_time(21)
    assert "nobody else looks" in look(ann, reverse("reviews:looking", args=[payment.pk])).text
    assert "nobody looks" in look(ann, "/").text


def test_regions_and_pages_fetched_ahead_leave_none(ann: Client, payment: Interrupt) -> None:
    ann.get(path_of(payment), headers={"HX-Request": "true"})
    ann.get(path_of(payment), headers={"Sec-Purpose": "prefetch;prerender"})
    ann.head(path_of(payment))
    ann.get(reverse("reviews:looking", args=[payment.pk]))
    assert not Look.objects.exists()


def test_who_only_reads_and_what_is_closed_leave_none(cast: Cast, ann: Client, payment: Interrupt) -> None:
    look(signed_in(cast, "aude"), path_of(payment))
    decide(cast.ann, payment, APPROVE)
    look(ann, path_of(payment))
    assert not Look.objects.exists()


def test_others_hear_nothing_of_what_they_may_not_see(cast: Cast, payment: Interrupt) -> None:
    otto = signed_in(cast, "otto")
    for ask_for in (otto.get, otto.post):
        assert ask_for(reverse("reviews:looking", args=[payment.pk])).status_code == 404
    look(signed_in(cast, "ben"), path_of(payment))
    assert not Look.objects.visible_to(cast.otto).exists()
    assert Look.objects.visible_to(cast.ann).exists()


def test_who_goes_on_to_another_question_leaves_the_first(ann: Client, ben: Client) -> None:
    first, second = asked("One"), asked("Two")
    look(ben, path_of(first))
    look(ben, path_of(second))
    assert "nobody else looks" in look(ann, path_of(first)).text
    assert "ben is looking at this" in look(ann, path_of(second)).text


def test_next_passes_over_what_somebody_else_looks_at(cast: Cast, ann: Client, ben: Client) -> None:
    first, second, third = asked("One"), asked("Two"), asked("Three")
    look(ben, path_of(second))
    page = look(ann, path_of(first))
    assert inbox.place_of(cast.ann, first, inbox.Filters()).next == third.pk
    assert press(ann, page, "approve", path=path_of(first)).url == path_of(third)


def test_next_leads_to_the_inbox_when_others_look_at_all_that_is_left(ann: Client, ben: Client) -> None:
    first, second = asked("One"), asked("Two")
    look(ben, path_of(second))
    assert press(ann, look(ann, path_of(first)), "approve", path=path_of(first)).url == "/"


def test_next_stays_in_a_pause_that_nobody_else_looks_at(cast: Cast, ann: Client) -> None:
    value = hitl(("pay", {"amount": 5}), allowed=ALL)
    first, second = file_outcome(cast.thread, *(ask(value, interrupt_id=letter * 32) for letter in "ab"))
    page = look(ann, path_of(first))
    assert set(Look.objects.values_list("interrupt_id", flat=True)) == {first.pk, second.pk}
    assert press(ann, page, "approve", path=path_of(first)).url == path_of(second)


def test_a_mark_reserves_nothing(cast: Cast, ann: Client, ben: Client, payment: Interrupt) -> None:
    look(ben, path_of(payment))
    assert press(ann, look(ann, path_of(payment)), "approve", path=path_of(payment)).status_code == 303
    payment.refresh_from_db()
    assert (payment.status, payment.decided_by) == ("decided", cast.ann)


@pytest.fixture
def door(transactional_db: None, cast: Cast, payment: Interrupt) -> Callable[..., Socket]:
    live.flush()  # of what was told when the question was filed
    channel_layers.backends.clear()  # the in-memory layer keeps the loop it was used on
    return doorman(cast)


async def test_open_pages_hear_of_a_mark_once(door: Callable[..., Socket], cast: Cast, payment: Interrupt) -> None:
    async with connected(door("ann")) as hers, connected(door("otto")) as his:
        await stored(lambda: looks.arrive(cast.ben, [payment]))
        assert await hers.receive_json_from() == {"changed": [f"look-{payment.pk}"]}
        await stored(lambda: looks.stay(cast.ben, [payment]))
        await stored(lambda: live.publish("inbox"))
        for socket in (hers, his):
            assert await socket.receive_json_from() == {"changed": ["inbox"]}


async def test_a_mark_made_before_the_line_stood_is_named(
    door: Callable[..., Socket], cast: Cast, payment: Interrupt
) -> None:
    await stored(lambda: Interrupt.objects.update(created_at=F("created_at") - timedelta(hours=1)))
    await stored(lambda: looks.arrive(cast.ben, [payment]))
    mark = await Look.objects.aget()
    made = int((mark.until - timedelta(seconds=looks.SECONDS)).timestamp())
    async with connected(door("ann", f"/ws/?since={made}")) as hers:
        assert f"look-{payment.pk}" in (await hers.receive_json_from())["changed"]
