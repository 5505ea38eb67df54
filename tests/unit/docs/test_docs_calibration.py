"""The figures of the page on plans are those of the kept file."""

from __future__ import annotations

import re
from pathlib import Path

from tools.calibration.__main__ import newest_groups
from tools.calibration.kept import read
from tools.calibration.report import picture, tables

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/research/2026-11-calibration.md").read_text()


def test_the_page_and_its_picture_are_the_report_of_what_was_played() -> None:
    groups = newest_groups(read(ROOT / "docs/research/calibration.jsonl"))
    shown = re.search(r"<!-- the report -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == "\n".join(tables(groups)).strip()
    assert (ROOT / "docs/images/calibration.svg").read_text() == picture(groups)
