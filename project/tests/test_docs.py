"""The documents, read: what they name has to be there, and what is there has to be named."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands
from django.urls import resolve

from agents import registry
from agents.catalog.entry import Entry
from agents.testing import ScriptedChatModel, Turn

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("project", "reviews", "agents")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")
MADE_HERE = (".services/", ".venv/", "data/", "staticfiles/")  # made by the first run, in no fresh clone
SOCKET = "/ws/"  # answered in project/asgi.py, which Django's addresses do not know
# Names of others that the documents use as we use our own.
FOREIGN = {
    "Command", "GraphInterrupt", "HumanInTheLoopMiddleware", "InjectedStore", "RunControl", "ToolNode",
    "create_agent", "desk.env", "interrupt", "invoke", "langgraph.json", "tool.metadata",
}  # fmt: skip
ENDINGS = (".py", ".md", ".toml", ".txt", ".html", ".css", ".js", ".json")

_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]+)` \| (.*?) \|", re.MULTILINE)
_PATH = re.compile(r"[\w.*-]*(/[\w.*-]*)+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NAME = re.compile(r"[a-z_]\w*\(\)|[A-Z][a-z]+[A-Za-z]*")


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def spans(document: str) -> list[str]:
    """Return what stands between backticks, fenced blocks left out."""
    return _SPAN.findall(_FENCE.sub("", text_of(document)))


@cache
def modules() -> dict[str, str]:
    """Map each dotted name to its file, tests, migrations and empty files left out."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if not {"tests", "migrations"} & set(path.parts) and path.stat().st_size:
            file = str(path.relative_to(ROOT))
            found[file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = file
    return found


@cache
def tree_of(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@cache
def names_in(file: str) -> frozenset[str]:
    """Return what a module defines or brings in: ``name``, and ``Class.name`` for what a class defines."""
    return frozenset(_names(tree_of(file).body))


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name, body=inner):
                yield prefix + name
                yield from _names(inner, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)


# -------------------------------------------------------------------------------------------------------------- modules


def test_the_architecture_names_every_module() -> None:
    assert sorted(set(modules().values()) - set(spans("ARCHITECTURE.md"))) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    named = [span for span in spans(document) if _PATH.fullmatch(span) or span.endswith(ENDINGS)]
    assert [path for path in named if path not in FOREIGN and not _is_there(path)] == []


def _is_there(path: str) -> bool:
    if path.startswith("/"):
        return path == SOCKET or bool(resolve(path))
    return path.startswith(MADE_HERE) or any(ROOT.glob(path))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_function_and_class_exists(document: str) -> None:
    named = [span for span in spans(document) if _names_code(span)]
    plain = {name.removesuffix("()") for name in named} - FOREIGN
    assert [name for name in sorted(plain) if not _is_defined(name)] == []


def test_the_architecture_is_held_against_something() -> None:
    dotted = [span for span in spans("ARCHITECTURE.md") if _DOTTED.fullmatch(span) and _is_defined(span)]
    assert len(set(dotted)) > 50


def _names_code(span: str) -> bool:
    dotted = _DOTTED.fullmatch(span.removesuffix("()")) and not span.endswith(ENDINGS)
    return bool(dotted or _NAME.fullmatch(span))


def _is_defined(name: str) -> bool:
    """Say whether ``name`` is ``module.name`` of ours, the module by its last part or more, or a name of any module."""
    if any(name in names_in(file) for file in modules().values()):
        return True
    parts = name.split(".")
    splits = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]
    return any(
        (module == ending or module.endswith(f".{ending}")) and inner in names_in(file)
        for ending, inner in splits
        for module, file in modules().items()
    )


# ------------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    indented = re.findall(r"^ {4}(make [a-z-]+)", text_of(document), re.MULTILINE)
    code = [*spans(document), *_blocks(document), *indented]
    called = {target for piece in code for target in re.findall(r"\bmake ([a-z-]+)", piece)}
    assert called - targets == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_manage_py_exists(document: str) -> None:
    called = set(re.findall(r"manage\.py (\w+)", text_of(document)))
    assert called - set(get_commands()) == set()


def _blocks(document: str, language: str = "") -> list[str]:
    return [code for kind, code in _FENCE.findall(text_of(document)) if not language or kind == language]


def test_the_agent_of_the_readme_can_be_built() -> None:
    (code,) = _blocks("README.md", "python")
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102  # our own document
    names["init_chat_model"] = lambda name: ScriptedChatModel(script=lambda messages: Turn("Done."))
    entry = names["ENTRY"]
    assert isinstance(entry, Entry)
    (node,) = registry.tool_nodes(entry.build())
    assert list(node.tools_by_name) == ["restart_service"]
    assert node.tools_by_name["restart_service"].metadata == {"idempotent": True}


# ------------------------------------------------------------------------------------------------------------ variables


@cache
def variables() -> dict[str, Any]:
    """Map each variable that the product reads from the environment to its default, None where it is computed."""
    found: dict[str, Any] = {}
    for file in modules().values():
        for node in ast.walk(tree_of(file)):
            match node:
                case ast.Call(func=ast.Attribute(value=owner), args=[ast.Constant(value=str(name)), *more]):
                    reader = ast.unparse(owner)
                    if reader == "env" and file == "project/settings.py":
                        found[name] = _default(node.keywords[0].value)
                    elif reader == "os.environ" and ast.unparse(node.func) == "os.environ.get":
                        found[name] = _default(more[0]) if more else ""
                case ast.Call(func=ast.Name(id="_setting"), args=[ast.Constant(value=str(name)), default]):
                    found.setdefault(name, _default(default))
    return found


def _default(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def test_the_readme_has_every_variable_and_no_other() -> None:
    assert "DATABASE_URL" in variables()
    assert sorted(name for name, _ in _ROW.findall(text_of("README.md"))) == sorted(variables())


def test_the_readme_has_the_defaults() -> None:
    told = dict(_ROW.findall(text_of("README.md")))
    known = {name: default for name, default in variables().items() if default is not None}
    assert {name: told[name] for name in known} == {name: _written(default) for name, default in known.items()}


def _written(default: Any) -> str:
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case list() | "":
            return f"`{','.join(default)}`" if default else "empty"
        case _:
            return f"`{default}`"


# ----------------------------------------------------------------------------------------------------- nobody's machine

# Each with one letter in brackets, so that this file does not find itself.
_MACHINE = re.compile(
    "|".join(
        (r"/wor[k]/", r"/roo[t]/", r"/home/[a-z]", r"/Users/[a-z]", r"file:///op[t]/", r":5543[2]\b", r":5637[9]\b")
    )
)
_REGISTRY = re.compile(r"inde[x]-url|find-link[s]|truste[d]-host|npm_config_registr[y]|pypi\.or[g]|registry\.npmj[s]")


def test_no_file_knows_a_machine_or_a_registry() -> None:
    found = [file for file, text in _tracked() if _MACHINE.search(text) or _REGISTRY.search(text)]
    assert found == []


def test_requirements_are_names_and_versions_only() -> None:
    for file in ("requirements.txt", "requirements-dev.txt"):
        lines = [line for line in text_of(file).splitlines() if line and not line.startswith("#")]
        plain = re.compile(r"[a-z0-9-]+==[\w.]+(; [\w ><=.\"]+)?|-r requirements\.txt")
        assert [line for line in lines if not plain.fullmatch(line)] == []


def _tracked() -> Iterator[tuple[str, str]]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone, so nobody knows which files are ours")
    command = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, check=True).stdout
    for file in listed.decode().split("\0"):
        path = ROOT / file
        if file and path.is_file():
            yield file, path.read_text(encoding="utf-8", errors="replace")
