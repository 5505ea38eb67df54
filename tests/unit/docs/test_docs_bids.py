"""The table of bids against rules is the report of the kept file."""

from __future__ import annotations

from pathlib import Path

from tools.bids.kept import read
from tools.bids.report import tables

ROOT = Path(__file__).parents[3]


def test_the_page_shows_the_report_of_what_was_played() -> None:
    kept = read(ROOT / "docs/research/bids.jsonl")
    page = (ROOT / "docs/research/2026-11-bids-and-rules.md").read_text()
    shown = page.split("<!-- the report -->\n```text\n")[1].split("```")[0]
    newest = [one for one in kept if one.code == kept[-1].code]
    assert [line.rstrip() for line in shown.strip().splitlines()] == [line.rstrip() for line in tables(newest)]
