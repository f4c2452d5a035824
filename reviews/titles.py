"""The desk's own words for what an agent asks: made from tool and arguments, never from the agent's description.

A value of the arguments that stands in a title is one line, short, and has its hidden characters spelled ``[U+202E]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reviews.texts import spelled, without_hidden

MAX_TITLE = 80
MAX_SUMMARY = 160
MAX_VALUE = 60  # characters of one value inside a title or summary
QUESTION = "Answer a question"

# Tool -> sentence and the arguments it may take its value from, the first one present.
_PATH = ("path", "file_path", "filepath", "filename", "file")
_SQL = ("query", "sql", "statement")
_COMMAND = ("command", "cmd", "script")
_MAIL = ("to", "recipient", "recipients", "address", "email")
_KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "issue_refund": ("Refund order {}", ("order_id", "order", "order_number")),
    "refund": ("Refund {}", ("order_id", "order", "payment_id", "charge_id")),
    "write_file": ("Write {}", _PATH),
    "edit_file": ("Edit {}", _PATH),
    "read_file": ("Read {}", _PATH),
    "delete_file": ("Delete {}", _PATH),
    "send_email": ("E-mail to {}", _MAIL),
    "send_mail": ("E-mail to {}", _MAIL),
    "email": ("E-mail to {}", _MAIL),
    "run_sql": ("Run SQL: {}", _SQL),
    "execute_sql": ("Run SQL: {}", _SQL),
    "sql": ("Run SQL: {}", _SQL),
    "run_command": ("Run command: {}", _COMMAND),
    "execute_command": ("Run command: {}", _COMMAND),
    "run_script": ("Run script: {}", _COMMAND),
    "shell": ("Run command: {}", _COMMAND),
    "bash": ("Run command: {}", _COMMAND),
    "read_data": ("Read table {}", ("table",)),
}
_ASKS = {"interrupt", "ask_user", "ask_human", "choose", "question", "human_input"}
_QUESTIONS = ("question", "q", "prompt", "message", "text", "value")  # where a question stands, the first one present
_NAMING = re.compile(
    r"(?:^|_)(?:id|number|name|path|file|url|uri|to|recipient|key|user|account|customer|order|item|title|service|table)$"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


def title(tool_name: str, args: Any, *, dialect: str) -> str:
    """Say in few words what will happen, at most ``MAX_TITLE`` characters: "Refund order 10482"."""
    match dialect:
        case "raw" | "schema":
            return QUESTION
        case "breakpoint":
            return _cut(_next_step(args), MAX_TITLE)
        case "execution":
            return _cut(f"Outcome unknown: {_lower_first(call_title(tool_name, args))}", MAX_TITLE)
        case _:
            return call_title(tool_name, args)


def call_title(tool_name: str, args: Any) -> str:
    """Say what one tool call does."""
    if tool_name in _ASKS:
        return QUESTION
    known = _known(tool_name, args)
    if known is not None:
        return _cut(known, MAX_TITLE)
    name = humanised(tool_name)
    value = _identifying(args)
    if " " in value:
        return _cut(f"{name}: {value}", MAX_TITLE)
    return _cut(f"{name} {value}" if value else name, MAX_TITLE)


def joined(titles: Sequence[str]) -> str:
    """Make one title of those of a batch: "Refund order 10482 and 4 more"."""
    if not titles:
        return QUESTION
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return _cut(titles[0], MAX_TITLE - len(more)) + more


def summary(tool_name: str, args: Any) -> str:
    """Return one plain line for the inbox, at most ``MAX_SUMMARY`` characters: the arguments in their order."""
    if tool_name in _ASKS:
        return _quoted(args)
    if not isinstance(args, Mapping):
        return _cut(_short(args), MAX_SUMMARY)
    sentence, names = _KNOWN.get(tool_name, ("", ()))
    if sentence.endswith(": {}"):  # the value is the whole matter: SQL, a command
        found = next((args[name] for name in names if name in args), None)
        if isinstance(found, str):
            return _cut(_line(found, MAX_SUMMARY * 2), MAX_SUMMARY)
    parts = [f"{_line(str(name), MAX_VALUE)}: {_short(value)}" for name, value in list(args.items())[:12]]
    return _cut(", ".join(parts) or "without arguments", MAX_SUMMARY)


def _quoted(args: Any) -> str:
    """Return the question that is asked, in quotation marks: they are not the desk's words."""
    asked = args if isinstance(args, Mapping) else {"value": args}
    text = next((asked[name] for name in _QUESTIONS if isinstance(asked.get(name), str)), "")
    return f"“{_line(text, MAX_SUMMARY - 2)}”" if text.strip() else ""


def humanised(tool_name: str) -> str:
    """Write a tool's name as words: ``restart_service`` and ``restartService`` are "Restart service"."""
    words = _WORDS.findall(tool_name[:200])
    # A name with other signs in it is not made of words; it is shown as it is.
    if not words or not re.fullmatch(r"[\w.\-]+", tool_name):
        return _line(tool_name, MAX_VALUE) or "Run a tool without a name"
    text = spelled(" ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words))
    return text[:1].upper() + text[1:]


def _known(tool_name: str, args: Any) -> str | None:
    if tool_name not in _KNOWN or not isinstance(args, Mapping):
        return None
    sentence, names = _KNOWN[tool_name]
    value = next((_named(args[name], name) for name in names if name in args), "")
    return sentence.format(value) if value else None


def _named(value: Any, name: str) -> str:
    """Write the value a title is about; of a list its only item or a count."""
    if isinstance(value, list):
        return _named(value[0], name) if len(value) == 1 else f"{len(value)} {name.removesuffix('s')}s"
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return _line(str(value), MAX_TITLE)
    return ""


def _identifying(args: Any) -> str:
    """Return the value that tells this call from others: of an argument called like a name, else the longest short."""
    if not isinstance(args, Mapping):
        return ""
    short = {str(name): _named(value, str(name)) for name, value in args.items() if _is_short(value)}
    naming = [value for name, value in short.items() if _NAMING.search(name)]
    return naming[0] if naming else max(short.values(), key=len, default="")


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MAX_VALUE and "\n" not in value
    return isinstance(value, int) and not isinstance(value, bool)


def _next_step(args: Any) -> str:
    calls = args.get("calls") if isinstance(args, Mapping) else None
    if isinstance(calls, list) and calls:
        return joined([call_title(str(call.get("name")), call.get("args")) for call in calls if isinstance(call, dict)])
    steps = args.get("next") if isinstance(args, Mapping) else None
    names = [_line(step, MAX_VALUE) for step in steps if isinstance(step, str)] if isinstance(steps, list) else []
    return f"Run the next step: {', '.join(names)}" if names else "Run the next step"


def _short(value: Any) -> str:
    match value:
        case str():
            return _line(value, MAX_VALUE)
        case dict() | list() | set() | frozenset():
            noun = "entry" if len(value) == 1 else "entries"
            return f"{len(value)} {noun}"
        case bytes():
            return f"{len(value)} bytes"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return _line(str(value), MAX_VALUE)


def _line(text: str, most: int) -> str:
    """Make one line of the beginning of ``text``, its hidden characters spelled."""
    return _cut(" ".join(spelled(text[: most * 4]).split()), most)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    # A cut through a joined emoji leaves a joiner that joins nothing.
    return f"{without_hidden(text[: most - 1]).rstrip()}…"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
