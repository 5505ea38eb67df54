"""The tables: in each column the policy beside simple rules, those as they are and those that keep the same promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tools.bids.columns import FIELD, ONE_ALONE
from tools.bids.kept import Kept

OWN = "autopilot"
KEPT_PROMISE = " kept"
"""Behind the name of a rule that keeps the same promise."""
YARDSTICK = f"floor x 1.02{KEPT_PROMISE}"
HELD_AGAINST_IT = ("vast-like", "contested", "with duds")
"""The columns whose jobs have a deadline, an estimate and no budget, and the market to themselves."""
LIKE_THE_FIELD = "markets like the field"
OLDER = "AWS's records of 2015, and older made-up markets"
RESAMPLES = 2000
WORK_H = 24.0
"""Of every run."""

_Numbers = npt.NDArray[np.float64]
_Column = tuple[str, float]
_Columns = Mapping[_Column, Sequence[Kept]]


def tables(kept: Sequence[Kept]) -> list[str]:
    """Lines of text, for each way of playing: markets like the field, then the others."""
    lines: list[str] = []
    groups: dict[tuple[str, str, str], list[Kept]] = {}
    for one in kept:
        groups.setdefault((one.mode, one.pays, one.half), []).append(one)
    for (mode, pays, half), rows in groups.items():
        paid = "pays its bid" if pays == "bid" else "pays the clearing price"
        how = f"{mode}, {paid}" if half == "scored" else f"{mode}, {paid}, starts that numbers are chosen on"
        best = {column: _best(each) for column, each in _by_column(groups.get((mode, pays, "choosing"), rows)).items()}
        if field := _by_column([row for row in rows if row.market in FIELD]):
            lines += ["", f"{LIKE_THE_FIELD}: {how}", *_table(field, best), *_sum_up_field(field)]
        if older := _by_column([row for row in rows if row.market not in FIELD]):
            lines += ["", f"{OLDER}: {how}", *_table(older, best), *_sum_up_older(older, best)]
    return lines[1:]


def _by_column(kept: Sequence[Kept]) -> _Columns:
    columns: dict[_Column, list[Kept]] = {}
    for one in kept:
        columns.setdefault((one.market, one.deadline_h), []).append(one)
    return columns


def _table(columns: _Columns, best: Mapping[_Column, str]) -> Iterator[str]:
    yield (
        f"{'market':18} {'due':>6} {'runs':>4}  {'autopilot $/h':>13} {'late':>4}  "
        f"{'1.02 kept':>9} {'late':>4} {'ratio':>5} {'95 %':>11}  "
        f"{'best rule as it is':22} {'$/h':>7} {'late':>4} {'ratio':>5} {'95 %':>11}"
    )
    for column, rows in sorted(columns.items()):
        yield _row(*column, rows, best.get(column) or _best(rows))


def _row(market: str, deadline_h: float, rows: Sequence[Kept], best: str) -> str:
    due = f"{deadline_h:4g} h" if deadline_h < float("inf") else "none"
    yardstick = f"{'-':>9} {'-':>4} {'-':>5} {'-':>11}"
    if YARDSTICK in rows[0].costs:
        yardstick = f"{_price(rows, YARDSTICK):9.4f} {_late(rows, YARDSTICK):>4} {_compare(rows, YARDSTICK)}"
    return (
        f"{market:18} {due:>6} {len(rows):4}  {_price(rows, OWN):13.4f} {_late(rows, OWN):>4}  {yardstick}  "
        f"{best:22} {_price(rows, best):7.4f} {_late(rows, best):>4} {_compare(rows, best)}"
    )


def _late(rows: Sequence[Kept], policy: str) -> str:
    """Runs that were not done in time; behind ``+`` those beyond their budget."""
    late, over = sum(policy in row.late for row in rows), sum(policy in row.over for row in rows)
    return f"{late}+{over}" if over else str(late)


def _compare(rows: Sequence[Kept], rule: str) -> str:
    low, high = _interval(rows, rule)
    return f"{_price(rows, OWN) / _price(rows, rule):5.3f} {low:5.2f}-{high:5.2f}"


def _best(rows: Sequence[Kept]) -> str:
    """The cheapest rule as it is; of those that stay within the budget, if any does."""
    rules = [rule for rule in rows[0].costs if rule != OWN and not rule.endswith(KEPT_PROMISE)]
    within = [rule for rule in rules if not any(rule in row.over for row in rows)]
    return min(within or rules, key=lambda rule: _price(rows, rule))


def _price(rows: Sequence[Kept], policy: str) -> float:
    """Dollars for an hour of work that was done: a run that is given up costs less, and does less."""
    dollars, hours = _sums(rows, policy)
    return float(dollars.sum() / hours.sum())


def _sums(rows: Sequence[Kept], policy: str) -> tuple[_Numbers, _Numbers]:
    """Dollars, and hours of work done, of each run."""
    done = [row.done.get(policy, 1.0) * WORK_H for row in rows]
    return np.array([row.costs[policy] for row in rows]), np.array(done)


def _interval(rows: Sequence[Kept], rule: str) -> tuple[float, float]:
    """Of 95 %, by resampling stretches of market."""
    numbers: dict[str, int] = {}
    block = np.array([numbers.setdefault(row.stretch, len(numbers)) for row in rows])
    drawn = np.random.default_rng(1).integers(0, len(numbers), (RESAMPLES, len(numbers)))
    own, other = (
        np.divide(*(np.bincount(block, each)[drawn].sum(1) for each in _sums(rows, policy))) for policy in (OWN, rule)
    )
    low, high = np.quantile(own / other, (0.025, 0.975))
    return float(low), float(high)


def _sum_up_field(columns: _Columns) -> Iterator[str]:
    """What copies cost over one alone, and the mean over the yardstick of the columns that are held against it."""
    alone = columns.get(ONE_ALONE)
    for column, rows in sorted(columns.items(), key=lambda item: len(item[0][0])):
        if column[0].startswith("self-play") and alone:
            own, rule = (_over_alone(rows, alone, policy) for policy in (OWN, YARDSTICK))
            yield f"{column[0]}, over one alone: autopilot {own}, {YARDSTICK} {rule}"
    held = [rows for column, rows in columns.items() if column[0] in HELD_AGAINST_IT]
    if held:
        ratios = [_price(rows, OWN) / _price(rows, YARDSTICK) for rows in held]
        names = ", ".join(HELD_AGAINST_IT)
        yield f"{names}: autopilot {np.mean(ratios):.3f} of {YARDSTICK}, {max(ratios):.3f} at the most"


def _over_alone(rows: Sequence[Kept], alone: Sequence[Kept], policy: str) -> str:
    """By the seeds that both have."""
    shared = {row.stretch for row in rows} & {row.stretch for row in alone}
    if not shared:
        return "-"
    ours, ones = ([row for row in each if row.stretch in shared] for each in (rows, alone))
    return f"{_price(ours, policy) / _price(ones, policy):.3f}"


def _sum_up_older(columns: _Columns, best: Mapping[_Column, str]) -> Iterator[str]:
    """Over all columns, each counting as much: cost over the best rule of each, and over the optimum."""
    over_best = [_price(rows, OWN) / _price(rows, best.get(column) or _best(rows)) for column, rows in columns.items()]
    policies = [policy for policy in next(iter(columns.values()))[0].costs if not policy.endswith(KEPT_PROMISE)]
    over = {policy: float(np.mean([_over(rows, policy) for rows in columns.values()])) for policy in policies}
    rule = min((policy for policy in over if policy != OWN), key=lambda policy: over[policy])
    yield f"all columns: autopilot {np.mean(over_best):.3f} of each one's best rule, {max(over_best):.3f} at the most"
    yield (
        f"all columns: autopilot {over[OWN]:.3f} of the optimum, the best single rule ({rule}) {over[rule]:.3f}: "
        f"{over[OWN] / over[rule] - 1:+.1%}"
    )


def _over(rows: Sequence[Kept], policy: str) -> float:
    return sum(row.costs[policy] for row in rows) / sum(row.optimal for row in rows)
