"""How many functions have more branches than the linter allows: a number that only becomes smaller."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
LET_OFF = 2
"""Lower this after splitting one of them."""


def test_no_more_functions_are_let_off() -> None:
    folders = ("autopilot", "packages", "benchmarks", "migrations", "tests", "tools")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = [f"{path.relative_to(ROOT)}: {line.strip()}" for path in sources for line in path.read_text().splitlines()]
    found = [line for line in lines if line.endswith("# noqa: " + "C901")]
    assert len(found) == LET_OFF, "\n".join(found)
