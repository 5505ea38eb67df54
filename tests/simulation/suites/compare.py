"""A start as the engine plays it beside the same start in the backtest: what they cost, where they first differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from math import inf, sqrt
from statistics import fmean, stdev

from tests.simulation.suites.play import Held, Played

BID_TOLERANCE = 0.01
"""Share by which bids may differ and still be the same: the market takes whole tenths of a cent."""
NOTHING = Held("over", "", 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the engine made of one start: a line of a results file. The backtest takes seconds and is repeated."""

    suite: str
    run: int
    """Its number in the suite."""
    tick_s: float
    played: Played

    def to_json(self) -> str:
        ticks = [[held.what, held.state, round(held.bid, 6), round(held.spent, 6)] for held in self.played.ticks]
        return json.dumps({**asdict(self), "played": {**asdict(self.played), "ticks": ticks, "story": ()}})

    @classmethod
    def from_json(cls, line: str) -> Kept:
        row = json.loads(line)
        played = row.pop("played")
        played["violations"], played["story"] = tuple(played["violations"]), ()
        played["ticks"] = tuple(Held(*held) for held in played["ticks"])
        return cls(**row, played=Played(**played))


@dataclass(frozen=True, slots=True)
class Pair:
    run: int
    engine: Played
    backtest: Played

    @property
    def differs_at(self) -> int | None:
        """The first tick at whose end the two hold, or bid, something else; None: there is none."""
        return first_difference(self.engine.ticks, self.backtest.ticks)


def first_difference(engine: Sequence[Held], backtest: Sequence[Held]) -> int | None:
    both = zip_longest(engine, backtest, fillvalue=NOTHING)
    return next((tick for tick, (one, other) in enumerate(both) if not _is_same(one, other)), None)


def _is_same(one: Held, other: Held) -> bool:
    return one.what == other.what and abs(one.bid - other.bid) <= BID_TOLERANCE * max(one.bid, other.bid)


def side_by_side(engine: Played, backtest: Played) -> Iterator[str]:
    """The two days, a line for each tick in which anything changes."""
    before: tuple[tuple[str, str, float], ...] = ()
    for tick, (one, other) in enumerate(zip_longest(engine.ticks, backtest.ticks, fillvalue=NOTHING)):
        now = tuple((held.what, held.state, round(held.bid, 4)) for held in (one, other))
        if now != before:
            mark = " " if _is_same(one, other) else "≠"
            yield f"{tick:5} {mark} engine {_words(one):44} backtest {_words(other)}"
        before = now


def _words(held: Held) -> str:
    return f"{held.what} {held.state} bid {held.bid:.4f} spent {held.spent:.3f}"


@dataclass(frozen=True, slots=True)
class Sums:
    starts: int
    engine: float
    backtest: float
    """Mean dollars."""
    difference: float
    """Of the means, as a share of the backtest's."""
    half_width: float
    """Of the 95 % interval of that share, from the differences of the starts (Student's t); infinite of one start."""
    engine_late: int
    backtest_late: int
    violations: int


def sums(pairs: Iterable[Pair]) -> Sums:
    """Of one start or more."""
    known = tuple(pairs)
    engine, backtest = fmean(each.engine.cost for each in known), fmean(each.backtest.cost for each in known)
    apart = [each.engine.cost - each.backtest.cost for each in known]
    half = _student_95(len(known) - 1) * stdev(apart) / sqrt(len(known)) if len(known) > 1 else inf
    return Sums(
        len(known),
        engine,
        backtest,
        engine / backtest - 1,
        half / backtest,
        sum(each.engine.is_late for each in known),
        sum(each.backtest.is_late for each in known),
        sum(len(each.engine.violations) for each in known),
    )


def _student_95(freedom: int) -> float:
    """Two-sided quantile of Student's t, by its expansion around the normal one; from 9 on to a hundredth."""
    z = 1.96
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2
