"""Bids of ours from before this daemon began, on one market: a list may go on showing them as floors.

An adapter knows for its own what it has seen since it began, and no more. Without this each restart would take our own
last bid for the market's least, and bid somewhat more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.lease import Lease
from autopilot.domain.offer import Offer

SHOWN_FOR = timedelta(minutes=20)
"""Lists were seen to lag by 15 minutes and more."""
ROUNDING = Decimal("0.0006")
"""$/h of a GPU: a market shows three decimals of a bid that it stores with four."""


class PastBids:
    def __init__(self) -> None:
        self._bids: dict[str, list[tuple[Decimal, datetime]]] = {}
        """By machine: what was bid for each of its GPUs, $/h, and until when a list may show it."""

    def recall(self, leases: Iterable[Lease], now: datetime) -> None:
        """What the ledger knows as the daemon begins: what we hold, and what we have held lately."""
        found: dict[str, list[tuple[Decimal, datetime]]] = defaultdict(list)
        for lease in leases:
            until = (lease.ending.gone_at or now) + SHOWN_FOR
            if lease.is_spot and lease.instance_id is not None and now < until:
                bids = {lease.bid, lease.bidding.highest or lease.bid}
                found[lease.machine_id] += [(bid / lease.num_gpus, until) for bid in bids]
        self._bids = dict(found)

    def remove(self, offers: tuple[Offer, ...], now: datetime) -> tuple[Offer, ...]:
        """The offers, without floors that echo one of them: the winning bid for such a machine is unknown."""
        if not self._bids:
            return offers
        shown = {machine: [bid for bid in bids if now < bid[1]] for machine, bids in self._bids.items()}
        self._bids = {machine: bids for machine, bids in shown.items() if bids}
        return tuple(replace(offer, floor=None) if self._is_echo(offer) else offer for offer in offers)

    def _is_echo(self, offer: Offer) -> bool:
        if offer.floor is None:
            return False
        floor = offer.floor / offer.num_gpus
        return any(abs(floor - bid) <= ROUNDING for bid, _ in self._bids.get(offer.machine_id, ()))
