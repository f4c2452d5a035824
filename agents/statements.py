"""Statements for which each step of a graph waits, or each page: straight to the driver, past Django's cursors.

Those write the parameters of PostgreSQL into the text of each statement. Here they go beside it, as bytes; what a step
of a graph waits for is planned once a connection.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from agents.connections import current

# The time now, as the columns hold it.
NOW = {"postgresql": "statement_timestamp()", "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"}


def execute(sql: str, params: Sequence[Any] = (), *, prepare: bool = True) -> list[tuple[Any, ...]]:
    """Execute one statement on this thread's connection, in its transaction if there is one, and return its rows.

    Without ``prepare`` it is planned for its parameters. Errors are those of django.db.
    """
    link = current()
    try:
        if link.vendor == "sqlite":
            return link.connection.execute(_for_sqlite(sql), params).fetchall()  # type: ignore[no-any-return]
        return _on_postgresql(link, sql, params, prepare)
    except Exception:
        with link.wrap_database_errors:
            raise


def select(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a page's statement, which the ORM takes five to ten times as long to write and read.

    A list is one parameter: ``= any(%s)``. Times and JSON come as each database has them: ``moment``, ``parsed``.
    Never prepared: a plan for the average of a long and a short thread walked through the long one to find the other.
    """
    link = current()
    if link.queries_logged:  # tests count what a page asks
        link.queries_log.append({"sql": sql, "time": "0"})
    if link.vendor == "sqlite":
        params = [json.dumps(one) if isinstance(one, list) else one for one in params]
    return execute(sql, params, prepare=False)


def moment(value: datetime | str) -> datetime:
    """Read a time that ``select`` returned. SQLite's are text in UTC, and naive where it knows their column."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def parsed(value: Any) -> Any:
    """Read JSON that ``select`` returned."""
    return json.loads(value) if isinstance(value, str) else value


def changed(sql: str, params: Sequence[Any]) -> int:
    """Execute one statement on SQLite and count the rows that it wrote. It must not begin with `with`."""
    link = current()
    try:
        return link.connection.execute(_for_sqlite(sql), params).rowcount  # type: ignore[no-any-return]
    except Exception:
        with link.wrap_database_errors:
            raise


def execute_both(sql: str, params: Sequence[Any], many_sql: str, many: Sequence[Sequence[Any]]) -> bool:
    """Execute two statements on SQLite, the second for each of ``many``. Both count, or neither does.

    False, and neither does, unless the first wrote a row and the second one each time. Nothing else writes meanwhile.
    Django's own transactions take longer than what is written.
    """
    link = current()
    execute_one, joins, done = link.connection.execute, link.in_atomic_block, False
    try:
        execute_one("savepoint both" if joins else "begin immediate")
        try:
            if execute_one(_for_sqlite(sql), params).rowcount > 0:
                done = link.connection.executemany(_for_sqlite(many_sql), many).rowcount == len(many)
        finally:
            if not done:
                execute_one("rollback to both" if joins else "rollback")
            if done or joins:
                execute_one("release both" if joins else "commit")
    except Exception:
        with link.wrap_database_errors:
            raise
    return done


@lru_cache(maxsize=256)
def _for_sqlite(sql: str) -> str:
    sql = sql.replace("= any(%s)", "in (select value from json_each(?))")
    return sql.replace("%s", "?").replace("%%", "%")


def _on_postgresql(link: BaseDatabaseWrapper, sql: str, params: Sequence[Any], prepare: bool) -> list[tuple[Any, ...]]:
    cursor = _cursors()(link.connection)
    cursor.execute(sql, params, prepare=prepare, binary=True)  # prepared if the settings say so
    result = cursor.pgresult  # `description` says it too, and makes an object for each column
    return cursor.fetchall() if result is not None and result.nfields else []


@cache
def _cursors() -> Any:
    from psycopg import Cursor  # a desk on SQLite has no need of it

    return Cursor
