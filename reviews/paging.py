"""Pages by key, not by number: a page stays where it was while rows come and go, and costs the same far down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from django.core.exceptions import ValidationError
from django.db import connection, models
from django.db.models import F, Q
from django.db.models.functions import Cast

Row = TypeVar("Row", bound=models.Model)
PAGE = 50
LONGEST_KEY = 64  # characters


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Some rows, and the cursor of the page after them ("" when there is none)."""

    rows: list[Row]
    after: str


def by_time(rows: models.QuerySet[Row], *, field: str, after: str, newest_first: bool, size: int = PAGE) -> Page[Row]:
    """Return the rows that follow cursor ``after`` in the order of ``field`` and primary key.

    A cursor that cannot be read counts as none: a link somebody cut short leads to the first page.
    """
    place = _read_cursor(after, rows.model._meta.pk)
    if place is not None:
        side, (moment, key) = "lt" if newest_first else "gt", place
        timed: Any = rows.alias(written=as_written(field))
        rows = timed.filter(Q(**{f"written__{side}": moment}) | Q(**{"written": moment, f"pk__{side}": key}))
    return cut(list(first_page(rows, field=field, newest_first=newest_first, size=size)), size=size)


def first_page(
    rows: models.QuerySet[Row], *, field: str, newest_first: bool = False, size: int = PAGE
) -> models.QuerySet[Row]:
    """Return the first rows in the order of ``field`` and primary key, and the one after them, for ``cut``."""
    sign = "-" if newest_first else ""
    timed: Any = rows.annotate(written=as_written(field))
    return cast("models.QuerySet[Row]", timed.order_by(f"{sign}{field}", f"{sign}pk")[: size + 1])


def cut(found: list[Row], *, size: int = PAGE) -> Page[Row]:
    """Make a page of ``first_page``."""
    return _page(found, size=size, cursor=_written)


def _written(row: Any) -> str:
    return f"{row.written}~{row.pk}"


def as_written(field: str) -> Any:
    """Return a time as the database compares it.

    SQLite has texts: with three digits of a second from its own clock, with six or none from Python. The same moment as
    a parameter is another text, and is equal to no row.
    """
    return Cast(field, models.TextField()) if connection.vendor == "sqlite" else F(field)


def by_key(rows: models.QuerySet[Row], *, after: str, size: int = PAGE) -> Page[Row]:
    """Return the rows with a primary key (a number) below cursor ``after``, the highest first."""
    if after.isascii() and after.isdigit():
        rows = rows.filter(pk__lt=int(after[:18]))
    return _page(list(rows.order_by("-pk")[: size + 1]), size=size, cursor=lambda row: str(row.pk))


def _page(found: list[Row], *, size: int, cursor: Callable[[Row], str]) -> Page[Row]:
    more = len(found) > size
    return Page(rows=found[:size], after=cursor(found[size - 1]) if more else "")


def _read_cursor(after: str, key_field: Any) -> tuple[Any, Any] | None:
    moment, _, key = after.partition("~")
    if not key or len(key) > LONGEST_KEY or "\x00" in key:
        return None
    try:
        read, place = datetime.fromisoformat(moment), key_field.to_python(key)
    except (ValueError, ValidationError):
        return None
    if connection.vendor == "sqlite":
        return (moment, place)
    return (read, place) if read.tzinfo is not None else None
