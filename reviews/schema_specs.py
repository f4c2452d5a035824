"""What a JSON schema says about one argument, as far as a form needs it: its kind, its choices, its limits in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from reviews.strict_json import json_type, shown, to_json

Kind = Literal["text", "integer", "number", "boolean", "choice", "json"]
Rule = Mapping[str, Any]

MAX_REFS = 20  # a chain of references longer than this goes round in a circle
_KINDS: dict[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
    "null": "null",
}


@dataclass(frozen=True)
class Spec:
    """How one argument is edited. ``choices`` holds the values themselves; ``hint`` is the line under the name."""

    kind: Kind
    hint: str
    required: bool = False
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    single_line: bool = False


def properties(schema: Rule) -> dict[str, Any]:
    """Return the argument schemas by name, in the schema's order."""
    found = resolved(schema, schema).get("properties")
    return dict(found) if isinstance(found, Mapping) else {}


def required(schema: Rule) -> frozenset[str]:
    names = resolved(schema, schema).get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def spec_of(rule: Any, *, root: Rule, required: bool) -> Spec:
    """Read one property's schema. References are looked up in ``root`` only; what cannot be read is edited as JSON."""
    plain, nullable = _without_null(resolved(rule, root), root)
    choices = _choices(plain, root)
    if choices is not None:
        nullable = nullable or None in choices
        choices = tuple(item for item in choices if item is not None)
    kind = _kind(plain, choices)
    if kind == "boolean":
        choices = (True, False)
    if kind in ("boolean", "choice") and nullable:
        choices = (*(choices or ()), None)
    words = [_kind_words(plain, kind=kind, choices=choices or ()), *_limits(plain, kind)]
    words += ["or null"] * nullable + ["required"] * required
    most = plain.get("maxLength")
    single_line = "format" in plain or "pattern" in plain or (isinstance(most, int) and most <= 200)
    return Spec(kind, ", ".join(words), required, nullable, choices or (), single_line)


def spec_from_value(value: Any, *, known: bool) -> Spec:
    """Type a field from its value alone. ``known``: there is no schema at all, so nothing to be missing from."""
    kinds: dict[str, Kind] = {"text": "text", "whole number": "integer", "number": "number", "true or false": "boolean"}
    name = json_type(value)
    kind = kinds.get(name, "json")
    words = [f"{name}, as JSON" if name in ("list", "object", "null") else name]
    words += [] if known else ["not in the tool's schema"]
    return Spec(kind, ", ".join(words), choices=(True, False) if kind == "boolean" else ())


# -------------------------------------------------------------------------------------------------------------- reading


def resolved(rule: Any, root: Rule) -> dict[str, Any]:
    """Follow local references and merge a lone ``allOf``; siblings of a reference win; the unreadable is left out."""
    plain = dict(rule) if isinstance(rule, Mapping) else {}
    for _ in range(MAX_REFS):
        if isinstance(plain.get("$ref"), str):
            target = _look_up(plain.pop("$ref"), root)
            plain = {**target, **plain}
        elif isinstance(plain.get("allOf"), list) and len(plain["allOf"]) == 1:
            only = plain.pop("allOf")[0]
            plain = {**(only if isinstance(only, Mapping) else {}), **plain}
        else:
            return plain
    return {}


def _look_up(reference: str, root: Rule) -> Rule:
    place: Any = root
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return {}
    for step in unquote(reference[2:]).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        place = place.get(key) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _without_null(plain: dict[str, Any], root: Rule) -> tuple[dict[str, Any], bool]:
    """Take "or null" out of a schema, however it was said; a union of which one branch is left becomes that branch."""
    types = plain.get("type")
    if isinstance(types, list):
        rest = [name for name in types if name != "null"]
        return {**plain, "type": rest[0] if len(rest) == 1 else rest}, len(rest) < len(types)
    for word in ("anyOf", "oneOf"):
        if not isinstance(plain.get(word), list):
            continue
        branches = [resolved(branch, root) for branch in plain[word]]
        kept = [branch for branch in branches if not _is_null(branch)]
        outer = {key: item for key, item in plain.items() if key != word}
        merged = {**kept[0], **outer} if len(kept) == 1 else {**outer, word: kept}
        return merged, len(kept) < len(branches)
    return plain, False


def _is_null(branch: Rule) -> bool:
    return branch.get("type") == "null" or branch.get("enum") == [None] or branch.get("const", ...) is None


def _choices(plain: Rule, root: Rule) -> tuple[Any, ...] | None:
    if "const" in plain:
        return (plain["const"],)
    if isinstance(plain.get("enum"), list):
        return tuple(plain["enum"])
    for word in ("anyOf", "oneOf"):
        branches = plain.get(word)
        if not isinstance(branches, list) or not branches:
            continue
        parts = [_choices(resolved(branch, root), root) for branch in branches]
        if all(part is not None for part in parts):
            return tuple(item for part in parts for item in part or ())
    return None


def _kind(plain: Rule, choices: tuple[Any, ...] | None) -> Kind:
    if choices is not None:
        return "choice"
    name = plain.get("type")
    return _KINDS.get(name, "json") if isinstance(name, str) else "json"


# ---------------------------------------------------------------------------------------------------------------- words


def _kind_words(plain: Rule, *, kind: Kind, choices: tuple[Any, ...]) -> str:
    if kind == "choice":
        count = len([item for item in choices if item is not None])
        return f"always {brief(choices[0])}" if count == 1 else f"one of {count}"
    if kind != "json":
        return _WORDS[str(plain["type"])]
    names = type_words(plain)
    return f"{names}, as JSON" if names else "any value, as JSON"


def type_words(plain: Rule) -> str:
    """Name the types that a schema allows: "text or whole number"; empty where it does not say."""
    types = plain.get("type")
    if types is None:
        branches = plain.get("anyOf") or plain.get("oneOf") or []
        types = [branch.get("type") for branch in branches if isinstance(branch, Mapping)]
    names = types if isinstance(types, list) else [types]
    return " or ".join(dict.fromkeys(_WORDS[name] for name in names if isinstance(name, str) and name in _WORDS))


def _limits(plain: Rule, kind: Kind) -> list[str]:
    if kind == "choice":
        return []
    words = [*_range(plain), *_sizes(plain, kind)]
    if "multipleOf" in plain:
        words.append(f"in steps of {brief(plain['multipleOf'])}")
    if isinstance(plain.get("format"), str):
        words.append(shown(plain["format"]))
    if isinstance(plain.get("pattern"), str):
        words.append(f"pattern {shown(plain['pattern'])}")
    return words + ([f"default {brief(plain['default'])}"] if plain.get("default") is not None else [])


def _range(plain: Rule) -> list[str]:
    low, high = plain.get("minimum"), plain.get("maximum")
    words = []
    if low is not None and high is not None:
        words.append(f"{brief(low)} to {brief(high)}")
    elif low is not None or high is not None:
        words.append(f"at least {brief(low)}" if high is None else f"up to {brief(high)}")
    if "exclusiveMinimum" in plain:
        words.append(f"more than {brief(plain['exclusiveMinimum'])}")
    if "exclusiveMaximum" in plain:
        words.append(f"less than {brief(plain['exclusiveMaximum'])}")
    return words


def _sizes(plain: Rule, kind: Kind) -> Iterable[str]:
    for least, most, noun in (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items")):
        low, high = plain.get(least), plain.get(most)
        if low and high is not None:
            yield f"{brief(low)} to {brief(high)} {noun}"
        elif high is not None:
            yield f"up to {brief(high)}" + (f" {noun}" if kind == "json" else "")
        elif low:
            yield f"at least {brief(low)} {noun}"


def brief(value: Any) -> str:
    """Write a limit or a choice of a schema in few characters; text without quotes."""
    try:
        return shown(value if isinstance(value, str) else to_json(value, indent=None))
    except (ValueError, TypeError):
        return shown(str(value))
