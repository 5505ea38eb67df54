"""Each market that the program can be pointed at has a page that says what is supported and what is not proven."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[3] / "docs" / "providers"
NAMES = sorted(entry.name for entry in entry_points(group="autopilot.providers"))


@pytest.mark.parametrize("name", NAMES)
def test_a_market_s_page_says_what_is_not_verified(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert "## What is supported" in text
    assert "## Not verified" in text
