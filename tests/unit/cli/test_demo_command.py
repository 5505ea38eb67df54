"""What ``autopilot demo`` says before anything is started."""

from __future__ import annotations

import sys

import pytest

from autopilot.cli.exits import Exit
from autopilot.cli.main import run


def test_the_demo_of_all_markets_names_the_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "nebius", None)  # as if the package were not installed
    assert run(["demo", "--all-markets"]) == Exit.USAGE
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "error: the SDK of Nebius, which this demo plays, is not installed",
        "hint: make wheels EXTRAS=nebius in the checkout, "
        "then there: pip install --no-index --find-links dist 'gpu-autopilot[nebius]'",
    ]
    assert said.out == ""
