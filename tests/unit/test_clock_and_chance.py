"""No module reads the wall clock or makes ids past ``clock`` and ``ids``. Import contracts cannot see these calls."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import autopilot
import autopilot_lab

PACKAGES = Path(autopilot.__file__).parent, Path(autopilot_lab.__file__).parent
BANNED = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid.uuid4", "uuid.uuid1", "os.urandom"}
ALLOWED = {
    ("clock.py", "datetime.now"): "it is the clock",
    ("service/identity.py", "datetime.now"): "the instant that a scaled clock begins with",
    ("sandbox/__main__.py", "datetime.now"): "the same, for a sandbox of its own",
    ("agent/shipped/memory.py", "uuid.uuid4"): "a rented machine's own token",
    ("providers/ssh/shipped/program.py", "os.urandom"): "a lease's own token, made where it lies",
    ("agent/shipped/arrival.py", "os.urandom"): "bytes that no disk and no line compresses, to measure both",
}


def calls(source: str) -> set[str]:
    """The banned names that ``source`` mentions, called or not."""
    names = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    return {banned for banned in BANNED if any(name == banned or name.endswith(f".{banned}") for name in names)}


def test_the_clock_and_chance_are_asked_in_their_rooms_only() -> None:
    found = {
        (str(path.relative_to(package)), call)
        for package in PACKAGES
        for path in package.rglob("*.py")
        for call in calls(path.read_text())
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize("source", ["datetime.now(UTC)", "dt.datetime.now()", "made = field(default=uuid.uuid4)"])
def test_a_look_past_the_clock_is_found(source: str) -> None:
    assert len(calls(source)) == 1
