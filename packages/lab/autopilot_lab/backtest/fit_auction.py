"""Scores the auction's numbers on synthetic markets, and on nothing else.

``python -m autopilot_lab.backtest.fit_auction KIND FIRST-SEED LAST-SEED STARTS 'half_life_h=60,120 move_margin=0.5'``
prints a line for each combination: cost over the optimum by way of paying and deadline, their mean, and the late.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import cast

from autopilot_lab.backtest.map_live import start_on_bids
from autopilot_lab.backtest.play import Conditions, Start, optimal_cost, play
from autopilot_lab.backtest.suite import BidSuite, Pays
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite

OF_CHOICES = ("move_margin", "wait_margin", "wait_slack_h", "wait_margin_shown", "rebid_margin")
"""Numbers on which no table depends: combinations of them share tables."""
DEADLINES: Mapping[Kind, tuple[float, ...]] = {
    "vast": (1.1, 1.25, 1.5, 2.0, 3.0),
    "three-machines": (26 / 24, 1.25, 40 / 24),
    **dict.fromkeys(("calm", "stormy", "trending"), (1.1, 1.25, 1.5, 2.0)),
}
PAYS: Mapping[Kind, tuple[Pays, ...]] = {"vast": ("bid",), "three-machines": ("bid", "clearing")}
Grid = Mapping[str, Sequence[float]]


def combinations(grid: Grid) -> list[dict[str, float]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def scores(suites: Sequence[BidSuite], grid: Grid) -> Iterator[tuple[dict[str, float], dict[str, float], int]]:
    """Each combination, its cost over the optimum by group, and its late runs."""
    optimal = [[optimal_cost(suite, run) for run in suite.runs] for suite in suites]
    of_tables = {name: values for name, values in grid.items() if name not in OF_CHOICES}
    of_choices = {name: values for name, values in grid.items() if name in OF_CHOICES}
    for tables in combinations(of_tables):
        points = [{**tables, **chosen} for chosen in combinations(of_choices)]
        paid: list[dict[str, list[float]]] = [{} for _ in points]
        late = [0] * len(points)
        for suite, least in zip(suites, optimal, strict=True):
            by_tables = sorted(range(len(suite.runs)), key=lambda at: (suite.runs[at].start, suite.runs[at].pays))
            for at in by_tables:
                run = suite.runs[at]
                for number, point in enumerate(points):
                    start = cast(Start, lambda config, job, point=point: start_on_bids(config, job, point))
                    outcome = play(suite, run, start, Conditions())
                    late[number] += outcome.status != "finished"
                    group = paid[number].setdefault(f"{run.pays} {run.deadline_s / run.work_s:.2f}", [0.0, 0.0])
                    group[0] += outcome.cost
                    group[1] += least[at]
        for point, groups, missed in zip(points, paid, late, strict=True):
            yield point, {name: cost / least_cost for name, (cost, least_cost) in sorted(groups.items())}, missed


def main(kind: Kind, first: int, last: int, starts: int, grid: Grid) -> None:
    suites = [
        synthetic_suite(kind, seed, starts=starts, stretches=DEADLINES[kind], pays=PAYS[kind], apart_h=96.0)
        for seed in range(first, last + 1)
    ]
    for point, groups, late in scores(suites, grid):
        cells = " ".join(f"{name}: {ratio:.3f}" for name, ratio in groups.items())
        mean = sum(groups.values()) / len(groups)
        sys.stdout.write(f"{point} | {cells} | mean {mean:.4f}, late {late}\n")
        sys.stdout.flush()


def parse_grid(text: str) -> Grid:
    pairs = (word.split("=") for word in text.split())
    return {name: [float(value) for value in values.split(",")] for name, values in pairs}


if __name__ == "__main__":
    _, asked_kind, first_seed, last_seed, run_starts, asked_grid = sys.argv
    main(cast(Kind, asked_kind), int(first_seed), int(last_seed), int(run_starts), parse_grid(asked_grid))
