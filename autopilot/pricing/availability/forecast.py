"""What a job will probably cost and whether it will be done in time: many markets played through under the policy.

Monte-Carlo over the fitted phases, a step of the table at a time, all markets at once: the hidden phase moves, spot is
seen on or off, the belief is filtered, and the cheapest safe option by the table of costs to go is taken, with the
deadline guard and the rule on budgets of ``options``. What a forecast leaves out: that machines differ in price.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from autopilot.domain.outlook import Belief, Shape
from autopilot.pricing.arrays import Flags, Floats
from autopilot.pricing.availability.phases import first_belief
from autopilot.pricing.availability.played_markets import PlayedMarkets, Rule
from autopilot.pricing.availability.value import NOTHING, cost_to_go

RUNS = 500
SHARES = (0.1, 0.5, 0.9)
"""Quantiles over markets that a forecast states."""
EVEN_ODDS = 0.5
"""A budget that suffices in fewer markets is expected to be too small."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Dollars are those spent from now on, whether the job is done by then or not; shares are of all markets played."""

    mean: float
    p10: float
    p50: float
    p90: float
    on_time: float
    """Share that is done by the deadline, within the budget."""
    finished: float
    """Share that is done at all before the money is out."""
    parked: float
    """Share in which the money is out first."""
    preemptions: float
    """Expected number of losses of a spot machine."""
    done_s: tuple[float, float, float] | None
    """Seconds from now until the work is done, in the markets in which it ever is: 10, 50 and 90 of 100 are over by
    then. None: it is in none."""
    on_demand_cost: float
    """Dollars for all of the work on demand from now on."""


def refusal(likely: Forecast, unlimited: Forecast, budget: float | None, least_probability: float) -> str | None:
    """Why a job is not to be started, in words with numbers; None when nothing speaks against it.

    ``unlimited``: the same job without a budget. A budget is too small when being done in time is expected to cost more
    than it: in more than half of the markets the money is out first. Where it is out first all the same, the job is
    parked at its last checkpoint, so even odds are not a gamble with money.
    """
    if unlimited.on_time < least_probability:
        likely_is = f"only {unlimited.on_time:.0%} likely to be done by its deadline"
        return f"the job is {likely_is}; at least {least_probability:.0%} is asked for"
    if budget is None or likely.on_time >= min(EVEN_ODDS, least_probability):
        return None
    return (
        f"to be done by its deadline the job is expected to cost ${unlimited.p50:.2f}, more than its budget of"
        f" ${budget:.2f}: in {1 - likely.on_time:.0%} of the markets the money is out first"
    )


@lru_cache(maxsize=256)
def forecast(
    shape: Shape,
    *,
    left_s: float,
    work_s: float,
    on_demand_burn: float,
    budget: float | None,
    is_on: bool,
    belief: Belief = (),
    estimate_error: float = 0.0,
    held_s: float | None = None,
    spot_burn: float | None = None,
    rule: Rule = "table",
    mode: int = NOTHING,
    runs: int = RUNS,
    seed: int = 0,
) -> Forecast:
    """``left_s`` until the deadline for ``work_s`` of work by the estimate, from a market that is on or off now.

    ``belief``: of the phases, where the market was seen before; empty: this is the first look.

    ``on_demand_burn``: $/h of on-demand capacity, disk included. ``budget``: dollars that may still be spent.
    ``estimate_error``: the true work lies evenly within this share of the estimate, above or below.
    ``held_s``: the time that is held for such an error; None: for all of it.
    ``spot_burn``: $/h of spot where it is known better than by the shape's ratio.
    ``mode``: what it holds already, one of the table's; such a machine works at once.

    The same arguments give the same answer. Blocking: up to a second, and another to make the table, which only the
    rule "table" needs.
    """
    spot = shape.spot_ratio * on_demand_burn if spot_burn is None else spot_burn
    burn = (0.0, spot, on_demand_burn)
    table = cost_to_go(shape) if rule == "table" else None
    first = belief or first_belief(shape.phases, is_on)
    held = work_s * estimate_error if held_s is None else held_s
    played = PlayedMarkets(
        shape, table, rule, left_s, work_s, burn, budget, first, estimate_error, held, mode, runs, seed
    )
    played.play()
    return summarize(played, left_s, (work_s + shape.restart_s) / 3600 * on_demand_burn)


class Played(Protocol):
    """Markets that were played to the end; arrays have one element a market."""

    going: Flags
    """Not done by the deadline, and with money left."""
    on_time: Flags
    parked: Flags
    done_s: Floats
    true_s: Floats
    spent: Floats
    money: Floats
    preempted: Floats
    ended_s: Floats
    """From now until the work was done in time; not a number where it was not."""

    @property
    def rest_burn(self) -> float:
        """$/h of work that is done after the deadline."""
        ...


def summarize(played: Played, left_s: float, on_demand_cost: float) -> Forecast:
    """Runs past the deadline are charged with the rest of their work on demand, as far as the money goes."""
    import numpy as np

    late = played.going
    rest_s = np.maximum(played.true_s - played.done_s, 0.0)
    to_the_end = played.spent + rest_s / 3600 * played.rest_burn
    done_late = late & (to_the_end <= played.money)
    spent = np.where(late, np.minimum(to_the_end, played.money), played.spent)
    p10, p50, p90 = np.quantile(spent, SHARES).tolist()
    ended_s = np.where(done_late, left_s + rest_s, played.ended_s)
    ended_s = ended_s[~np.isnan(ended_s)]
    done_s = tuple(np.quantile(ended_s, SHARES).tolist()) if len(ended_s) else None
    return Forecast(
        mean=float(spent.mean()),
        p10=p10,
        p50=p50,
        p90=p90,
        on_time=float(played.on_time.mean()),
        finished=float((played.on_time | done_late).mean()),
        parked=float((played.parked | (late & ~done_late)).mean()),
        preemptions=float(played.preempted.mean()),
        done_s=done_s,
        on_demand_cost=on_demand_cost,
    )
