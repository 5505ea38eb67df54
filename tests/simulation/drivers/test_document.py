from __future__ import annotations

from pathlib import Path

from tests.simulation.drivers.document import catalogue, checkers, stories
from tests.simulation.runs.bugs import BUGS

PAGE = Path(__file__).parents[3] / "docs" / "research" / "simulator-catalogue.md"


def test_the_page_names_every_fault_invariant_and_story() -> None:
    text = PAGE.read_text()
    for part in (catalogue(), checkers(), stories()):
        assert part in text, "rewrite it: python -m tests.simulation --planted all --document " + str(PAGE)


def test_the_page_names_every_planted_bug_and_what_found_it() -> None:
    text = PAGE.read_text()
    assert [bug.name for bug in BUGS.values() if f"| {bug.what} | " not in text] == []
    assert "not found" not in text
