"""Statements for which each step of a graph waits: straight to the driver, past Django's cursors.

Those write the parameters of PostgreSQL into the text of each statement, which is then parsed and planned anew. Here
they go beside it, as bytes, and a statement is planned once a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from agents.connections import current


def execute(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Execute one statement on this thread's connection, in its transaction if there is one, and return its rows.

    Errors are those of django.db.
    """
    link = current()
    try:
        if link.vendor == "sqlite":
            return link.connection.execute(_for_sqlite(sql), params).fetchall()  # type: ignore[no-any-return]
        return _on_postgresql(link, sql, params)
    except Exception:
        with link.wrap_database_errors:
            raise


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
    return sql.replace("%s", "?").replace("%%", "%")


def _on_postgresql(link: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    from psycopg import Cursor  # a desk on SQLite has no need of it

    cursor = Cursor(link.connection)
    cursor.execute(sql, params, prepare=True, binary=True)  # prepared if the settings say so
    return cursor.fetchall() if cursor.description else []
