"""The small shop on which the catalog's agents really act: its database, its files, and a record of every effect.

Everything lies below ``home()``. Safe for threads and processes, because the records are rows of SQLite: a killed
worker leaves a whole row or none, where it could tear the last line of a text file.
"""

from __future__ import annotations

import json
import os
import posixpath
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

WORKSPACE = "/workspace"  # where agents believe they work; every path they name is read from here
MAX_ROWS = 50
MAX_SECONDS = 5.0  # for one SQL statement


class Refused(ValueError):
    """The shop will not do this; the message says why and is meant for the agent."""


@dataclass(frozen=True)
class Origin:
    """From which execution an effect comes; empty texts where LangGraph says nothing (no checkpointer, no tool)."""

    tool_call_id: str = ""
    thread_id: str = ""
    task_id: str = ""

    @property
    def key(self) -> str:
        """The same for a retry of one execution, another one after a fork or a replay."""
        return f"{self.thread_id}:{self.task_id}:{self.tool_call_id}"


def home() -> Path:
    """Return the directory of the demo data: ``settings.DATA_DIR/demo``, else below ``COUNTERSIGN_DATA_DIR``."""
    in_django = settings.configured or "DJANGO_SETTINGS_MODULE" in os.environ
    base = getattr(settings, "DATA_DIR", None) if in_django else None
    base = base or os.environ.get("COUNTERSIGN_DATA_DIR") or Path(tempfile.gettempdir(), f"countersign-{os.getuid()}")
    path = Path(base, "demo")
    path.mkdir(parents=True, exist_ok=True)
    return path


# -------------------------------------------------------------------------------------------------------------- effects

_EFFECTS = """create table if not exists effects (
    id integer primary key, at text not null, kind text not null, tool_call_id text not null, thread_id text not null,
    task_id text not null, args text not null, once text unique)"""


def record(kind: str, args: Mapping[str, Any], *, origin: Origin, once: bool = False) -> bool:
    """Write down that something took place. ``args`` is what was really received, as JSON.

    With ``once`` a second record of the same execution is dropped; returns False then.
    """
    row = (
        datetime.now(UTC).isoformat(),
        kind,
        origin.tool_call_id,
        origin.thread_id,
        origin.task_id,
        json.dumps(dict(args)),
        f"{kind}:{origin.key}" if once else None,
    )
    with _writing("effects.sqlite3") as database:
        database.execute(_EFFECTS)
        sql = (
            "insert into effects (at, kind, tool_call_id, thread_id, task_id, args, once)"
            " values (?, ?, ?, ?, ?, ?, ?) on conflict (once) do nothing"
        )
        return database.execute(sql, row).rowcount == 1


def effects(kind: str = "", *, thread_id: str = "") -> list[dict[str, Any]]:
    """Return the effects of a kind (all without one), oldest first.

    Each is ``{"id", "at", "kind", "tool_call_id", "thread_id", "task_id", "args"}``. Kinds: read, refund, email, file,
    sql, note, letter, purchase, restart, deployment, booking, publication, account, name.
    """
    sql = (
        "select id, at, kind, tool_call_id, thread_id, task_id, args from effects"
        " where ? in ('', kind) and ? in ('', thread_id) order by id"
    )
    with _writing("effects.sqlite3") as database:
        database.execute(_EFFECTS)
        database.row_factory = sqlite3.Row
        rows = database.execute(sql, (kind, thread_id)).fetchall()
    return [dict(row) | {"args": json.loads(row["args"])} for row in rows]


@contextmanager
def _writing(name: str) -> Iterator[sqlite3.Connection]:
    """Open a database of the shop for one transaction; waits for others up to 20 s."""
    database = sqlite3.connect(home() / name, timeout=20, isolation_level=None)
    try:
        database.execute("begin immediate")
        yield database
        database.execute("commit")
    finally:
        database.close()  # what was not committed is rolled back


# ---------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Place:
    """Where a path leads: the absolute path as the agent sees it, and whether it lies inside the workspace."""

    path: str
    inside: bool


def place(path: str) -> Place:
    """Read a path as the agent means it, relative to the workspace. Pure: looks at the text only."""
    whole = "/" + posixpath.normpath(posixpath.join(WORKSPACE, path)).lstrip("/")
    return Place(whole, whole.startswith(WORKSPACE + "/"))


def write_text(path: str, content: str, *, overwrite: bool) -> str:
    """Write a file and return its path as the agent sees it.

    The agent's root directory is ours: what lies outside the workspace goes below ``home()/outside``, so nothing an
    agent names can leave the demo data. Raises Refused.
    """
    target = place(path)
    if target.path in ("/", WORKSPACE):
        raise Refused(f"{target.path} is a directory.")
    root = home() / ("workspace" if target.inside else "outside")
    real = root / (target.path.removeprefix(WORKSPACE) if target.inside else target.path).lstrip("/")
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if overwrite else os.O_EXCL)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        if not real.parent.resolve().is_relative_to(root.resolve()):
            raise Refused(f"{target.path} leads out of the demo data.")
        with open(os.open(real, flags, 0o644), "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)
    except FileExistsError:
        raise Refused(f"{target.path} is there already; say overwrite to replace it.") from None
    except (OSError, ValueError) as problem:  # a directory, a name too long, a NUL in the name
        if isinstance(problem, Refused):
            raise
        raise Refused(f"{target.path!r} cannot be written: {problem.__class__.__name__}.") from problem
    return target.path


# -------------------------------------------------------------------------------------------------------- shop database

_SHOP = """
create table customers (id text primary key, name text not null, email text not null);
insert into customers values
    ('C-2193', 'Ines Krug', 'ines.krug@example.test'), ('C-2207', 'Tom Abel', 'tom.abel@example.test'),
    ('C-2120', 'Mara Lind', 'mara.lind@example.test'), ('C-2055', 'Jo Weiss', 'jo.weiss@example.test');
create table orders (id integer primary key, customer text not null, item text not null, total real not null,
    paid_by text not null, state text not null);
insert into orders values
    (10482, 'C-2193', 'Lamp, brass', 129.0, 'card', 'delivered 24 Nov'),
    (10490, 'C-2207', 'Cushion, blue', 24.9, 'card', 'delivered 27 Nov'),
    (10391, 'C-2120', 'Tea set', 74.5, 'card', 'lost by the carrier'),
    (10311, 'C-2055', 'Bookshelf', 349.0, 'invoice', 'on its way, due 4 Dec');
create table carts (id integer primary key, customer text, updated_at text not null, order_id integer);
insert into carts select value, 'C-' || (2000 + value), date('2026-12-01', '-' || (value * 9) || ' days'), null
    from (with recursive n(value) as (select 1 union all select value + 1 from n where value < 40) select value from n);
create table payments (id integer primary key, order_id integer not null, amount real not null, state text not null,
    day text not null);
insert into payments values
    (1, 10311, 349.0, 'open', '2026-11-20'), (2, 10391, 74.5, 'settled', '2026-10-02'),
    (3, 10482, 129.0, 'settled', '2026-11-18'), (4, 10490, 24.9, 'settled', '2026-11-22'),
    (5, 9901, 59.0, 'settled', '2025-03-04'), (6, 9902, 12.5, 'settled', '2025-07-15');
"""

_NEVER = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_TRANSACTION)


@dataclass(frozen=True)
class Result:
    """What a statement gave: at most 50 rows, whether there were more, and the number of rows it changed."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool
    changed: int

    def __str__(self) -> str:
        if not self.columns:
            return f"{self.changed} rows changed."
        lines = [" | ".join(self.columns), *(" | ".join(map(str, row)) for row in self.rows)]
        return "\n".join([*lines, f"More than {MAX_ROWS} rows; the rest is left out."] if self.more else lines)


def is_select(statement: str) -> bool:
    """Say whether this is one plain SELECT. What is less clear (a comment first, WITH, a semicolon inside) is not."""
    text = statement.strip().removesuffix(";")
    return text[:6].upper() == "SELECT" and not text[6:7].isalnum() and ";" not in text


def run_sql(statement: str, values: tuple[Any, ...] = ()) -> Result:
    """Run one statement on the shop's database and commit; a SELECT where nothing can be written. Raises Refused."""
    _open_shop()
    mode = "ro" if is_select(statement) else "rw"
    address = f"{(home() / 'shop.sqlite3').resolve().as_uri()}?mode={mode}"
    database = sqlite3.connect(address, uri=True, timeout=20, isolation_level=None)
    try:
        database.execute("begin" if mode == "ro" else "begin immediate")
        result = _guarded(database, statement, values)
        database.execute("commit")
    except (sqlite3.Error, sqlite3.Warning, ValueError) as problem:
        raise Refused(f"The database refused: {str(problem).rstrip('.')}.") from problem
    finally:
        database.close()
    return result


def _guarded(database: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> Result:
    """Run a statement that can neither reach other files, nor end our transaction, nor run for long."""
    until = time.monotonic() + MAX_SECONDS
    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in _NEVER else sqlite3.SQLITE_OK)
    database.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    cursor = database.execute(statement, values)
    rows = cursor.fetchmany(MAX_ROWS + 1) if cursor.description else []
    columns = tuple(column[0] for column in cursor.description or ())
    cursor.close()
    database.set_authorizer(None)
    return Result(columns, tuple(rows[:MAX_ROWS]), len(rows) > MAX_ROWS, max(cursor.rowcount, 0))


def _open_shop() -> None:
    """Fill the database on first use. Its version says so, not its tables: a person may have approved their removal."""
    with _writing("shop.sqlite3") as database:
        if database.execute("pragma user_version").fetchone()[0]:
            return
        for statement in _SHOP.split(";\n"):
            database.execute(statement)
        database.execute("pragma user_version = 1")
