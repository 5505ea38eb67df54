"""The page that says what goes wrong with checkpoints has a test for each case: they exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explanation/checkpoints.md").read_text()
CASES = re.findall(r"^\| (\d+) \|", PAGE.partition("## What goes wrong")[2], re.MULTILINE)
TESTS = (ROOT / "docs/research/2026-11-checkpoint-cases.md").read_text()


def test_every_case_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \| `(test_\w+\.py)(?:::(test_\w+))?` \|$", TESTS, re.MULTILINE)
    assert len(CASES) >= 10
    assert sorted({int(number) for number, _, _ in rows}) == [int(number) for number in CASES]
    assert len(rows) == len(re.findall(r"^\| \d", TESTS, re.MULTILINE))
    for _, file, test in rows:
        (path,) = (ROOT / "tests").rglob(file)
        assert not test or re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE), f"{file}::{test}"
