"""By how much bids are above floors: what would have cost least on the record, at what lost time is worth now."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.policy.situation import Situation
from autopilot.pricing.auction.replays import Followed, follow


def free_slack_h(situation: Situation) -> float:
    """Hours before the deadline that neither work nor an error of its estimate needs."""
    pressure = situation.pressure
    return (pressure.left_s - pressure.upper_work_s) / 3600


def tight_slack_h(situation: Situation) -> float:
    """Hours of slack below which a loss counts for more than a better price: the less work is left, the fewer."""
    numbers, work_h = situation.params.auction, situation.pressure.work_s / 3600
    return numbers.tight_slack_h * min(work_h / numbers.tight_work_h, 1.0)


def follow_record(situation: Situation) -> Followed | None:
    """None if nothing was replayed: too little is recorded, or nothing presses."""
    shape = situation.market.outlook.auction
    if shape is None or situation.pressure.slack is None:
        return None
    tight_h = tight_slack_h(situation)
    price, free_h = shape.on_demand_price, max(free_slack_h(situation), 0.0)
    # An hour lost with no slack left is bought on demand; with much slack it costs next to nothing.
    slack_price = price * tight_h**2 / (tight_h**2 + free_h**2) if tight_h else 0.0
    return follow(shape.floors.replayed, shape.floors.replayed_steps, price, slack_price)


def learnt_markup(situation: Situation) -> Decimal | None:
    """As a factor; None: not learnt."""
    following = follow_record(situation)
    return None if following is None else Decimal(str(round(following.markup, 4)))


def markup_note(following: Followed) -> Note:
    """Which markup is follow_record, and what each candidate would have cost, $ an hour of work."""
    costs = tuple((f"x{markup:g}", round(cost, 4)) for markup, cost in following.costs)
    return Note("markups", (("markup", round(following.markup, 3)), *costs))
