"""The table: in each column the policy beside the best simple rule of that very column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tools.bids.kept import Kept

OWN = "autopilot"
RESAMPLES = 2000


def tables(kept: Sequence[Kept]) -> list[str]:
    """Lines of text, for each way of playing."""
    lines: list[str] = []
    groups: dict[tuple[str, str], list[Kept]] = {}
    for one in kept:
        groups.setdefault((one.mode, one.pays), []).append(one)
    for (mode, pays), rows in groups.items():
        lines += ["", f"{mode}, {'pays its bid' if pays == 'bid' else 'pays the clearing price'}", *_table(rows)]
    return lines[1:]


def _table(kept: Sequence[Kept]) -> Iterator[str]:
    columns: dict[tuple[str, float], list[Kept]] = {}
    for one in kept:
        columns.setdefault((one.market, one.deadline_h), []).append(one)
    yield (
        f"{'market':18} {'due':>6} {'runs':>4}  {'best rule':22} {'late':>4} {'$':>7}  {'autopilot $':>11} {'late':>4}"
        f"  {'ratio':>5} {'95 %':>11}  {'best rule never late':22} {'ratio':>5}"
    )
    for (market, deadline_h), rows in sorted(columns.items()):
        yield _row(market, deadline_h, rows)
    yield _whole(list(columns.values()))


def _row(market: str, deadline_h: float, rows: Sequence[Kept]) -> str:
    means = {policy: sum(row.costs[policy] for row in rows) / len(rows) for policy in rows[0].costs}
    late = {policy: sum(policy in row.late for row in rows) for policy in means}
    rules = sorted((policy for policy in means if policy != OWN), key=lambda policy: means[policy])
    best, in_time = rules[0], next(rule for rule in rules if not late[rule])
    low, high = _interval(rows, best)
    return (
        f"{market:18} {deadline_h:4g} h {len(rows):4}  {best:22} {late[best]:4} {means[best]:7.3f}  {means[OWN]:11.3f} "
        f"{late[OWN]:4}  {means[OWN] / means[best]:5.3f} {low:5.2f}-{high:5.2f}  "
        f"{in_time:22} {means[OWN] / means[in_time]:5.3f}"
    )


def _interval(rows: Sequence[Kept], rule: str) -> tuple[float, float]:
    """Of 95 %, by resampling stretches of market."""
    numbers: dict[str, int] = {}
    block = np.array([numbers.setdefault(row.stretch, len(numbers)) for row in rows])
    own = np.bincount(block, [row.costs[OWN] for row in rows])
    other = np.bincount(block, [row.costs[rule] for row in rows])
    drawn = np.random.default_rng(1).integers(0, len(numbers), (RESAMPLES, len(numbers)))
    low, high = np.quantile(own[drawn].sum(1) / other[drawn].sum(1), (0.025, 0.975))
    return float(low), float(high)


def _whole(columns: Sequence[Sequence[Kept]]) -> str:
    """Over all columns, each counting as much: cost over the optimum."""
    policies = columns[0][0].costs
    over = {policy: float(np.mean([_over(rows, policy) for rows in columns])) for policy in policies}
    best = min((policy for policy in over if policy != OWN), key=lambda policy: over[policy])
    share = over[OWN] / over[best] - 1
    return (
        f"all columns: autopilot {over[OWN]:.3f} of the optimum, the best single rule ({best}) {over[best]:.3f}: "
        f"{share:+.1%}"
    )


def _over(rows: Sequence[Kept], policy: str) -> float:
    return sum(row.costs[policy] for row in rows) / sum(row.optimal for row in rows)
