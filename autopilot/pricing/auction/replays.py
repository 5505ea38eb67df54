"""What bids of each markup would have cost on what is recorded, and which of them to follow.

Each candidate bids so many times the floor on the cheapest machine and stays until it is outbid, or until another is
far cheaper. All of the record is played through by each, newer hours counting more. Two numbers are left of each: what
it paid for an hour of work, and how much time it lost for it. What lost time is worth is known when a job decides.

They are weighed as in Hedge (Freund and Schapire, J. Comput. Syst. Sci. 55, 1997): e^(−η × its cost, summed over the
steps of the record, as a share of on-demand capacity's), η = √(8 ln N / T). Who drew one by these weights at each step
would pay no more, over T steps, than the best of N candidates and √(T ln N / 2) steps of on-demand capacity. Here the
mean is bid and not a draw: decisions can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt

from autopilot.domain.floors import MarkupReplay
from autopilot.pricing.arrays import Floats

MARKUPS = (1.02, 1.05, 1.1, 1.2, 1.35)
MOVE_RATIO = 1.25
"""A machine is left for the cheapest one when its bid is that many times what would be bid there."""
START_H, RESUME_H, CHECKPOINT_H = 1 / 6, 1 / 30, 1 / 6
"""What a start, a resume and a checkpoint interval are taken to be; a job's own differ by minutes."""


def replay(seen: Floats, weight: Floats, step_s: float, on_demand_price: float) -> tuple[MarkupReplay, ...]:
    """Of each markup that ever came to work.

    ``seen``: [machine, step] → floor, NaN where none was seen; ``weight``: [step].
    """
    import numpy as np

    shown = np.where(seen > 0.0, seen, np.inf)
    cheapest = shown.argmin(0).tolist()
    rows, weights = shown.tolist(), weight.tolist()
    played = (_replay(rows, cheapest, weights, step_s / 3600, on_demand_price, markup) for markup in MARKUPS)
    return tuple(each for each in played if each is not None)


def _replay(
    floors: Sequence[Sequence[float]],
    cheapest: Sequence[int],
    weights: Sequence[float],
    step_h: float,
    on_demand_price: float,
    markup: float,
) -> MarkupReplay | None:
    """None: it never came to work."""
    paid = worked = hours = 0.0
    held, bid, pending_h = -1, 0.0, 0.0
    for step, weight in enumerate(weights):
        best = cheapest[step]
        wanted = floors[best][step] * markup
        if held >= 0:
            floor = floors[held][step]
            # What is not seen of a machine that was rented counts as no bid against it.
            if bid < floor < inf:
                pending_h += CHECKPOINT_H / 2 + step_h / 2
                if floor <= MOVE_RATIO * floors[best][step] and floor * markup < on_demand_price:
                    bid, pending_h = floor * markup, pending_h + RESUME_H
                else:
                    held = -1
            elif best != held and bid > MOVE_RATIO * wanted:
                # The old machine works until the new one is ready.
                paid += weight * START_H * wanted
                held, bid = best, wanted
        if held < 0 and wanted < on_demand_price:
            held, bid, pending_h = best, wanted, pending_h + START_H
        hours += weight * step_h
        if held >= 0:
            served_h = min(pending_h, step_h)
            pending_h -= served_h
            worked += weight * (step_h - served_h)
            paid += weight * step_h * bid
    return MarkupReplay(markup, paid / worked, (hours - worked) / worked) if worked else None


@dataclass(frozen=True, slots=True)
class Followed:
    """The markup to bid by, and what each candidate would have cost, $ an hour of work, lost time included."""

    markup: float
    costs: tuple[tuple[float, float], ...]


def follow(
    replayed: Sequence[MarkupReplay], steps: float, on_demand_price: float, slack_price: float
) -> Followed | None:
    """``steps`` of record, newer ones weighing more; ``slack_price``: $ an hour of slack.

    None: nothing was replayed.
    """
    if not replayed:
        return None
    costs = [(each.markup, each.paid + each.lost * slack_price) for each in replayed]
    least = min(cost for _, cost in costs)
    eta = sqrt(8 * log(len(costs)) / max(steps, 1.0))
    weights = [exp(-eta * steps * min((cost - least) / on_demand_price, 1.0)) for _, cost in costs]
    markup = sum(weight * markup for weight, (markup, _) in zip(weights, costs, strict=True)) / sum(weights)
    return Followed(markup, tuple(costs))
