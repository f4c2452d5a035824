"""Agents from a langgraph.json: a sample that runs, and everything that can be wrong with such a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import manifest, registry
from agents.models import Agent
from agents.tests.driving import answer, start, step

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(autouse=True)
def path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SAMPLE_GREETING", "")
    monkeypatch.delenv("SAMPLE_GREETING")
    manifest._read.cache_clear()  # it is read once a process, and these tests are one
    yield
    manifest._read.cache_clear()
    for name in [name for name in registry._built if name not in registry.names()]:
        registry._built.pop(name)


def written(folder: Path, **content: Any) -> str:
    path = folder / "langgraph.json"
    path.write_text(json.dumps(content))
    return str(path)


def problem_of(name: str) -> str:
    registry.sync()
    return Agent.objects.get(name=name).problem


def test_without_a_file_there_are_the_agents_of_the_catalog(shop: Any) -> None:
    assert "langgraph-json" not in registry.names()


@pytest.mark.parametrize("name", ["clerk", "clerk_builder", "clerk_made", "clerk_awaited"])
def test_the_sample_answers(shop: Any, settings: Any, name: str) -> None:
    settings.LANGGRAPH_JSON = str(SAMPLE / "langgraph.json")
    registry.sync()
    thread_id = start(name, "hello")
    outcome = step(thread_id)
    assert outcome.status == "success", outcome.error
    state = registry.get(name).graph.get_state({"configurable": {"thread_id": thread_id}})
    assert state.values["messages"][-1].text == "Good day: 5 crowns"


def test_the_sample_asks_and_is_answered(shop: Any, settings: Any) -> None:
    settings.LANGGRAPH_JSON = str(SAMPLE / "langgraph.json")
    registry.sync()
    thread_id = start("packaged", "hello")
    (ask,) = step(thread_id).asks
    answer(thread_id, ask, "yes", ["respond"])
    assert step(thread_id).status == "success"


def test_rows_say_what_the_file_says(shop: Any, settings: Any) -> None:
    settings.LANGGRAPH_JSON = str(SAMPLE / "langgraph.json")
    registry.sync()
    row = Agent.objects.get(name="clerk_made")
    assert (row.title, row.description, row.problem) == ("Clerk made", "Made by a function.", "")
    assert not Agent.objects.filter(name="langgraph-json").exists()


def test_an_environment_that_is_set_is_stronger(shop: Any, settings: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SAMPLE_GREETING", "Here")
    monkeypatch.setenv("SAMPLE_NUMBER", "")
    monkeypatch.delenv("SAMPLE_NUMBER")
    settings.LANGGRAPH_JSON = written(
        tmp_path, graphs={"a": "./a.py:g"}, env={"SAMPLE_GREETING": "There", "SAMPLE_NUMBER": 5}
    )
    registry.names()
    assert (os.environ["SAMPLE_GREETING"], os.environ["SAMPLE_NUMBER"]) == ("Here", "5")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("{", "is no JSON"),
        ("[]", "must hold an object"),
        ("{}", "graphs: it must be an object"),
        ('{"graphs": []}', "graphs: it must be an object"),
        ('{"graphs": {"a b": "./a.py:g"}}', "graphs.a b: a name has letters"),
        ('{"graphs": {"a": "./a.py:g"}, "dependencies": "."}', "dependencies: it must be a list"),
        ('{"graphs": {"a": "./a.py:g"}, "dependencies": ["./none"]}', "dependencies: there is no folder"),
        ('{"graphs": {"a": "./a.py:g"}, "env": "none.env"}', "env: it must be an object, or name a file"),
        ('{"graphs": {"support": "./a.py:g"}}', "graphs.support: an agent that comes along has this name"),
    ],
)
def test_what_is_wrong_with_the_file_stands_on_a_row_of_its_own(
    shop: Any, settings: Any, tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "langgraph.json").write_text(text)
    settings.LANGGRAPH_JSON = str(tmp_path / "langgraph.json")
    problem = problem_of("langgraph-json")
    assert said in problem
    assert "langgraph.json" in problem
    assert Agent.objects.get(name="support").problem == ""

    settings.LANGGRAPH_JSON = ""
    registry.sync()
    assert not Agent.objects.filter(name="langgraph-json").exists()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("./clerk.py", 'must be "./path/file.py:variable"'),
        (5, 'must be "./path/file.py:variable"'),
        ("./none.py:graph", "there is no file"),
        ("./clerk.py:none", "has no none. Name the variable"),
        ("./clerk.py:number", "this is a int"),
        ("./clerk.py:needs_two", "needs 2 arguments"),
        ("nowhere.at.all:graph", "cannot be imported"),
        ("./broken.py:graph", "ZeroDivisionError"),
        ("./leaves.py:graph", "ends the process"),
        ("./missing.py:graph", "No module named 'not_here'"),
    ],
)
def test_what_is_wrong_with_one_graph_stands_on_its_row(
    shop: Any, settings: Any, tmp_path: Path, place: Any, said: str
) -> None:
    (tmp_path / "clerk.py").write_text((SAMPLE / "clerk.py").read_text())
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("raise SystemExit(2)")
    (tmp_path / "missing.py").write_text("import not_here")
    settings.LANGGRAPH_JSON = written(
        tmp_path,
        dependencies=[str(SAMPLE / "lib")],
        graphs={"wrong": place, "right": "./clerk.py:graph"},
        env={"SAMPLE_GREETING": "Hi"},
    )
    assert said in problem_of("wrong")
    assert Agent.objects.get(name="right").problem == ""
