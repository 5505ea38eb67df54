"""Several markets, or several jobs on one, played and scored as if they were one suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from autopilot_lab.backtest.play import Conditions
from autopilot_lab.backtest.runner import Place, Plan, Result, run_plan
from autopilot_lab.backtest.scores import STRETCH_S
from autopilot_lab.backtest.suite import BidSuite, Suite, on_demand_cost, whole_ticks


@dataclass(frozen=True, slots=True)
class Trial:
    suite: Suite
    budget: Decimal | None = None
    """Of its job, whose work all runs of the suite share; none: as the conditions say."""

    def under(self, conditions: Conditions) -> Conditions:
        """The job's own budget, unless all runs get theirs by share."""
        if self.budget is None or conditions.budget_share is not None:
            return conditions
        share = float(self.budget) / on_demand_cost(self.suite.config, self.suite.runs[0])
        return replace(conditions, budget_share=share)


def pool(trials: Sequence[Trial]) -> Suite:
    """A suite of all runs in order, to choose from and to score by. Of several markets it has no prices.

    Where there are several trials, their suites are of bids.
    """
    if len(trials) == 1:
        return trials[0].suite
    begins: dict[str, int] = {}
    runs, end = [], 0
    for trial in trials:
        suite = trial.suite
        assert isinstance(suite, BidSuite)
        if suite.name not in begins:
            # One market after the other, from a new week on: no run of one shares its prices with one of another.
            begins[suite.name], end = end, end + _in_whole_weeks(suite)
        runs += [replace(run, start=run.start + begins[suite.name]) for run in suite.runs]
    first = trials[0].suite
    assert isinstance(first, BidSuite)
    return BidSuite(", ".join(begins), first.config, (), tuple(runs))


def _in_whole_weeks(suite: BidSuite) -> int:
    """Ticks of a market, rounded up to the stretches that scores resample."""
    week = whole_ticks(STRETCH_S, suite.config.tick_s)
    return -(-len(suite.floors[0]) // week) * week


def run_trials(
    trials: Sequence[Trial],
    plan: Plan,
    chosen: Sequence[int],
    jobs: int,
    place: Place = "processes",
    advance: Callable[[int], None] | None = None,
) -> list[Result]:
    """The results of the pool's chosen runs; ``plan`` is what each trial's suite is played by. Raises UserError."""
    results: list[Result] = []
    first = 0
    for trial in trials:
        own = [number - first for number in chosen if first <= number < first + len(trial.suite.runs)]
        if own:
            its_plan = replace(plan, suite=trial.suite, conditions=trial.under(plan.conditions))
            done = run_plan(its_plan, own, jobs, place, advance)
            results += [replace(result, run=result.run + first) for result in done]
        first += len(trial.suite.runs)
    return results
