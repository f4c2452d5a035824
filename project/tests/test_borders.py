"""The borders that import-linter cannot draw: parts of a package, and the modules of agents that reviews may know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# fields: both sides keep canonical bytes, in the same kind of column. heartbeat: a process that ends drains its runs.
# streams, queue, status, workers: what a thread tells, what waits, how it stands, who works: rows, not graphs.
# statements: how both ask the database by hand where the ORM is slow; it knows no table.
# compiled: queries of either side that the ORM writes once; it knows no table either.
REVIEWS_MAY_KNOW = {"fields", "heartbeat", "outcome", "runner", "runs", "history", "registry", "models"}
REVIEWS_MAY_KNOW |= {"streams", "queue", "status", "workers", "statements", "compiled"}


@cache
def imports(package: str) -> tuple[tuple[str, str], ...]:
    """Return (file, what it imports in full) for each import of the package, tests left out."""
    return tuple(_imports(package))


def _imports(package: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    yield from ((str(path.relative_to(ROOT)), alias.name) for alias in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield from ((str(path.relative_to(ROOT)), f"{module}.{alias.name}") for alias in names)


@pytest.mark.parametrize(
    "forbidden", ["django.http", "django.shortcuts", "django.urls", "django.contrib.auth", "reviews"]
)
def test_agents_know_neither_pages_nor_people(forbidden: str) -> None:
    assert [pair for pair in imports("agents") if f"{pair[1]}.".startswith(f"{forbidden}.")] == []


def test_reviews_know_the_border_of_agents_only() -> None:
    known = {f"agents.{name}" for name in REVIEWS_MAY_KNOW}
    crossings = [(file, name) for file, name in imports("reviews") if name.split(".")[0] == "agents"]
    assert crossings  # the walk found something to judge
    foreign = [(file, name) for file, name in crossings if ".".join(name.split(".")[:2]) not in known]
    assert foreign == []


def test_nothing_below_imports_the_project() -> None:
    upward = [
        pair for package in ("agents", "reviews") for pair in imports(package) if pair[1].split(".")[0] == "project"
    ]
    assert upward == []
