"""Whole arguments held against their JSON schema, and what is wrong said in a reviewer's words.

Schemas come from agents and from MCP servers, so they are untrusted: references are looked up inside the schema only,
and a pattern has a time limit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from reviews import formats
from reviews.schema_specs import brief, resolved, type_words
from reviews.strict_json import json_type, same, shown

PATTERN_SECONDS = 0.25
SOUND_KEPT = 500
MAX_PROBLEMS = 50  # messages beyond this help nobody
TOOL = "this tool"


class SchemaUnusable(Exception):
    """The schema is broken, points outside of itself, or takes too long. The message says which, for the page."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``name`` is the argument, or None for the arguments as a whole.

    ``mild``: only the format of a value that nobody touched: it is told and holds nothing.
    """

    name: str | None
    message: str
    mild: bool = False


def check(
    value: Any, schema: Mapping[str, Any], *, exempt: Collection[str] = (), taker: str = TOOL, asked: Any = None
) -> list[Problem]:
    """Return what is wrong with ``value`` (an object of arguments). Raises SchemaUnusable.

    ``exempt`` names arguments that JSON Schema cannot judge (NaN, dates, megabytes): anything is right for them.
    ``asked``: the arguments as the agent gave them, whose formats are its own affair.
    """
    root = {**resolved(schema, schema)}
    if exempt:
        given = root.get("properties")
        root["properties"] = {**(given if isinstance(given, Mapping) else {}), **dict.fromkeys(exempt, True)}
    return list(dict.fromkeys(_problems(value, root, taker, asked)))


def check_value(value: Any, schema: Mapping[str, Any], *, taker: str) -> list[str]:
    """Return what is wrong with one value, whatever its type. Raises SchemaUnusable."""
    return list(dict.fromkeys(_message(error, list(error.absolute_path), taker) for error in _errors(value, schema)))


def _problems(value: Any, root: Mapping[str, Any], taker: str, asked: Any) -> Iterator[Problem]:
    for error in _errors(value, root):
        path = list(error.absolute_path)
        if path:
            mild = error.validator == "format" and _stood_there(error.instance, asked, path)
            yield Problem(str(path[0]), _message(error, path[1:], taker), mild)
            continue
        for name in _missing(error):
            yield Problem(name, f"{name} is required.")
        for name in _unknown(error):
            yield Problem(name, f"{name} is not an argument of {taker}.")
        if error.validator not in ("required", "additionalProperties"):
            yield Problem(None, _message(error, [], taker))


def _stood_there(value: Any, asked: Any, path: list[str | int]) -> bool:
    """Tell whether the agent itself gave this very value at this place."""
    for step in path:
        try:
            asked = asked[step]
        except (KeyError, IndexError, TypeError):
            return False
    return same(value, asked)


def _errors(value: Any, schema: Mapping[str, Any]) -> list[ValidationError]:
    chosen = validator_for(schema, default=Draft202012Validator)
    try:
        _check_once(chosen, schema)
        validator = _extended(chosen)(schema, registry=REGISTRY)
        found: list[ValidationError] = []
        for error in validator.iter_errors(value):
            found.append(_leaf(error))
            if len(found) == MAX_PROBLEMS:
                break
        return found
    except SchemaError as error:
        raise SchemaUnusable(f"The schema of these arguments is broken: {shown(error.message)}.") from error
    except Unresolvable as error:
        raise SchemaUnusable("The schema of these arguments points outside of itself.") from error
    except RecursionError as error:
        raise SchemaUnusable("The arguments are nested too deep to be held against their schema.") from error


@lru_cache(maxsize=16)
def _extended(chosen: Any) -> Any:
    return extend(chosen, {"pattern": _pattern, "format": _format})


_sound: dict[Any, None] = {}  # schemas that hold what a schema must, as JSON, with their validator; the oldest go first


def _check_once(chosen: Any, schema: Mapping[str, Any]) -> None:
    """Raise SchemaError for a broken schema. One takes longer to check than all arguments that are held against it."""
    try:
        known = chosen, json.dumps(schema)
    except (TypeError, ValueError):
        return chosen.check_schema(schema)  # type: ignore[no-any-return]
    if known not in _sound:
        chosen.check_schema(schema)
        _sound[known] = None
        while len(_sound) > SOUND_KEPT:
            _sound.pop(next(iter(_sound)), None)
    return None


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        matches = regex.search(pattern, instance, timeout=PATTERN_SECONDS)
    except TimeoutError as error:
        raise SchemaUnusable(f"The pattern {shown(pattern)} takes too long to check.") from error
    except regex.error as error:
        raise SchemaUnusable(f"The pattern {shown(pattern)} cannot be read.") from error
    if not matches:
        yield ValidationError("does not match")


def _format(_: Any, name: Any, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(name, str) and not formats.fits(name, instance):
        yield ValidationError("does not have the format")


def _leaf(error: ValidationError) -> ValidationError:
    """Of a union's failures take the one that fits the value's type: "more than 500" helps, "not null" does not."""
    while error.context:
        fitting = [part for part in error.context if part.validator != "type"]
        if not fitting:
            return error
        error = fitting[0]
    return error


def _missing(error: ValidationError) -> list[str]:
    if error.validator != "required":
        return []
    return [name for name in error.validator_value if name not in error.instance]


def _unknown(error: ValidationError) -> list[str]:
    if error.validator != "additionalProperties" or not isinstance(error.schema, Mapping):
        return []
    known = error.schema.get("properties", {})
    return [name for name in error.instance if name not in known]


# ---------------------------------------------------------------------------------------------------------------- words


def _message(error: ValidationError, path: list[str | int], taker: str) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    words = _words(error, taker)
    return f"{place}: {words}" if place else words


def _words(error: ValidationError, taker: str) -> str:
    limit: Any = error.validator_value
    nested = isinstance(error.instance, dict | list)
    value = f"This {json_type(error.instance)}" if nested else brief(error.instance)
    match error.validator:
        case "maximum":
            return f"{value} is more than {brief(limit)}, the most {taker} takes."
        case "minimum":
            return f"{value} is less than {brief(limit)}, the least {taker} takes."
        case "exclusiveMaximum":
            return f"{value} is too much: {taker} takes less than {brief(limit)}."
        case "exclusiveMinimum":
            return f"{value} is too little: {taker} takes more than {brief(limit)}."
        case "multipleOf":
            return f"{value} is not a multiple of {brief(limit)}."
        case "maxLength" | "minLength" | "maxItems" | "minItems":
            return _size_words(error, taker)
        case "type":
            said = f'"{value}" is text,' if isinstance(error.instance, str) else f"{value} is"
            return f"{said} not {_a(type_words({'type': limit}))}."
        case _:
            return _other_words(error, value)


def _a(words: str) -> str:
    articles = {"whole number": "a ", "number": "a ", "list": "a ", "object": "an "}
    return " or ".join(articles.get(word, "") + word for word in words.split(" or "))


def _size_words(error: ValidationError, taker: str) -> str:
    noun = "characters" if error.validator in ("maxLength", "minLength") else "items"
    end = "most" if str(error.validator).startswith("max") else "least"
    return f"{len(error.instance)} {noun}; {brief(error.validator_value)} is the {end} {taker} takes."


def _other_words(error: ValidationError, value: str) -> str:
    limit: Any = error.validator_value
    match error.validator:
        case "format":
            return f"{value} is not {formats.words_of(str(limit))}."
        case "pattern":
            return f"{value} does not match the pattern {shown(str(limit))}."
        case "enum":
            return f"{value} is not one of {', '.join(brief(item) for item in limit[:10])}{'…' * (len(limit) > 10)}."
        case "const":
            return f"{value} must be {brief(limit)}."
        case "required":
            return f"{', '.join(_missing(error))} is missing."
        case "additionalProperties":
            return f"{', '.join(_unknown(error)) or value} does not belong here."
        case "uniqueItems":
            return "An item stands in this list twice."
        case "anyOf" | "oneOf":
            return f"{value} is {json_type(error.instance)}, which is none of the forms that are allowed here."
        case _:
            return f"{value} does not fit the schema ({error.validator})."
