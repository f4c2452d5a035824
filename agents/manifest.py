"""Agents from a ``langgraph.json``, the file by which LangGraph's own server finds graphs: ``LANGGRAPH_JSON`` names it.

Read once a process. Nothing that is wrong in it, or in the code that it names, keeps the desk from starting: a graph
that cannot be built says why on its own row, and what is wrong with the file itself stands on a row named for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import environ
from django.conf import settings
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

FILE = "langgraph-json"  # name of the row that says what is wrong with the file
_NAME = re.compile(r"[-a-zA-Z0-9_]{1,100}")


class Unreadable(ValueError):
    """Something in the file, or behind it, cannot be used. The message names file and key, and what to do."""


@dataclass(frozen=True)
class Listed:
    """One graph of the file. ``build`` imports its code, and raises Unreadable or what that code raises."""

    name: str
    build: Callable[[], Any]
    description: str = ""


@dataclass(frozen=True)
class Manifest:
    """What the file names. ``problems``: sentences about the file itself."""

    graphs: Mapping[str, Listed] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def manifest() -> Manifest:
    """Return what the file lists; nothing where no file is set."""
    return _read(settings.LANGGRAPH_JSON) if settings.LANGGRAPH_JSON else Manifest()


@cache
def _read(name: str) -> Manifest:
    path = Path(name).resolve()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return Manifest(problems=(f"{path} cannot be read ({error.strerror}). Set LANGGRAPH_JSON to the file's path.",))
    except ValueError as error:
        return Manifest(problems=(f"{path} is no JSON: {error}. Correct it and start the desk again.",))
    if not isinstance(content, dict):
        return Manifest(problems=(f'{path} must hold an object with "graphs".',))
    reader = _Reader(path, content)
    reader.read()
    return Manifest(reader.graphs, tuple(reader.problems))


class _Reader:
    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path, self.content = path, content
        self.graphs: dict[str, Listed] = {}
        self.problems: list[str] = []

    def read(self) -> None:
        self._add_dependencies()
        self._set_environment()
        graphs = self.content.get("graphs")
        if not isinstance(graphs, dict) or not graphs:
            self._complain("graphs", 'it must be an object such as {"support": "./support.py:graph"}')
            return
        for name, value in graphs.items():
            self._add_graph(name, value)

    def _complain(self, key: str, why: str) -> None:
        self.problems.append(f"{self.path}, {key}: {why}.")

    def _add_dependencies(self) -> None:
        """Put folders behind what is on the path already: nothing of theirs hides a module of the desk."""
        given = self.content.get("dependencies", [])
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            self._complain("dependencies", 'it must be a list such as ["."]')
            return
        for one in given:
            if not one.startswith((".", "/")):
                continue  # a package: it must be installed beside the desk, and an import that fails will say so
            folder = (self.path.parent / one).resolve()
            if not folder.is_dir():
                self._complain("dependencies", f"there is no folder {folder}. Name one, relative to the file")
                continue
            for place in (folder, folder / "src"):
                if place.is_dir() and str(place) not in sys.path:
                    sys.path.append(str(place))

    def _set_environment(self) -> None:
        """Set variables that are not set: the desk's own environment is stronger than the file."""
        given = self.content.get("env", {})
        if isinstance(given, dict):
            for name, value in given.items():
                os.environ.setdefault(str(name), value if isinstance(value, str) else json.dumps(value))
        elif isinstance(given, str) and (self.path.parent / given).is_file():
            environ.Env.read_env(str(self.path.parent / given), overwrite=False)
        else:
            self._complain("env", "it must be an object, or name a file beside this one that is there")

    def _add_graph(self, name: str, value: Any) -> None:
        place = value.get("path") if isinstance(value, dict) else value
        described = value.get("description") if isinstance(value, dict) else ""
        if not _NAME.fullmatch(name) or name == FILE:
            self._complain(f"graphs.{name}", "a name has letters, digits, - and _, at most 100. Rename it")
        else:
            build = _building(self.path, name, place)
            self.graphs[name] = Listed(name, build, described if isinstance(described, str) else "")


# ------------------------------------------------------------------------------------------------------------- building


def _building(path: Path, name: str, place: Any) -> Callable[[], Any]:
    def build() -> Any:
        where = f"{path}, graphs.{name}"
        if not isinstance(place, str) or ":" not in place:
            raise Unreadable(f'{where}: {place!r:.200} must be "./path/file.py:variable".')
        file, _, variable = place.rpartition(":")
        module = _module(path, file, where)
        found = getattr(module, variable, None)
        if found is None:
            raise Unreadable(f"{where}: {file} has no {variable}. Name the variable that holds the graph.")
        return _graph(found, where)

    return build


def _module(path: Path, file: str, where: str) -> ModuleType:
    try:
        if not file.endswith(".py"):
            return importlib.import_module(file)
        place = (path.parent / file).resolve()
        if not place.is_file():
            raise Unreadable(f"{where}: there is no file {place}. Name one, relative to {path.name}.")
        return _import_file(place)
    except ImportError as error:
        raise Unreadable(
            f"{where}: {file} cannot be imported: {error}. Install what it needs beside the desk, or add its folder to"
            ' "dependencies".'
        ) from error
    except SystemExit as error:
        raise Unreadable(f"{where}: {file} ends the process when it is imported. Keep what starts it apart.") from error


def _import_file(place: Path) -> ModuleType:
    """Import a file once a process, under a name that no other module has."""
    name = f"langgraph_json_{hashlib.sha256(str(place).encode()).hexdigest()[:12]}_{place.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses and schemas look their module up there
    with _forgetting(name):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _forgetting(name: str) -> Iterator[None]:
    """Take a module back that raised while it was imported, so that nobody finds the half of it."""
    try:
        yield
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _graph(found: Any, where: str) -> Any:
    """Return a compiled graph: the variable itself, a builder that is compiled, or what a factory gives."""
    if not isinstance(found, Pregel | StateGraph) and callable(found):
        found = _called(found, where)
    if isinstance(found, StateGraph):
        found = found.compile()
    if not isinstance(found, Pregel):
        raise Unreadable(
            f"{where}: this is a {type(found).__name__}. Name a graph, a StateGraph, or a function that returns one."
        )
    return found


def _called(factory: Callable[..., Any], where: str) -> Any:
    """Call a factory once, with an empty config where it takes one: the desk keeps one graph for all of its threads."""
    needed = [one for one in inspect.signature(factory).parameters.values() if one.default is one.empty]
    if len(needed) > 1:
        raise Unreadable(f"{where}: the function needs {len(needed)} arguments. It may take a config, or nothing.")
    made = factory(*({"configurable": {}} for _ in needed))
    return _awaited(made) if inspect.isawaitable(made) else made


def _awaited(made: Any) -> Any:
    """Wait on a loop of its own, in a thread of its own: whoever asks for the agent may be on a loop."""
    ended: list[Any] = []
    failed: list[BaseException] = []

    async def wait() -> None:
        try:
            ended.append(await made)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=lambda: asyncio.run(wait()), name="factory")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return ended[0]
