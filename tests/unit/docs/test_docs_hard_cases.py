"""The page that says what goes wrong names a test for each case: they exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explanation/mailbox-and-agent.md").read_text()
TABLE = PAGE.partition("### What goes wrong")[2].partition("\n## ")[0]


def test_every_case_names_tests_that_exist() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 10
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)?(?:::)?(test_\w+)?`", row)
        assert any(file for file, _ in named), row
        newest = ""
        for file, test in named:
            newest = file or newest
            if not newest:
                continue
            (path,) = (ROOT / "tests").rglob(newest)
            assert not test or re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE), (
                f"{newest}::{test}"
            )
