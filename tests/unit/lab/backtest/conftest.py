"""Suites for the tests: small ones made here, and the shared ones where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autopilot_lab.backtest.suite import Suite
from autopilot_lab.backtest.suite_file import read_suite

BESIDE_THE_CHECKOUT = Path(__file__).parents[5] / "shared" / "traces"
TRACES = Path(os.environ.get("AUTOPILOT_TRACES", BESIDE_THE_CHECKOUT))


@pytest.fixture(scope="session")
def shared_suite() -> Callable[[str], Suite]:
    """Reads a shared suite by name; the test is skipped where they are not to be had."""

    def read(name: str) -> Suite:
        path = TRACES / f"{name}.json"
        if not path.exists():
            pytest.skip("the trace suites are not here; AUTOPILOT_TRACES names their directory")
        return read_suite(path)

    return read
