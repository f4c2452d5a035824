"""The dialects that ask about several calls at once: ``hitl``, ``hitl_early``, ``hitl_js`` and ``agent_inbox``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reviews.dialects.calls import Policy, object_at, read_call, read_policy, text_of
from reviews.dialects.proposals import VERDICTS, BrokenRules, Proposal, ProposedAction, VerdictType, quoted
from reviews.hidden import has_visible

_INBOX: dict[str, VerdictType] = {
    "allow_accept": "approve",
    "allow_edit": "edit",
    "allow_ignore": "reject",
    "allow_respond": "respond",
}


@dataclass(frozen=True)
class _Words:
    """How a language spells the request, and which decisions its middleware takes."""

    requests: str
    configs: str
    name: str
    allowed: str
    known: tuple[VerdictType, ...]


_PYTHON = _Words("action_requests", "review_configs", "action_name", "allowed_decisions", VERDICTS)
_JAVASCRIPT = _Words("actionRequests", "reviewConfigs", "actionName", "allowedDecisions", ("approve", "edit", "reject"))


def read_hitl(value: dict[str, Any]) -> Proposal:
    requests = value.get("action_requests")
    early = isinstance(requests, list) and any(isinstance(item, dict) and "arguments" in item for item in requests)
    actions = tuple(_actions(value, _PYTHON, args_key="arguments" if early else "args"))
    return Proposal("hitl_early" if early else "hitl", actions, value)


def read_hitl_js(value: dict[str, Any]) -> Proposal:
    return Proposal("hitl_js", tuple(_actions(value, _JAVASCRIPT, args_key="args")), value)


def _actions(value: dict[str, Any], words: _Words, *, args_key: str) -> Iterator[ProposedAction]:
    requests, configs = _lists(value, words)
    read = [_read_config(config, words, place=f"{words.configs}[{index}]") for index, config in enumerate(configs)]
    by_name = _by_name(read, words)
    for index, request in enumerate(requests):
        where = f"{words.requests}[{index}]"
        call = object_at(request, where, code="bad_action")
        name = text_of(call, "name", where)
        if name and has_visible(name) and name not in by_name:
            raise BrokenRules(
                "no_policy", f"No entry of {words.configs} is about {quoted(name)}: nothing may be decided."
            )
        policy = by_name.get(name or "", Policy(()))
        # The early form keeps descriptions in the configs, one for each request in the same order.
        if len(read) == len(requests) and read[index][0] == name:
            policy = read[index][1]
        yield read_call(call, policy, where=where, args_key=args_key)


def _lists(value: dict[str, Any], words: _Words) -> tuple[list[Any], list[Any]]:
    requests, configs = value.get(words.requests), value.get(words.configs)
    shape = f"{words.requests} and {words.configs} must both be lists"
    if isinstance(requests, list) and configs is None:
        raise BrokenRules(
            "no_policy", f"{words.configs} is missing: the review policy does not say what may be decided."
        )
    if not isinstance(requests, list) or not isinstance(configs, list):
        wrong, name = (requests, words.requests) if not isinstance(requests, list) else (configs, words.configs)
        raise BrokenRules("bad_shape", f"{shape}; {name} is {quoted(wrong)}.")
    if not requests:
        raise BrokenRules("empty_batch", f"{words.requests} is empty: the agent waits, but asks about no call.")
    return requests, configs


def _read_config(config: Any, words: _Words, *, place: str) -> tuple[str, Policy]:
    found = object_at(config, place, code="bad_policy")
    other = _JAVASCRIPT if words is _PYTHON else _PYTHON
    if other.name in found or other.allowed in found:
        raise BrokenRules("ambiguous", f"{place} mixes the spellings {words.allowed} and {other.allowed}.")
    name, allowed = found.get(words.name), found.get(words.allowed)
    if not isinstance(name, str):
        raise BrokenRules("bad_policy", f"{place} has no {words.name}; it must be text.")
    if not isinstance(allowed, list):
        raise BrokenRules("bad_policy", f"{words.allowed} of {quoted(name)} is {quoted(allowed)}; it must be a list.")
    policy = read_policy(allowed, words.known)
    return name, Policy(policy.allowed, policy.flags, description=text_of(found, "description", place))


def _by_name(read: list[tuple[str, Policy]], words: _Words) -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for name, policy in read:
        if found.setdefault(name, policy).allowed != policy.allowed:
            raise BrokenRules(
                "ambiguous", f"Two entries of {words.configs} about {quoted(name)} allow different decisions."
            )
    return found


# ---------------------------------------------------------------------------------------------------------- agent inbox


def read_agent_inbox(value: Any) -> Proposal:
    items = value if isinstance(value, list) else [value]
    return Proposal("agent_inbox", tuple(_inbox_action(item, index) for index, item in enumerate(items)), value)


def _inbox_action(item: Any, index: int) -> ProposedAction:
    where = f"Request {index}"
    request = object_at(item, where, code="bad_shape")
    call = object_at(request.get("action_request"), f"action_request of request {index}", code="bad_action")
    name = quoted(call.get("action"))
    if request.get("config") is None:
        raise BrokenRules("no_policy", f"{where}, {name}, has no config: nothing says what may be decided.")
    config = object_at(request["config"], f"config of {name}", code="bad_policy")
    call = {**call, "description": request.get("description")}
    return read_call(call, _inbox_policy(config), where=where, name_key="action")


def _inbox_policy(config: dict[str, Any]) -> Policy:
    """Only a literal true allows anything: the text "false" is true to Python."""
    allowed = tuple(verdict for key, verdict in _INBOX.items() if config.get(key) is True)
    odd = frozenset(f"config_not_bool:{key}" for key in _INBOX if config.get(key) and config[key] is not True)
    return Policy(allowed, odd, labels={"reject": "Ignore"})
