"""A few short seeds here; thousands of whole ones behind ``make check`` and ``make sim``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.drivers.regressions import Case
from tests.simulation.ground.faults import CATALOGUE
from tests.simulation.runs.small import a_few_hours

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def replay(seed: int, hash_seed: str) -> str:
    program = f"from tests.simulation.runs.small import a_few_hours; print(a_few_hours({seed}, hours=1).trace_hash)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("seed", [1, 2])
def test_a_short_seed(seed: int) -> None:
    result = a_few_hours(seed, hours=3.0)
    assert not result.violations
    assert result.faults.total() > 20


def test_a_seed_replays_bit_for_bit() -> None:
    assert replay(5, "0") == replay(5, "0") != replay(6, "0")


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
@pytest.mark.timeout(14_400)
def test_two_thousand_seeds() -> None:
    """Nothing is violated; every row of the catalogue and every change of a lease's state is reached."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seeds", "2000", "--coverage"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "leaks=0 doubles=0 overruns=0 lost=0" in done.stdout.splitlines()[-1]


def test_the_catalogue_is_whole() -> None:
    assert len({row.id for row in CATALOGUE}) == len(CATALOGUE) >= 35
