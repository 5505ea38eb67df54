"""A few short seeds here, sixty whole ones behind ``make check``, and thousands behind ``make sim``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.drivers.regressions import Case
from tests.simulation.ground.faults import CATALOGUE
from tests.simulation.runs.run import run
from tests.simulation.runs.small import a_few_hours
from tests.variants import first_of

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def replay(seed: int, hash_seed: str) -> str:
    program = f"from tests.simulation.runs.small import a_few_hours; print(a_few_hours({seed}, hours=0.3).trace_hash)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("seed", first_of((1, 2)))
def test_a_short_seed(seed: int) -> None:
    result = a_few_hours(seed, hours=3.0)
    assert not result.violations
    assert result.faults.total() > 20


@pytest.mark.slow
def test_a_seed_replays_bit_for_bit() -> None:
    is_fixed = os.environ.get("PYTHONHASHSEED") == "0"
    here = a_few_hours(5, hours=0.3).trace_hash if is_fixed else replay(5, "0")
    assert replay(5, "0") == here != a_few_hours(6, hours=0.3).trace_hash


def test_a_seed_given_by_hand(pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("--sim-seed")
    if seed is None:
        pytest.skip("only with --sim-seed N")
    first, second = Case(seed).run(), Case(seed).run()
    assert first.trace_hash == second.trace_hash
    assert not first.violations


@pytest.mark.slow
@pytest.mark.parametrize("path", REGRESSIONS, ids=[path.stem for path in REGRESSIONS])
def test_what_once_failed(path: Path) -> None:
    assert not Case.read(path).run().violations


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 61, 10))
def test_sixty_whole_seeds(first: int) -> None:
    """The first of the thousands that ``make sim`` plays. Ten at a time, so that they share the cores."""
    assert not {seed: sorted(result.failed) for seed in range(first, first + 10) if (result := run(seed)).violations}


def test_the_catalogue_is_whole() -> None:
    assert len({row.id for row in CATALOGUE}) == len(CATALOGUE) >= 35
