"""An adversary with a token of a dollar spends a dollar; whoever takes the check away sees it spend more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.adversary.siege import ALLOWANCE, lay_siege

SEQUENCES = 1000
"""A tenth of what is run before a release: ``python -m tests.simulation --siege 10000``."""


@pytest.mark.slow
def test_a_few_clients_for_a_while() -> None:
    siege = lay_siege(1, clients=3, lasts_s=900.0)
    assert not list(siege.found)
    assert (siege.sequences, siege.machines > 0) == (3, True)
    assert 0 < siege.most <= ALLOWANCE


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_allowance_that_counts_posted_money_alone_is_overrun() -> None:
    found = [line for seed in range(1, 4) for line in lay_siege(seed, bug="allowance_of_posted_alone").found]
    assert any(line.startswith("S27") for line in found)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_a_thousand_sequences_of_an_adversary() -> None:
    """No token costs more than its dollar, nothing is answered by an error of the daemon's, no secret is told."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--siege", str(SEQUENCES)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert f"sequences={SEQUENCES} " in done.stdout.splitlines()[-1]
