"""No limit is ever passed: what the market's books say, less what is excused, in every generated scenario."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.budget import SHORT_PERMIT_S, permit_reserve
from tests.property.spending import LONG_PERMIT_S, Spending, a_scenario, with_ends, with_long_permits

TICKS = 100
QUICK = 30
THOROUGH = 1_000
PER_TEST = 100


def play(seed: int, *, has_token: bool = False, is_uncertified: bool = False, ends: bool = False) -> Spending:
    """To the end; every limit is checked every ten seconds of the market's time."""
    scenario = a_scenario(seed, has_token=has_token, is_uncertified=is_uncertified)
    if ends:
        scenario = with_ends(scenario)
    try:
        for _ in range(TICKS * (2 if is_uncertified else 1)):
            scenario.tick()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; {scenario.trouble}") from error
    return scenario


def test_what_is_really_spent_never_passes_a_limit() -> None:
    played = [play(seed) for seed in range(QUICK)]
    assert sum(scenario.books.total_excused() == 0 for scenario in played) >= QUICK / 2
    parked = sum(any(job.status is JobStatus.PARKED for job in scenario.jobs.values()) for scenario in played)
    assert parked >= QUICK / 5, "too few scenarios came to their limits to prove anything"


def test_a_machine_that_ran_unobserved_until_its_destroy_counts() -> None:
    """Seen as paused, it ran for a quarter of an hour without a list; the next machine spent that money again."""
    play(1383)


def test_a_permit_that_is_outstanding_counts_when_another_machine_is_rented() -> None:
    """The daemon was lost as it began a move: both machines worked on, on the same last dollars."""
    play(943)


@pytest.mark.slow
def test_what_all_jobs_of_a_token_really_spend_never_passes_its_allowance() -> None:
    played = [play(seed, has_token=True) for seed in range(QUICK)]
    statuses = [{(job.status, job.reason) for job in scenario.jobs.values()} for scenario in played]
    parked = sum((JobStatus.PARKED, Reason.OVER_ALLOWANCE) in each for each in statuses)
    assert parked >= QUICK / 20, "too few scenarios came to the allowance to prove anything"


@pytest.mark.slow
def test_what_is_really_spent_on_a_market_without_a_certificate_never_passes_its_allowance() -> None:
    played = [play(seed, is_uncertified=True) for seed in range(QUICK)]
    reasons = [{lease.reason for lease in scenario.leases()} for scenario in played]
    ended = sum(Reason.OVER_UNCERTIFIED in each for each in reasons)
    assert ended >= QUICK / 5, "too few scenarios came to the allowance to prove anything"


@pytest.mark.slow
def test_machines_that_prove_their_market_or_stay_never_pass_its_allowance() -> None:
    played = [play(seed, is_uncertified=True, ends=True) for seed in range(QUICK)]
    proved = sum(scenario.is_proved for scenario in played)
    stayed = sum(any(lease.reason is Reason.HOLD_OVER for lease in scenario.leases()) for scenario in played)
    assert proved >= QUICK / 5, "too few markets were proved to prove anything"
    assert stayed >= QUICK / 15, "too few machines stayed to prove anything"


def play_asleep(seed: int) -> tuple[Spending, bool]:
    """And whether a machine was ever given the longest permit."""
    scenario, is_long = with_long_permits(a_scenario(seed)), False
    try:
        for _ in range(1200):
            scenario.tick()
            is_long |= any((lease.permit.ttl_s or 0) == LONG_PERMIT_S for lease in scenario.leases())
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}; {scenario.trouble}") from error
    return scenario, is_long


def test_machines_that_work_on_for_hours_while_the_daemon_sleeps_pass_no_limit() -> None:
    played = [play_asleep(seed) for seed in range(QUICK)]
    assert sum(is_long for _, is_long in played) >= QUICK / 5, "too few had money for the longest permit"


def test_it_is_found_when_no_more_than_a_quarter_of_an_hour_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold_a_short_one(lease: Lease, params: Params) -> Decimal:
        return permit_reserve(replace(lease, permit=replace(lease.permit, ttl_s=SHORT_PERMIT_S)), params)

    monkeypatch.setattr(budget, "permit_reserve", hold_a_short_one)
    with pytest.raises(AssertionError, match="may bill"):
        play_asleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, THOROUGH, PER_TEST))
def test_in_a_thousand_scenarios(first: int) -> None:
    played = [play(seed) for seed in range(first, first + PER_TEST)]
    fair = sum(scenario.books.total_excused() == 0 for scenario in played)
    spent = sum((scenario.books.total() for scenario in played), Decimal(0))
    excused = sum((scenario.books.total_excused() for scenario in played), Decimal(0))
    print(
        f"seeds {first}..{first + PER_TEST - 1}: nothing excused in {fair}; ${spent:.2f} spent, ${excused:.2f} excused"
    )
    assert fair >= PER_TEST / 2
