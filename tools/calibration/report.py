"""The tables of a report, and the picture of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autopilot_lab.backtest.svg import PALETTE, Plot, Series, draw
from tools.calibration.scores import Share, coverage, reliability
from tools.calibration.trial import Trial


def tables(groups: Mapping[str, Sequence[Trial]]) -> Iterator[str]:
    """``groups``: trials by the name of their kind of market."""
    for name, trials in groups.items():
        markets = len({(one.market, one.start) for one in trials})
        yield f"{name}: {len(trials)} jobs on {markets} stretches of market"
        yield f"{'said':>8}{'in time within the budget':>28}{'95 %':>16}{'jobs':>7}"
        yield from (_row(each) for each in reliability(trials))
        yield f"{'within the 80 % cost interval, by deadline':<42}{'95 %':>10}{'jobs':>7}"
        for deadline_h in (None, *sorted({one.deadline_h for one in trials})):
            those = [one for one in trials if deadline_h in (None, one.deadline_h)]
            found = coverage(those)
            if found is not None:
                yield _row_of_costs("all" if deadline_h is None else f"{deadline_h:g} h", found, those)
        yield ""


def _row(each: Share) -> str:
    return f"{each.said:>8.0%}{each.came:>28.0%}{f'{each.low:.0%} to {each.high:.0%}':>16}{each.trials:>7}"


def _row_of_costs(name: str, found: Share, trials: Sequence[Trial]) -> str:
    unlimited = [one for one in trials if one.budget is None]
    below = sum(one.cost < one.p10 for one in unlimited) / len(unlimited)
    above = sum(one.cost > one.p90 for one in unlimited) / len(unlimited)
    told = f"{found.came:.0%} ({below:.0%} below, {above:.0%} above)"
    said = f"{sum(one.mean for one in unlimited) / sum(one.cost for one in unlimited):.2f} of the cost said"
    return f"{name:<8}{told:<34}{f'{found.low:.0%} to {found.high:.0%}':>14}{found.trials:>6}   {said}"


def picture(groups: Mapping[str, Sequence[Trial]]) -> str:
    """Said against come, one colour a kind of market."""
    lines = [Series("said and come alike", ((0.0, 0.0), (1.0, 1.0)), "#888888", dashed=True)]
    for colour, (name, trials) in zip(PALETTE, groups.items(), strict=False):
        shares = reliability(trials)
        lines.append(Series(name, [(each.said, each.came) for each in shares], colour, marked=True))
        lines += [Series(f"{name}, 95 %", ((one.said, one.low), (one.said, one.high)), colour) for one in shares]
    drawn = draw(Plot("Jobs in time within their budget", "said", "came", lines, y_from_zero=True))
    return drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" ', 1)
