"""No limit is ever passed: what the market's books say, less what is excused, in every generated scenario."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.job import JobStatus
from tests.property.spending import Spending, a_scenario

TICKS = 100
QUICK = 200
THOROUGH = 10_000
PER_TEST = 500


def play(seed: int) -> Spending:
    """To the end; every limit is checked every ten seconds of the market's time."""
    scenario = a_scenario(seed)
    try:
        for _ in range(TICKS):
            scenario.tick()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; {scenario.trouble}") from error
    return scenario


def test_what_is_really_spent_never_passes_a_limit() -> None:
    played = [play(seed) for seed in range(QUICK)]
    assert sum(scenario.books.total_excused() == 0 for scenario in played) >= QUICK / 2
    parked = sum(any(job.status is JobStatus.PARKED for job in scenario.jobs.values()) for scenario in played)
    assert parked >= QUICK / 5, "too few scenarios came to their limits to prove anything"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, THOROUGH, PER_TEST))
def test_in_ten_thousand_scenarios(first: int) -> None:
    played = [play(seed) for seed in range(first, first + PER_TEST)]
    fair = sum(scenario.books.total_excused() == 0 for scenario in played)
    spent = sum((scenario.books.total() for scenario in played), Decimal(0))
    excused = sum((scenario.books.total_excused() for scenario in played), Decimal(0))
    print(
        f"seeds {first}..{first + PER_TEST - 1}: nothing excused in {fair}; ${spent:.2f} spent, ${excused:.2f} excused"
    )
    assert fair >= PER_TEST / 2
