"""One line of JSON for each log record, as log collectors want it.

Ids and kinds only: what agents propose and people write never reaches a log. So an exception is told by its type and
where it was raised; its words are left out, because they may quote arguments, except those of the machinery below us.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from types import TracebackType

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError

# What our own log calls may add, by name: ids, kinds and states.
FIELDS = (
    "run", "on_thread", "interrupt", "interrupts", "execution", "agent", "act", "status", "code", "error", "worker",
)  # fmt: skip
SPEAKING = (OSError, OperationalError, InterfaceError, ImproperlyConfigured)  # their words name hosts and files

ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class JsonFormatter(logging.Formatter):
    """Writes time (UTC), level, logger, message, ids, and where an exception was raised."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: _plain(value) for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            entry["traceback"] = without_words(record.exc_info[1])
        return json.dumps(entry)


class PlainFormatter(logging.Formatter):
    """The same for a person who reads along: a line, and where an exception was raised."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatException(self, ei: ExcInfo) -> str:  # logging's name
        return without_words(ei[1])


def without_words(error: BaseException | None) -> str:
    """Return the traceback of an exception and of its causes, without their messages."""
    parts: list[str] = []
    while error is not None and len(parts) < 5:
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"{frames}{_name(error)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nbecause of\n\n".join(parts)


def _name(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {error}" if isinstance(error, SPEAKING) else kind


def _plain(value: object) -> object:
    match value:
        case bool() | int() | str():
            return value
        case list() | tuple():
            return [_plain(one) for one in value]
    return str(value)
