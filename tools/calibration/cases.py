"""The jobs that are planned and played: one start on each made-up market, or starts a week apart on a recorded one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.suite import HOUR_S, BidRun, BidSuite, whole_ticks
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite

APART_S = 7 * 86400.0
"""Between two starts on a recorded market: runs of one week see much the same prices."""
BUDGETS = (1.0, 2.0)
"""What a budget is drawn from, evenly: so many times the work at the cheapest floor of the start. In made-up markets
half of the jobs need more than the middle of it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One job on one market: it is played with the budget, and again without."""

    suite: BidSuite
    """As the daemon's searches show it."""
    run: BidRun
    budget: float

    @property
    def name(self) -> str:
        return f"{self.suite.name}, from {self.run.start}, due in {self.run.deadline_s / HOUR_S:g} h"


def made_up(kind: Kind, seed: int, live: Live) -> list[Case]:
    """Each deadline of one start in that market, at any hour of a week."""
    suite = synthetic_suite(kind, seed, starts=2, apart_h=APART_S / HOUR_S)
    first, last = sorted({run.start for run in suite.runs})
    start = _draws("start", suite.name).randrange(first, last)
    shown = as_searched(suite, live)
    return [_case(shown, replace(run, start=start), live) for run in suite.runs if run.start == first]


def recorded(suite: BidSuite, live: Live) -> Iterator[list[Case]]:
    """The first start in each week, with each of its deadlines."""
    shown = as_searched(suite, live)
    week_ticks = whole_ticks(APART_S, suite.config.tick_s)
    weeks: dict[int, int] = {}
    for run in suite.runs:
        weeks.setdefault(run.start // week_ticks, run.start)
    for start in weeks.values():
        yield [_case(shown, run, live) for run in suite.runs if run.start == start and run.pays == "bid"]


def _case(suite: BidSuite, run: BidRun, live: Live) -> Case:
    """The suite's work is the user's estimate here: deadline and budget are chosen by it, and the truth is off."""
    config = suite.config
    true_s = run.work_s**2 / live.estimated_work_s(run.work_s, run.block)
    cheapest = min(min(floors[run.start] for floors in suite.floors), config.on_demand_price)
    hourly = cheapest + config.storage_rate
    drawn = _draws("budget", f"{suite.name} {run.start} {run.deadline_s}").uniform(*BUDGETS)
    return Case(suite, replace(run, work_s=true_s), drawn * hourly * run.work_s / HOUR_S)


def _draws(what: str, of: str) -> random.Random:
    return random.Random(f"{what} {of}")  # noqa: S311
