"""What is played: columns, and the starts of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.suite import HOUR_S, BidRun, BidSuite
from autopilot_lab.backtest.suite_file import read_suite
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite

RECORDED = ("aws-g2-2015-spring", "aws-r3-2015", "aws-m3-2015")
MADE_UP: tuple[Kind, ...] = ("calm", "stormy", "trending")
STRETCHES = (1.1, 1.25, 1.5, 2.0)
CHOSEN_ON, SCORED_ON = 40000, 41000
"""The first seeds: of those that numbers were chosen on, and of those that are scored."""
WEEK_S = 7 * 86400.0

MODES = {
    "as live": Live(),
    "progress": Live(reports_progress=True),
    "first job": Live(recorded_h=0.0),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One start in one column."""

    suite: BidSuite
    """As it is searched."""
    run: BidRun
    stretch: str
    """The piece of market that other runs share with it."""

    @property
    def market(self) -> str:
        return self.suite.name.removesuffix(f" {self.stretch}")

    @property
    def deadline_h(self) -> float:
        return round(self.run.deadline_s / HOUR_S, 3)


def cases(traces: Path | None, live: Live, clearing: bool, chosen_on: bool, share: tuple[int, int]) -> Iterator[Case]:
    """Spread over all columns from the first on: whatever is cut off has something of each.

    ``chosen_on``: the starts that numbers may be chosen on, in place of those that are scored. ``share``: (K, N).
    """
    number, of = share
    recorded = [_recorded(traces / f"{name}.json", live, clearing, chosen_on) for name in RECORDED] if traces else []
    starts = max((len(each) for each in recorded), default=0)
    order = sorted(range(starts), key=_spread)
    for turn in range(max(starts, 400)):
        if turn % of != number - 1:
            continue
        for by_start in recorded:
            if turn < len(order) and order[turn] < len(by_start):
                yield from by_start[order[turn]]
        yield from _made_up(turn, live, chosen_on)


def _spread(number: int) -> int:
    """Bit-reversed: the first few are far apart."""
    return int(f"{number:010b}"[::-1], 2)


def _recorded(path: Path, live: Live, clearing: bool, chosen_on: bool) -> list[list[Case]]:
    """By start, in the half of the record that is asked for."""
    if not path.exists():
        return []
    suite = read_suite(path)
    assert isinstance(suite, BidSuite)
    suite = as_searched(suite, live)
    half, by_start = len(suite.floors[0]) // 2, dict[int, list[Case]]()
    for run in suite.runs:
        ends = run.start + run.deadline_s / suite.config.tick_s
        is_asked = ends < half if chosen_on else run.start >= half
        if is_asked and (run.pays == "clearing") == clearing:
            week = int(run.start * suite.config.tick_s // WEEK_S)
            by_start.setdefault(run.start, []).append(Case(suite, run, f"week {week}"))
    return [by_start[start] for start in sorted(by_start)]


def _made_up(turn: int, live: Live, chosen_on: bool) -> Iterator[Case]:
    """One start a seed: no two see the same market."""
    seed = (CHOSEN_ON if chosen_on else SCORED_ON) + turn
    for kind in MADE_UP:
        suite = _one_start(kind, seed, live)
        for run in suite.runs:
            yield Case(suite, run, str(seed))


@lru_cache(maxsize=4)
def _one_start(kind: Kind, seed: int, live: Live) -> BidSuite:
    suite = as_searched(synthetic_suite(kind, seed, starts=1, stretches=STRETCHES), live)
    return replace(suite, name=f"{kind} {seed}")
