"""What a market said is kept without what names a machine or an account."""

from __future__ import annotations

import pytest

from autopilot.domain.remark import LONGEST, scrub


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("HTTP 429 rate limit exceeded", "HTTP 429 rate limit exceeded"),
        ("instance 47848147 has no contract", "instance … has no contract"),
        ("pod h2vguwbcd4nmgt not found", "pod … not found"),
        ("key rpa_pod_0123456789abcdef may not", "key … may not"),
        ("two\n lines\t and a tab", "two lines and a tab"),
    ],
)
def test_ids_are_taken_out(said: str, kept: str) -> None:
    assert scrub(said) == kept


def test_words_are_bounded() -> None:
    assert len(scrub("no " * 1000)) == LONGEST
