"""The ``response_schema`` of a ``tool_approval``: which decisions it allows, and what an edit's arguments look like."""

from __future__ import annotations

from typing import Any

from reviews.dialects.proposals import BrokenRules, quoted

MAX_REFERENCES = 20  # a longer chain goes round in a circle

Schema = dict[str, Any]


def branches(root: Schema) -> dict[str, Schema]:
    """Map each decision type that the schema knows to its branch. A schema of one decision has no union."""
    whole = resolved(root, root)
    union = next((whole[word] for word in ("oneOf", "anyOf") if isinstance(whole.get(word), list)), [whole])
    found: dict[str, Schema] = {}
    for part in union:
        branch = resolved(part, root)
        for name in _constants(_step(branch, root, "properties", "type")):
            found.setdefault(name, branch)
    return found


def edit_args(branch: Schema, root: Schema) -> Schema | None:
    """Return the schema of an edit's arguments, complete in itself, or None where the branch does not say."""
    args = _step(branch, root, "properties", "edited_action", "properties", "args")
    if not args:
        return None
    definitions = {**_mapping(root.get("$defs")), **_mapping(args.get("$defs"))}
    return {**args, "$defs": definitions} if definitions else args


def check_pinned(branch: Schema, root: Schema, name: str) -> None:
    """Raise BrokenRules where the edit branch is for another tool than the call."""
    pinned = _constants(_step(branch, root, "properties", "edited_action", "properties", "name"))
    if pinned and name not in pinned:
        raise BrokenRules(
            "bad_policy", f"The call is {quoted(name)}, but its response_schema lets an edit run {quoted(pinned[0])}."
        )


def resolved(part: Any, root: Schema) -> Schema:
    """Follow references inside ``root``; an empty schema where they lead nowhere or out of it."""
    for _ in range(MAX_REFERENCES):
        reference = part.get("$ref") if isinstance(part, dict) else None
        if not isinstance(reference, str):
            return _mapping(part)
        part = root if reference.startswith("#") else None
        for step in reference.split("/")[1:]:
            part = _mapping(part).get(step.replace("~1", "/").replace("~0", "~"))
    return {}


def _step(part: Any, root: Schema, *path: str) -> Schema:
    found = resolved(part, root)
    for name in path:
        found = resolved(found.get(name), root)
    return found


def _constants(part: Schema) -> list[str]:
    values = part["enum"] if isinstance(part.get("enum"), list) else [part.get("const")]
    return [value for value in values if isinstance(value, str)]


def _mapping(value: Any) -> Schema:
    found: Schema = value if isinstance(value, dict) else {}
    return found
