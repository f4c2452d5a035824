"""Queries that the ORM writes once: for what each page, each decision and each run asks.

Django composes a query's text anew each time, which takes five to ten times as long as the database needs to answer it.
What is compiled here is written at its first call, for parameters whose values are not known yet, and executed as it
stands from then on; rows become the same objects. So the models stay the one place that knows columns. What no Django
but the pinned one promises is used here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any, Generic, TypeVar, cast

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, Lookup, QuerySet
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable, get_related_populators
from django.db.models.sql import UpdateQuery

R = TypeVar("R")


class Given(Expression):
    """A parameter whose value comes with each call. The column it is compared with, or written to, says its type."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.column: Field[Any, Any] | None = None
        self.is_list = False

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        return "%s", [self]

    def ready(self, value: Any, link: BaseDatabaseWrapper) -> Any:
        """Return a value as the database takes it."""
        prepare = cast("Field[Any, Any]", self.column).get_db_prep_value
        if not self.is_list:
            return prepare(value, link)
        values = [prepare(one, link) for one in value]
        return json.dumps(values) if link.vendor == "sqlite" else values


@Field.register_lookup
class AnyOf(Lookup):
    """``in`` for a list that is one parameter: ``filter(pk__any_of=given)``."""

    lookup_name = "any_of"

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        left, params = self.process_lhs(compiler, connection)
        self.rhs.is_list = True
        right = "in (select value from json_each(%s))" if connection.vendor == "sqlite" else "= any(%s)"
        return f"{left} {right}", [*params, self.rhs]


class _Written:
    """The text of a statement for each kind of database, written when it is first needed."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.names = tuple(signature(build).parameters)

    def built(self) -> Any:
        return self.build(*map(Given, self.names))

    def values(self, params: Iterable[Any], given: Sequence[Any], link: BaseDatabaseWrapper) -> list[Any]:
        by_name = dict(zip(self.names, given, strict=True))
        return [one.ready(by_name[one.name], link) if isinstance(one, Given) else one for one in params]


class Compiled(_Written, Generic[R]):
    """Call it with the parameters of ``build``, which returns a queryset, and it returns the rows."""

    def __init__(self, build: Callable[..., QuerySet[Any, R]]) -> None:
        super().__init__(build)
        self._texts: dict[str, tuple[str, Sequence[Any], Callable[[Any, BaseDatabaseWrapper], list[R]]]] = {}

    def __call__(self, *given: Any) -> list[R]:
        link = connections[DEFAULT_DB_ALIAS]
        sql, params, read = self._texts.get(link.vendor) or self._write(link)
        with link.cursor() as cursor:
            cursor.execute(sql, self.values(params, given, link))
            return read(cursor.fetchall(), link)

    def first(self, *given: Any) -> R | None:
        """Return the first row, None without one. Where there may be many, the query says ``[:1]``."""
        rows = self(*given)
        return rows[0] if rows else None

    def _write(self, link: BaseDatabaseWrapper) -> Any:
        queryset = self.built()
        compiler = queryset.query.get_compiler(connection=link)
        sql, params = compiler.as_sql()
        _find_columns([queryset.query.where, *queryset.query.annotations.values()])
        _check(params)
        self._texts[link.vendor] = sql, params, _reader(queryset, compiler)
        return self._texts[link.vendor]


class CompiledUpdate(_Written):
    """Call it with the parameters of ``build``, which returns a queryset and its new values; it counts the rows."""

    def __init__(self, build: Callable[..., tuple[QuerySet[Any, Any], dict[str, Any]]]) -> None:
        super().__init__(build)
        self._texts: dict[str, tuple[str, Sequence[Any]]] = {}

    def __call__(self, *given: Any) -> int:
        link = connections[DEFAULT_DB_ALIAS]
        sql, params = self._texts.get(link.vendor) or self._write(link)
        with link.cursor() as cursor:
            cursor.execute(sql, self.values(params, given, link))
            return int(cursor.rowcount)

    def _write(self, link: BaseDatabaseWrapper) -> tuple[str, Sequence[Any]]:
        queryset, values = self.built()
        query = queryset.query.chain(UpdateQuery)
        query.add_update_values(values)
        for field, _, value in query.values:
            if isinstance(value, Given):
                value.column = field
        sql, params = query.get_compiler(connection=link).as_sql()
        _find_columns([query.where])
        _check(params)
        self._texts[link.vendor] = sql, params
        return sql, params


def _find_columns(nodes: Iterable[Any]) -> None:
    """Tell each parameter below these nodes which column it is compared with."""
    for node in nodes:
        if isinstance(node, Lookup) and isinstance(node.rhs, Given):
            node.rhs.column = node.lhs.output_field
        if inner := getattr(node, "query", None):
            _find_columns([inner.where, *inner.annotations.values()])
        if hasattr(node, "get_source_expressions"):
            _find_columns(node.get_source_expressions())


def _check(params: Sequence[Any]) -> None:
    if unknown := [one.name for one in params if isinstance(one, Given) and one.column is None]:
        raise TypeError(f"Compare each parameter with a column; these are not: {', '.join(unknown)}.")


def _reader(queryset: Any, compiler: Any) -> Callable[[Any, BaseDatabaseWrapper], list[Any]]:
    """Return what makes of a query's rows the objects, tuples or single values that the queryset would yield."""
    columns = [one[0] for one in compiler.select[: compiler.col_count]]
    converters = list(compiler.get_converters(columns).items())
    make = _maker(queryset, compiler)

    def read(rows: Any, link: BaseDatabaseWrapper) -> list[Any]:
        found = []
        for fetched in rows:
            row = list(fetched)
            for place, (converts, column) in converters:
                for convert in converts:
                    row[place] = convert(row[place], column, link)
            found.append(make(row))
        return found

    return read


def _maker(queryset: Any, compiler: Any) -> Callable[[list[Any]], Any]:
    kind, width = queryset._iterable_class, compiler.col_count
    if kind is FlatValuesListIterable:
        return lambda row: row[0]
    if kind is ValuesListIterable:
        return lambda row: tuple(row[:width])
    if kind is not ModelIterable or queryset._prefetch_related_lookups:
        raise TypeError("Only models, without prefetched others, and values_list() can be compiled.")
    model, places = compiler.klass_info["model"], compiler.klass_info["select_fields"]
    start, end = places[0], places[-1] + 1
    names = [one[0].target.attname for one in compiler.select[start:end]]
    related = get_related_populators(compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]
    annotated = list((compiler.annotation_col_map or {}).items())

    def make(row: list[Any]) -> Any:
        made = model.from_db(DEFAULT_DB_ALIAS, names, row[start:end])
        for other in related:
            other.populate(row, made)
        for name, place in annotated:
            setattr(made, name, row[place])
        return made

    return make
