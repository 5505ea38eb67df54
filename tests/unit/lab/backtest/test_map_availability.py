"""The product's policy on availability suites: never late, never below the optimum, for any behaviour of the market."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot.domain.params import Params
from autopilot.engine.actions import LONGEST_LIFE
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.availability import AvailabilityView, play_availability
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.map_availability import start_on_availability
from autopilot_lab.backtest.optimal import optimal_availability
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import EXACT, Perturbation
from autopilot_lab.backtest.session import VANISH_RISK, physics, with_given
from autopilot_lab.backtest.suite import AvailabilityConfig, AvailabilityJob, AvailabilityRun, ticks_until, whole_ticks

DEADLINE_S = 36_000.0
"""All runs share it: clusters are made once for ten-minute steps."""
REPEATABLE = settings(derandomize=True, deadline=None, database=None, max_examples=60)


@dataclass(frozen=True)
class Trial:
    tick_s: float = 600.0
    work_s: float = 4 * 3600.0
    restart_s: float = 300.0
    ratio: float = 0.3
    budget: float | None = None
    perturbation: Perturbation = EXACT

    @property
    def config(self) -> AvailabilityConfig:
        return AvailabilityConfig(self.tick_s, 3 * self.ratio, 3.0)

    @property
    def run(self) -> AvailabilityRun:
        ticks = ticks_until(DEADLINE_S, self.tick_s)
        return AvailabilityRun(0, 0, ticks + 30, self.work_s, DEADLINE_S, self.restart_s)

    @property
    def job(self) -> AvailabilityJob:
        perturbed = self.perturbation
        work_s = perturbed.estimated_work_s(self.work_s, self.run.block)
        known = (self.budget, perturbed.estimate_error, perturbed.lag_ticks, perturbed.vanish)
        return AvailabilityJob(work_s, DEADLINE_S, self.restart_s, *known)

    @property
    def can_be_done_on_demand(self) -> bool:
        """Begun at once, by what the policy is told at worst; one tick kept where what it sees is old."""
        told, params = self.job, self.params()
        worst_s = told.work_s * (1 + told.estimate_error) + self.restart_s + params.deadline.on_demand_margin_s
        return whole_ticks(worst_s, self.tick_s) <= ticks_until(DEADLINE_S, self.tick_s)

    def trace(self, lengths: list[int], *, first: int) -> bytes:
        states = b"".join(bytes([(first + number) % 2]) * length for number, length in enumerate(lengths))
        return (states * (self.run.ticks // max(len(states), 1) + 1))[: self.run.ticks]

    def params(self, **given: float) -> Params:
        return with_given(physics(self.job, self.tick_s, self.restart_s), given)

    def played(self, trace: bytes, seen: list[tuple[Any, Choice]] | None = None) -> Outcome:
        def observe(view: AvailabilityView, choice: Choice) -> None:
            if seen is not None:
                seen.append(((view.running, view.pending_s, view.spot_available), choice))

        choose = start_on_availability(self.config, self.job, {}, PHASES)
        return play_availability(self.config, self.run, trace, choose, self.job, self.perturbation, observe)


trials = st.builds(
    Trial,
    tick_s=st.sampled_from([300.0, 600.0, 900.0, 1800.0]),
    work_s=st.sampled_from([3600.0, 4 * 3600.0, 7.3 * 3600.0, 9.5 * 3600.0]),
    restart_s=st.sampled_from([0.0, 250.0, 1800.0]),
    ratio=st.sampled_from([0.1, 0.4, 0.95]),
)
lengths = st.lists(st.integers(1, 30), min_size=1, max_size=20)


@REPEATABLE
@given(trials, lengths, st.integers(0, 1))
@pytest.mark.slow
def test_on_any_market_a_run_that_on_demand_can_finish_is_never_late(trial: Trial, runs: list[int], first: int) -> None:
    trace = trial.trace(runs, first=first)
    outcome = trial.played(trace)
    if not trial.can_be_done_on_demand:
        assert outcome.status in ("finished", "late")
        return
    assert outcome.status == "finished"
    assert outcome.cost >= optimal_availability(trial.config, trial.run, trace) - 1e-6
    # What is paid for is work, starts, and the rest of the tick in which it ends.
    assert outcome.lost <= (outcome.pauses + outcome.migrations + trial.run.ticks) * trial.restart_s / 3600 * 3.0


@REPEATABLE
@given(
    st.sampled_from([Perturbation(estimate_error=0.2), Perturbation(lag_ticks=1), Perturbation(vanish=0.1)]),
    st.sampled_from([300.0, 600.0]),
    st.sampled_from([2 * 3600.0, 5 * 3600.0, 6.5 * 3600.0]),
    lengths,
    st.integers(0, 1),
)
@pytest.mark.slow
def test_nor_when_what_it_is_told_is_not_quite_so(
    perturbation: Perturbation, tick_s: float, work_s: float, runs: list[int], first: int
) -> None:
    trial = Trial(tick_s, work_s, perturbation=perturbation)
    assert trial.can_be_done_on_demand
    assert trial.played(trial.trace(runs, first=first)).status == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("served", [False, True], ids=["at once", "once it works"])
@pytest.mark.parametrize("work_h", [4.0, 8.0])
def test_an_adversary_who_takes_each_machine_away_cannot_make_it_late(work_h: float, served: bool) -> None:
    """Spot is offered whenever nothing of it is held, and taken away when a start is paid for, or has been served."""
    trial = Trial(work_s=work_h * 3600.0, restart_s=900.0)
    trace = bytearray([1] * trial.run.ticks)
    for _ in range(trial.run.ticks):
        seen: list[tuple[Any, Choice]] = []
        outcome = trial.played(bytes(trace), seen)
        on_spot = [
            tick
            for tick, ((running, pending_s, _), _) in enumerate(seen)
            if running is Choice.SPOT and (pending_s <= 0 or not served)
        ]
        if not on_spot:
            break
        trace[on_spot[0]] = 0
    assert outcome.status == "finished"
    assert outcome.pauses >= 3, "it was tempted"
    assert outcome.cost <= trial.run.ticks * trial.tick_s / 3600 * 3.0


def test_the_least_time_that_will_do_is_enough_and_a_tick_less_is_late() -> None:
    trial = Trial(work_s=DEADLINE_S - 600.0, restart_s=600.0)
    off = bytes(trial.run.ticks)
    assert trial.played(off).status == "finished"
    assert replace(trial, restart_s=601.0).played(off).status == "late"


def test_spot_that_stays_is_all_that_is_paid_for() -> None:
    trial = Trial()
    outcome = trial.played(b"\1" * trial.run.ticks)
    assert (outcome.status, outcome.on_demand, outcome.pauses, outcome.migrations) == ("finished", 0, 0, 0)
    assert outcome.cost == pytest.approx(25 / 6 * 0.9), "four hours and a start, in whole ticks"


def test_without_spot_it_costs_what_on_demand_does() -> None:
    trial = Trial()
    outcome = trial.played(bytes(trial.run.ticks))
    assert (outcome.status, outcome.spot) == ("finished", 0)
    assert outcome.cost == pytest.approx(25 / 6 * 3.0)


@pytest.mark.slow
def test_a_run_goes_on_for_longer_than_the_daemon_lets_one_machine_live() -> None:
    hours = LONGEST_LIFE.total_seconds() / 3600 + 20
    config = AvailabilityConfig(1800.0, 0.9, 3.0)
    run = AvailabilityRun(0, 0, int(2 * hours) + 10, hours * 3600, (hours + 3) * 3600, 0.0)
    told = AvailabilityJob(run.work_s, run.deadline_s, 0.0)
    for trace, rate in ((bytes(run.ticks), 3.0), (b"\1" * run.ticks, 0.9)):
        outcome = play_availability(config, run, trace, start_on_availability(config, told, {}, PHASES), told, EXACT)
        assert (outcome.status, outcome.migrations) == ("finished", 0)
        assert outcome.cost == pytest.approx(hours * rate)


def test_a_run_is_the_same_when_it_is_played_again() -> None:
    trial = Trial(restart_s=250.0)
    trace = trial.trace([3, 7, 2, 9, 1], first=0)
    again: list[list[tuple[Any, Choice]]] = [[], []]
    for seen in again:
        trial.played(trace, seen)
    assert again[0] == again[1]


def test_it_knows_nothing_of_what_is_to_come() -> None:
    trial = Trial()
    beginning = trial.trace([2, 4, 3, 6], first=1)[:15]
    seen: list[list[Choice]] = []
    for end in (0, 1):
        told: list[tuple[Any, Choice]] = []
        trial.played(beginning + bytes([end]) * (trial.run.ticks - 15), told)
        seen.append([choice for _, choice in told[:15]])
    assert seen[0] == seen[1]


def test_a_budget_that_cannot_pay_for_the_work_is_not_spent_beyond() -> None:
    trial = Trial(budget=1.0)
    trace = b"\1" * trial.run.ticks
    outcome = trial.played(trace)
    assert outcome.status in ("parked", "refused")
    assert outcome.cost <= 1.0
    assert trial.played(bytes(trial.run.ticks)).cost <= 1.0


@pytest.mark.slow
@REPEATABLE
@given(st.sampled_from([0.2, 0.35, 0.5, 0.9]), lengths, st.integers(0, 1))
def test_no_budget_is_ever_overrun(share: float, runs: list[int], first: int) -> None:
    trial = replace(Trial(), budget=share * 25 / 6 * 3.0)
    outcome = trial.played(trial.trace(runs, first=first))
    assert trial.budget is not None
    assert outcome.cost <= trial.budget + 1e-6


# The numbers that a suite's physics become.


def test_the_physics_of_a_suite_are_the_policy_s_numbers() -> None:
    trial = Trial(tick_s=300.0, restart_s=700.0)
    params = trial.params()
    assert params.timing == replace(params.timing, tick_lag_s=300.0, setup_s=700.0, boot_s=700.0)
    assert params.budget.detect_s == 0.0
    assert params.deadline == replace(params.deadline, estimate_error=0.0, on_demand_margin_s=0.0)
    assert params.hazard.preemptions_per_h == 0.0


def test_what_is_uncertain_is_told() -> None:
    trial = Trial(perturbation=Perturbation(estimate_error=0.2, lag_ticks=1, vanish=0.1))
    params = trial.params()
    assert (params.deadline.estimate_error, params.budget.detect_s) == (0.2, 1200.0)
    ticks = params.deadline.on_demand_margin_s / 600.0
    assert 0.1**ticks <= VANISH_RISK < 0.1 ** (ticks - 1)


def test_parameters_given_by_hand_win() -> None:
    trial = Trial()
    assert trial.params(estimate_error=0.5, setup_s=50.0).timing.setup_s == 50.0
    choose = start_on_availability(trial.config, trial.job, {"estimate_error": 1.0, "held_share": 1.0}, PHASES)
    seen: list[Choice] = []
    play_availability(
        trial.config,
        trial.run,
        bytes(trial.run.ticks),
        choose,
        trial.job,
        EXACT,
        lambda _, choice: seen.append(choice),
    )
    exact: list[tuple[Any, Choice]] = []
    trial.played(bytes(trial.run.ticks), exact)
    # Eight hours and a start must fit behind the tick: 49 of 60 ticks are left when it stops waiting.
    assert seen.index(Choice.ON_DEMAND) == 60 - 49
    assert [choice for _, choice in exact].index(Choice.ON_DEMAND) > 60 - 49
