"""What is played: columns, and the starts of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Literal

from autopilot.pricing.availability.prior import PHASES
from autopilot.pricing.pressure import Verdict, measure_pressure
from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.map_live import LiveMapping
from autopilot_lab.backtest.play import Conditions, estimated_job
from autopilot_lab.backtest.session import ORIGIN
from autopilot_lab.backtest.suite import HOUR_S, BidJob, BidRun, BidSuite
from autopilot_lab.backtest.suite_file import read_suite
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite
from autopilot_lab.backtest.tasks import DAY

RECORDED = ("aws-g2-2015-spring", "aws-r3-2015", "aws-m3-2015")
STRETCHES = (1.1, 1.25, 1.5, 2.0)
TRACED = 4.0
"""Of a run without a deadline: prices are made up for so many times its work."""
CHOSEN_ON, SCORED_ON = 40000, 41000
"""The first seeds: of those that numbers were chosen on, and of those that are scored."""
WEEK_S = 7 * 86400.0

MODES = {
    "as live": Live(),
    "progress": Live(reports_progress=True),
    "first job": Live(recorded_h=0.0),
}
Half = Literal["scored", "choosing"]
_Place = tuple[str, float]
"""A column: its market, and hours to the deadline."""


@dataclass(frozen=True, slots=True)
class Column:
    """A market made up by seeds, what befalls jobs on it, and what is asked of them."""

    name: str
    kind: Kind
    stretches: tuple[float, ...] = STRETCHES
    """Deadlines over the work; infinite: there is none."""
    is_field: bool = True
    """Whether it is like the markets of the field; or one of the older ones."""
    live: Mapping[str, Any] = field(default_factory=dict)
    """Changes of how the day is played."""
    copies: int = 1
    """Jobs of the same policy that begin at once."""
    budget_share: float | None = None
    """Of the cost on demand."""
    left_out: tuple[str, ...] = ()
    """Rules that do not play: what they go by is not there."""


_REFUSES = {"refuses": True}
_BY_DEADLINE = ("uniform-progress", "fixed-bid")
COLUMNS = (
    Column("vast-like", "vast-like", live=_REFUSES),
    Column("contested", "contested", live=_REFUSES),
    Column("with duds", "vast-like", live={"refuses": True, "duds": 0.3}),
    *(Column(f"self-play of {copies}", "vast-like", (1.5,), live=_REFUSES, copies=copies) for copies in (2, 5, 10)),
    Column("two GPUs", "two-gpus", (1.25, 2.0), live=_REFUSES, left_out=("fixed-bid",)),
    Column("budget", "contested", (1.25, 2.0), live=_REFUSES, budget_share=0.7),
    Column("no deadline", "contested", (inf,), live=_REFUSES, left_out=_BY_DEADLINE),
    Column("no estimate", "contested", (inf,), live={"refuses": True, "has_estimate": False}, left_out=_BY_DEADLINE),
    *(Column(kind, kind, is_field=False) for kind in ("calm", "stormy", "trending")),
)
FIELD = frozenset(column.name for column in COLUMNS if column.is_field)
ONE_ALONE = ("vast-like", 36.0)
"""The column that self-play is held against: the same seeds, one copy."""


@dataclass(frozen=True, slots=True)
class Case:
    """One start in one column."""

    market: str
    suite: BidSuite
    """As it is searched."""
    run: BidRun
    stretch: str
    """The piece of market that other runs share with it."""
    conditions: Conditions
    copies: int = 1
    left_out: tuple[str, ...] = ()

    @property
    def deadline_h(self) -> float:
        return round(self.run.deadline_s / HOUR_S, 3)

    @property
    def would_be_refused(self) -> bool:
        """Whether ``submit`` takes no such job: by its estimate, not even on demand would be in time."""
        job = estimated_job(self.suite, self.run, self.conditions)
        assert isinstance(job, BidJob)
        mapping = LiveMapping(self.suite.config, job, {}, PHASES)
        return measure_pressure(mapping.job, ORIGIN, mapping.params).verdict is Verdict.WILL_MISS


@dataclass(frozen=True, slots=True)
class Asked:
    """Which starts are played."""

    live: Live = MODES["as live"]
    half: Half = "scored"
    clearing: bool = False
    """Recorded suites that pay the clearing price, in place of all that pay bids."""
    starts: int = 32
    """Of each column, at the most."""
    only: frozenset[str] = frozenset()
    """Columns by name; none: all."""
    share: tuple[int, int] = (1, 1)
    """(K, N): the K-th of N shares."""


MOST_TURNS = 400


def cases(traces: Path | None, asked: Asked) -> Iterator[Case]:
    """Spread over all columns from the first on, so that a run that is cut short has some of each.

    Starts that ``submit`` would refuse are left out, and others are played in their place where there are some.
    """
    number, of = asked.share
    names = [name for name in RECORDED if not asked.only or name in asked.only]
    recorded = [_recorded(traces / f"{name}.json", asked) for name in names] if traces else []
    made_up = [column for column in COLUMNS if not asked.clearing and (not asked.only or column.name in asked.only)]
    starts = max((len(each) for each in recorded), default=0)
    order = sorted(range(starts), key=_spread)
    most, counts = -(-asked.starts // of), Counter[_Place]()
    for turn in range(number - 1, max(starts, MOST_TURNS if made_up else 0), of):
        found = [case for each in recorded if turn < starts and order[turn] < len(each) for case in each[order[turn]]]
        made = (case for column in made_up for case in _made_up(column, turn, asked, counts, most))
        for case in chain(found, made):
            place = case.market, case.deadline_h
            if counts[place] < most and not case.would_be_refused:
                counts[place] += 1
                yield case


def _spread(number: int) -> int:
    """Bit-reversed: the first few are far apart."""
    return int(f"{number:010b}"[::-1], 2)


def _recorded(path: Path, asked: Asked) -> list[list[Case]]:
    """By start, in the half of the record that is asked for."""
    if not path.exists():
        return []
    suite = read_suite(path)
    assert isinstance(suite, BidSuite)
    suite = as_searched(suite, asked.live)
    middle, by_start = len(suite.floors[0]) // 2, dict[int, list[Case]]()
    for run in suite.runs:
        ends = run.start + run.deadline_s / suite.config.tick_s
        is_asked = ends < middle if asked.half == "choosing" else run.start >= middle
        if is_asked and (run.pays == "clearing") == asked.clearing:
            week = int(run.start * suite.config.tick_s // WEEK_S)
            case = Case(suite.name, suite, run, f"week {week}", Conditions(live=asked.live))
            by_start.setdefault(run.start, []).append(case)
    return [by_start[start] for start in sorted(by_start)]


def _made_up(column: Column, turn: int, asked: Asked, counts: Mapping[_Place, int], most: int) -> Iterator[Case]:
    """One start a seed: no two see the same market. None is made up for deadlines that have their starts."""
    seed = (CHOSEN_ON if asked.half == "choosing" else SCORED_ON) + turn
    live = replace(asked.live, **column.live)
    for stretch in column.stretches:
        deadline_s = round(stretch * DAY.work_s, 3)
        if counts.get((column.name, round(deadline_s / HOUR_S, 3)), 0) >= most:
            continue
        suite = _one_start(column.kind, seed, live.search_rows)
        due = replace(suite.runs[0], deadline_s=deadline_s)
        conditions = Conditions(column.budget_share, live=live)
        yield Case(column.name, suite, due, str(seed), conditions, column.copies, column.left_out)


@lru_cache(maxsize=8)
def _one_start(kind: Kind, seed: int, rows: int) -> BidSuite:
    return as_searched(synthetic_suite(kind, seed, starts=1, stretches=(TRACED,)), Live(search_rows=rows))
