"""Answers of the API held to its document: no field is missing, none is of another kind, none is not described."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter

from autopilot.answers.models.base import Problem
from autopilot.api.operations import OPERATIONS


def check_answer(method: str, path: str, status: int, raw: bytes, content_type: str) -> None:
    """Raises ``AssertionError``, ``ValidationError``. Calls that the API does not have are let pass."""
    if method == "HEAD" or content_type.startswith("text/"):
        return
    if status >= 400:
        assert content_type.startswith("application/problem+json"), (method, path, status, content_type)
        _check(Problem, raw)
        return
    found = _operation_of(method, path)
    if found is None or not OPERATIONS[found].answers:
        return
    answers = OPERATIONS[found].answers
    assert status in answers, f"{found} answers {status}, and its document says {sorted(answers)}"
    _check(answers[status], raw)


def _check(model: Any, raw: bytes) -> None:
    TypeAdapter(model).validate_json(raw, strict=True, extra="forbid")


def _operation_of(method: str, path: str) -> str | None:
    bare = path.partition("?")[0]
    for call in OPERATIONS:
        of_method, _, pattern = call.partition(" ")
        if of_method == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), bare):
            return call
    return None
