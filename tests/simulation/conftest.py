"""``pytest tests/simulation --sim-seed N`` replays one seed of the simulator."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seed", type=int, default=None, help="replay this seed of the simulator, twice")
