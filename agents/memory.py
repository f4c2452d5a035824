"""LangGraph's store on our tables: what agents remember across threads. Without vectors, as a store without an index.

Tools get it as ``runtime.store`` or ``InjectedStore``. It is one store for all agents, as on LangGraph's own server,
and stands beside the threads: a fork or a rewind takes nothing back in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Left, Now
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from agents import connections
from agents.models import StoreItem
from agents.outcome import NotCanonical, canonical_bytes

_DOT = "."  # between the labels of a namespace; LangGraph refuses labels that hold it
MAX_NAME = 500  # characters of a namespace with its dots, and of a key


class Unstorable(ValueError):
    """A key or a value that the store cannot keep. The message says which, and what can be kept."""


class DjangoStore(BaseStore):
    """Each batch is one transaction, its operations in their order: what is put is found by the next of them."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return connections.run(_batch, list(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await connections.arun(_batch, list(ops))


def _batch(ops: Sequence[Op]) -> list[Result]:
    for op in ops:
        validate_op_namespace(op)
    with transaction.atomic():
        return [_result(op) for op in ops]


def _result(op: Op) -> Result:
    match op:
        case GetOp():
            return _get(op)
        case PutOp():
            _put(op)
            return None
        case SearchOp():
            return _search(op)
        case ListNamespacesOp():
            return _namespaces(op)
        case _:
            raise ValueError(f"The store knows no operation {type(op).__name__}.")


def _get(op: GetOp) -> Item | None:
    row = StoreItem.objects.filter(namespace=_name(op.namespace), key=op.key).first()
    return None if row is None else Item(**_facts(row))


def _put(op: PutOp) -> None:
    if op.value is None:
        StoreItem.objects.filter(namespace=_name(op.namespace), key=op.key).delete()
        return
    row = StoreItem(namespace=_name(op.namespace), key=op.key, value=op.value, created_at=Now(), updated_at=Now())
    _check(row)
    StoreItem.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["namespace", "key"], update_fields=["value", "updated_at"]
    )


def _check(row: StoreItem) -> None:
    for what, text in (("key", row.key), ("namespace", row.namespace)):
        if not isinstance(text, str) or len(text) > MAX_NAME or not _is_text(text):
            raise Unstorable(f"The store takes a {what} of at most {MAX_NAME} characters of text, not {text!r:.200}.")
    try:
        canonical_bytes(row.value)
    except NotCanonical as error:
        raise Unstorable(f"The value of {row.key!r} in {row.namespace!r} cannot be stored as JSON: {error}") from error


def _is_text(text: str) -> bool:
    """Tell whether a database takes it: no NUL, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _search(op: SearchOp) -> list[SearchItem]:
    rows = _within(op.namespace_prefix).order_by("-updated_at", "namespace", "key")
    start, end = op.offset, op.offset + op.limit
    if not op.filter:
        return [SearchItem(**_facts(row)) for row in rows[start:end]]
    wanted = op.filter.items()
    fits = (row for row in rows.iterator() if all(_equals(row.value.get(name), value) for name, value in wanted))
    return [SearchItem(**_facts(row)) for row in islice(fits, start, end)]


def _within(prefix: tuple[str, ...]) -> QuerySet[StoreItem]:
    if not prefix:
        return StoreItem.objects.all()
    inner = f"{_name(prefix)}{_DOT}"
    # SQLite's LIKE takes a for A, so the beginning is compared too.
    begins = Q(namespace__startswith=inner, beginning=Value(inner))
    return StoreItem.objects.alias(beginning=Left(F("namespace"), len(inner))).filter(
        Q(namespace=_name(prefix)) | begins
    )


def _namespaces(op: ListNamespacesOp) -> list[tuple[str, ...]]:
    names = StoreItem.objects.order_by().values_list("namespace", flat=True).distinct()
    found = (tuple(name.split(_DOT)) for name in names)
    kept = {labels[: op.max_depth] for labels in found if all(_fits(one, labels) for one in op.match_conditions or ())}
    return sorted(kept)[op.offset : op.offset + op.limit]


def _fits(condition: MatchCondition, labels: tuple[str, ...]) -> bool:
    path = condition.path
    if len(labels) < len(path):
        return False
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[len(labels) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _name(namespace: tuple[str, ...]) -> str:
    return _DOT.join(namespace)


def _facts(row: StoreItem) -> dict[str, Any]:
    return {
        "value": row.value,
        "key": row.key,
        "namespace": tuple(row.namespace.split(_DOT)),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


# --------------------------------------------------------------------------------------------------------------- filter


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, other: bool(value == other),
    "$ne": lambda value, other: bool(value != other),
    "$gt": lambda value, other: bool(value > other),
    "$gte": lambda value, other: bool(value >= other),
    "$lt": lambda value, other: bool(value < other),
    "$lte": lambda value, other: bool(value <= other),
}


def _equals(value: Any, wanted: Any) -> bool:
    """Compare one value with a filter: an operator, an object whose names must fit, or the value itself."""
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        return all(_holds(value, operator, other) for operator, other in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(_equals(value.get(name), other) for name, other in wanted.items())
    return bool(value == (list(wanted) if isinstance(wanted, tuple) else wanted))


def _holds(value: Any, operator: str, other: Any) -> bool:
    if operator not in _OPERATORS:
        raise ValueError(f"The store's filter knows no {operator}; it knows {', '.join(_OPERATORS)}.")
    try:
        return _OPERATORS[operator](value, other)
    except TypeError:  # a text is neither more nor less than a number
        return False
