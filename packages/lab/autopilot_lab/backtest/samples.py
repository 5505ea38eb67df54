"""Single runs of a backtest, played once more and drawn: what was bid and run, hour by hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.play import play
from autopilot_lab.backtest.policies import Policy, starter
from autopilot_lab.backtest.runner import Plan, Result
from autopilot_lab.backtest.suite import HOUR_S, BidRun, BidSuite
from autopilot_lab.backtest.svg import PALETTE, Plot, Series, Stretch, draw

SHOWN_POLICIES = 4
QUANTILES = (0.1, 0.5, 0.95)

SPAN_COLOURS = {Choice.SPOT: "#009e73", Choice.ON_DEMAND: "#0072b2", Choice.KEEP: "#d55e00"}
KEYS = (("on spot", "#009e73"), ("on demand", "#0072b2"), ("paused", "#d55e00"))
BID_COLOUR = "currentColor"
"""Dark on light and light on dark."""

Points = list[tuple[float, float]]


def pick_samples(policies: Sequence[Policy], results: Sequence[Result]) -> list[Result]:
    """A good, a usual and a bad run of ``autopilot``, or else of the first policy; by cost over the optimum."""
    if not policies:
        return []
    names = [policy.name for policy in policies]
    focus = names.index("autopilot") if "autopilot" in names else 0
    ranked = sorted(results, key=lambda result: (result.outcomes[focus].cost / result.optimal, result.run))
    numbers = dict.fromkeys(round(quantile * (len(ranked) - 1)) for quantile in QUANTILES)
    return [ranked[number] for number in numbers]


def sample_plots(plan: Plan, sample: Result) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Title, plots and legend of one run, a plot for each of the first policies."""
    suite, run = plan.suite, plan.suite.runs[sample.run]
    keys = list(KEYS)
    if isinstance(suite, BidSuite):
        keys += [(f"floor of {name}", PALETTE[number % len(PALETTE)]) for number, name in enumerate(_machines(suite))]
        keys.append(("bid", BID_COLOUR))
    title = f"Run {sample.run}: {run.setting}, deadline {run.deadline_s / HOUR_S:g} h"
    shown = list(zip(plan.policies, sample.outcomes, strict=True))[:SHOWN_POLICIES]
    plots = []
    for policy, outcome in shown:
        seen = _Seen()
        play(suite, run, starter(policy, suite.config.kind, plan.models), plan.conditions, seen.note)
        heading = f"{policy.label}: ${outcome.cost:.3f}, {outcome.status}; optimum ${sample.optimal:.3f}"
        plots.append(_draw(plan, sample, heading, seen))
    return title, plots, keys


class _Seen:
    """What the model showed and the policy answered."""

    def __init__(self) -> None:
        self.running: list[Choice] = []
        self.left_h: list[float] = []
        self.bids: list[tuple[int, float]] = []

    def note(self, view: Any, choice: Choice | Spot) -> None:
        # What runs in a tick is seen at the next one.
        self.running.append(view.running)
        self.left_h.append(view.work_left_s / HOUR_S)
        if isinstance(choice, Spot):
            self.bids.append((view.tick, choice.bid))


def _draw(plan: Plan, sample: Result, heading: str, seen: _Seen) -> str:
    suite, run = plan.suite, plan.suite.runs[sample.run]
    tick_h = suite.config.tick_s / HOUR_S
    spans = _spans(seen.running, tick_h)
    if not isinstance(suite, BidSuite):
        left = [(tick * tick_h, left_h) for tick, left_h in enumerate(seen.left_h)]
        pace = [(0.0, run.work_s / HOUR_S), (run.deadline_s / HOUR_S, 0.0)]
        lines = [Series("work left", _thin(left), BID_COLOUR), Series("even pace", pace, "#666666", dashed=True)]
        return draw(Plot(heading, "h", "work left, h", lines, spans, y_from_zero=True))
    assert isinstance(run, BidRun)
    ticks = len(seen.running)
    lines = [
        Series(name, _steps([floors[run.start + tick] for tick in range(ticks)], tick_h), colour, steps=True)
        for name, floors, colour in zip(_machines(suite), suite.floors, _colours(suite), strict=True)
    ]
    bids = _thin([(tick * tick_h, bid) for tick, bid in seen.bids])
    lines.append(Series("bid", bids, BID_COLOUR, steps=True))
    most = suite.config.on_demand_price * 1.1
    return draw(Plot(heading, "h", "$/h", [line for line in lines if line.points], spans, True, most))


def _machines(suite: BidSuite) -> Sequence[str]:
    return suite.config.machines


def _colours(suite: BidSuite) -> list[str]:
    return [PALETTE[number % len(PALETTE)] for number in range(len(suite.floors))]


def _steps(values: Sequence[float], tick_h: float) -> Points:
    return _thin([(tick * tick_h, value) for tick, value in enumerate(values)])


def _thin(points: Points) -> Points:
    """Without points that repeat their neighbours' value."""
    return [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or point[1] != points[index - 1][1] or point[1] != points[index + 1][1]
    ]


def _spans(running: Sequence[Choice], tick_h: float) -> list[Stretch]:
    spans: list[Stretch] = []
    since = 1
    for tick in range(2, len(running) + 1):
        if tick == len(running) or running[tick] is not running[since]:
            colour = SPAN_COLOURS.get(running[since])
            if colour:
                spans.append(Stretch((since - 1) * tick_h, (tick - 1) * tick_h, colour))
            since = tick
    return spans
