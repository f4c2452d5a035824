"""Interrupt values for tests: the field's payloads, our own, and small builders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reviews.dialects import Proposal, Refused, Verdict, check, read
from reviews.tests.cases import payload_types

CASES = Path(__file__).parent
FIELD_PAYLOADS: list[dict[str, Any]] = json.loads((CASES / "payloads.json").read_text())
OWN_PAYLOADS: list[dict[str, Any]] = json.loads((CASES / "own_payloads.json").read_text())
FIELD_CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in json.loads((CASES / "cases.json").read_text())}
PAYLOADS: dict[str, dict[str, Any]] = {payload["name"]: payload for payload in FIELD_PAYLOADS + OWN_PAYLOADS}


def evaluated(expression: str, **names: Any) -> Any:
    return eval(expression, {**vars(payload_types), **names})  # noqa: S307  our own files, not input


def value_of(payload: dict[str, Any]) -> Any:
    return payload["value"] if payload["value_py"] is None else evaluated(payload["value_py"])


def read_payload(name: str) -> Proposal | Refused:
    payload = PAYLOADS[name]
    kind = payload.get("kind", "interrupt")
    return read(value_of(payload), response_schema=payload["response_schema"], kind=kind)


def proposal_of(value: Any, *, response_schema: dict[str, Any] | None = None, kind: str = "interrupt") -> Proposal:
    proposal = read(value, response_schema=response_schema, kind=kind)
    assert isinstance(proposal, Proposal), proposal
    return proposal


def refused(value: Any, *, response_schema: dict[str, Any] | None = None, kind: str = "interrupt") -> Refused:
    held = read(value, response_schema=response_schema, kind=kind)
    assert isinstance(held, Refused), held
    return held


def hitl(args: Any, *allowed: str, name: str = "pay") -> dict[str, Any]:
    return {
        "action_requests": [{"name": name, "args": args}],
        "review_configs": [{"action_name": name, "allowed_decisions": list(allowed)}],
    }


def codes(proposal: Proposal, *verdicts: Verdict) -> list[tuple[int | None, str, str]]:
    return [(problem.position, problem.field, problem.code) for problem in check(proposal, verdicts)]
