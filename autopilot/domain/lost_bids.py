"""What bids that lost have taught: a machine takes more than the market's list says, for as long as that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.offer import Offer
from autopilot.domain.params import LostBidRules


@dataclass(frozen=True, slots=True)
class LostBid:
    """The highest bid that lost on one machine, and how often bids lost there one after another."""

    provider: str
    machine_id: str
    num_gpus: int
    bid: Decimal
    """$/h for that many GPUs."""
    times: int
    at: datetime
    """When the last of them lost."""

    def lost_again(self, bid: Decimal, at: datetime) -> LostBid:
        return replace(self, bid=max(bid, self.bid), times=self.times + 1, at=max(at, self.at))

    def until(self, params: LostBidRules) -> datetime:
        """Until when the machine is taken to want more: twice as long after each further loss, up to a limit."""
        hours = min(params.first_h * 2.0 ** min(self.times - 1, 30), params.most_h)
        return self.at + timedelta(hours=hours)

    def concerns(self, offer: Offer) -> bool:
        return (self.provider, self.machine_id, self.num_gpus) == offer.key


def raise_floors(offers: tuple[Offer, ...], lost: Sequence[LostBid], unit: Decimal) -> tuple[Offer, ...]:
    """The offers, with floors above every bid that lost on their machine; ``unit``: the step of bids, $/h."""
    if not lost:
        return offers
    by_machine = {(each.provider, each.machine_id, each.num_gpus): each for each in lost}
    return tuple(_raise_floor(offer, by_machine.get(offer.key), unit) for offer in offers)


def _raise_floor(offer: Offer, lost: LostBid | None, unit: Decimal) -> Offer:
    if lost is None or offer.floor is None or offer.floor > lost.bid:
        return offer
    return replace(offer, floor=lost.bid + unit)
