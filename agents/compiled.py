"""Queries that the ORM writes once: for what each page, each decision and each run asks.

Django composes a query's text anew each time, which takes five to ten times as long as the database needs to answer it.
What is compiled here is written at its first call, for parameters whose values are not known yet, and executed as it
stands from then on; rows become the same objects. So the models stay the one place that knows columns. What no Django
but the pinned one promises is used here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, ForeignObject, Lookup, Model, QuerySet
from django.db.models.expressions import DatabaseDefault
from django.db.models.query import FlatValuesListIterable, ModelIterable, ValuesListIterable, get_related_populators
from django.db.models.sql import DeleteQuery, InsertQuery, Query, UpdateQuery

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
        prepare = cast("Field[Any, Any]", self.column).get_db_prep_save
        if not self.is_list:
            return prepare(value, link)
        values = [prepare(one, link) for one in value]
        return json.dumps(values) if link.vendor == "sqlite" else values


@Field.register_lookup
@ForeignObject.register_lookup  # it has none of a field's
class AnyOf(Lookup):
    """``in`` for a list that is one parameter: ``filter(pk__any_of=given)``."""

    lookup_name = "any_of"

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        left, params = self.process_lhs(compiler, connection)
        self.rhs.is_list = True
        right = "in (select value from json_each(%s))" if connection.vendor == "sqlite" else "= any(%s)"
        return f"{left} {right}", [*params, self.rhs]


class _Written:
    """A statement whose text is written when it is first needed, for each kind of database."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.names = tuple(signature(build).parameters)

    def built(self) -> Any:
        return self.build(*map(Given, self.names))

    def values(self, params: Iterable[Any], given: Sequence[Any], link: BaseDatabaseWrapper) -> list[Any]:
        return _filled(params, dict(zip(self.names, given, strict=True)), link)


def _filled(params: Iterable[Any], given: Mapping[str, Any], link: BaseDatabaseWrapper) -> list[Any]:
    """Return parameters with each ``Given`` replaced by its value, by its name."""
    return [one.ready(given[one.name], link) if isinstance(one, Given) else one for one in params]


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


class _Counting(_Written):
    """A statement that returns nothing but how many rows it found."""

    def __init__(self, build: Callable[..., Any]) -> None:
        super().__init__(build)
        self._texts: dict[str, tuple[str, Sequence[Any]]] = {}

    def __call__(self, *given: Any) -> int:
        link = connections[DEFAULT_DB_ALIAS]
        sql, params = self._texts.get(link.vendor) or self._write(link)
        with link.cursor() as cursor:
            cursor.execute(sql, self.values(params, given, link))
            return int(cursor.rowcount)

    def _write(self, link: BaseDatabaseWrapper) -> tuple[str, Sequence[Any]]:
        query = self._query()
        _find_columns([query.where])  # first: a deletion may copy it into a query of its own
        sql, params = query.get_compiler(connection=link).as_sql()
        _check(params)
        self._texts[link.vendor] = sql, params
        return sql, params

    def _query(self) -> Query:
        raise NotImplementedError


class CompiledUpdate(_Counting):
    """Call it with the parameters of ``build``, which returns a queryset and its new values; it counts the rows."""

    def __init__(self, build: Callable[..., tuple[QuerySet[Any, Any], dict[str, Any]]]) -> None:
        super().__init__(build)

    def _query(self) -> Query:
        queryset, values = self.built()
        query = queryset.query.chain(UpdateQuery)
        query.add_update_values(values)
        for field, _, value in query.values:
            for one in _givens(value):
                one.column = field
        return cast("Query", query)


class CompiledDelete(_Counting):
    """``build`` returns a queryset: its rows go, and nothing that points at them. It counts them."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        super().__init__(build)

    def _query(self) -> Query:
        return cast("Query", self.built().query.chain(DeleteQuery))


_inserts: dict[Any, tuple[str, Sequence[Any], Sequence[Field[Any, Any]]]] = {}


def insert(rows: Sequence[Model]) -> None:
    """Store new objects, as ``bulk_create`` does. The text for one alone, which is the rule, is written once."""
    if len(rows) != 1:
        for model in {type(row) for row in rows}:
            model._base_manager.bulk_create(rows)
        return
    [made], link = rows, connections[DEFAULT_DB_ALIAS]
    meta = made._meta
    fields = [one for one in meta.local_concrete_fields if one is not meta.auto_field or made.pk is not None]
    values = [one.pre_save(made, add=True) for one in fields]
    written = tuple(value if hasattr(value, "as_sql") else None for value in values)
    by_default = tuple(DatabaseDefault if isinstance(one, DatabaseDefault) else one for one in written)
    key = type(made), link.vendor, by_default
    sql, params, returned = _inserts.get(key) or _write_insert(key, fields, written, link)
    given = {field.attname: value for field, value in zip(fields, values, strict=True)}
    with link.cursor() as cursor:
        cursor.execute(sql, _filled(params, given, link))
        for field, value in zip(returned, cursor.fetchone() if returned else (), strict=True):
            setattr(made, field.attname, value)
    made._state.adding, made._state.db = False, DEFAULT_DB_ALIAS


def _write_insert(key: Any, fields: Sequence[Any], written: Sequence[Any], link: BaseDatabaseWrapper) -> Any:
    model = key[0]
    row: Any = SimpleNamespace()
    for field, expression in zip(fields, written, strict=True):
        value = expression
        if value is None:
            value = Given(field.attname)
            value.column = field
        setattr(row, field.attname, value)
    query = InsertQuery(model)
    query.insert_values(fields, [row], raw=True)
    compiler: Any = query.get_compiler(connection=link)
    compiler.returning_fields = model._meta.db_returning_fields
    [(sql, params)] = compiler.as_sql()
    _inserts[key] = sql, params, compiler.returning_fields
    return _inserts[key]


def attach(row: Model, name: str, others: Sequence[Model]) -> None:
    """Keep the rows that point at ``row`` on it, as ``prefetch_related`` does: ``row.actions.all()`` asks no more."""
    found = getattr(row, name).all()
    found._result_cache, found._prefetch_done = list(others), True
    points_here: Any = row._meta.get_field(name).remote_field
    for other in others:
        setattr(other, points_here.name, row)
    row.__dict__.setdefault("_prefetched_objects_cache", {})[name] = found


def _givens(node: Any) -> list[Given]:
    if isinstance(node, Given):
        return [node]
    return [one for inner in getattr(node, "get_source_expressions", list)() for one in _givens(inner)]


def _find_columns(nodes: Iterable[Any]) -> None:
    """Tell each parameter below these nodes which column it is compared with."""
    for node in nodes:
        if isinstance(node, Lookup) and isinstance(node.rhs, Given):
            node.rhs.column = node.lhs.output_field
        inner = node if isinstance(node, Query) else getattr(node, "query", None)
        if inner is not None:
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
    populators: Any = get_related_populators  # the stubs are those of a later Django
    related = populators(compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS)
    annotated = list((compiler.annotation_col_map or {}).items())

    def make(row: list[Any]) -> Any:
        made = model.from_db(DEFAULT_DB_ALIAS, names, row[start:end])
        for other in related:
            other.populate(row, made)
        for name, place in annotated:
            setattr(made, name, row[place])
        return made

    return make
