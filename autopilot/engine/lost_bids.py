"""The bids that lost lately, on every market: what the lists do not say of rivals.

Held in memory, and read back from the ledger at the start. A machine that was rented at a bid proves that it wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.lost_bids import LostBid, raise_floors
from autopilot.domain.offer import Offer
from autopilot.domain.params import LostBidRules
from autopilot.domain.reasons import Reason
from autopilot.ports.provider import Provider
from autopilot.ports.store import UnitOfWork

Key = tuple[str, str, int]
LOST_BIDS = (Reason.OUTBID, Reason.DISPLACED)
"""Causes of a stop that are evidence about bids. Another cause, or an unknown one, is no loss to a bid."""
MOST_SEARCHES = 16
"""Lists of offers whose raised floors are kept from one job, and one tick, to the next."""
REMEMBERED = timedelta(hours=24)
MOST_MACHINES = 5_000
"""So many are remembered; the oldest loss goes first."""


@dataclass(frozen=True, slots=True)
class RaisedFloors:
    """A list of offers with what has lost there, at one moment."""

    listed: tuple[Offer, ...]
    at: datetime
    changes: int
    lost: tuple[LostBid, ...]
    """Those that still hold for machines on offer."""
    offers: tuple[Offer, ...]
    """The offers, with floors above every bid that lost on their machine."""


class LostBids:
    def __init__(self, providers: Mapping[str, Provider], params: LostBidRules) -> None:
        self._providers = providers
        self._params = params
        self._lost: dict[Key, LostBid] = {}
        self._changes = 0
        self._raised: dict[int, RaisedFloors] = {}
        self._is_loaded = False

    async def load(self, uow: UnitOfWork, now: datetime) -> None:
        """Once: what the ledger says of creates that were refused for their bid, and of leases ended by an outbid."""
        if self._is_loaded:
            return
        since = now - timedelta(hours=self._params.most_h)
        lost = await uow.leases.list_ended(LOST_BIDS, since)
        for lease in sorted(lost, key=lambda lease: lease.end_asked_at):
            provider = self._providers.get(lease.provider)
            # Where bids set the price it may have lost to one of ours, and the list says what wins.
            if provider is not None and not provider.capabilities.bids_set_price:
                self.add(lease, lease.bid, lease.end_asked_at)
        self._is_loaded = True

    def add(self, lease: Lease, bid: Decimal, at: datetime) -> None:
        """``bid``, $/h, lost on the lease's machine."""
        provider = self._providers.get(lease.provider)
        if not lease.is_spot or provider is None or provider.capabilities.shows_held_floors:
            return  # Where floors are what wins, the next list says it all.
        key = lease.provider, lease.machine_id, lease.num_gpus
        known = self._lost.get(key)
        # One bid is tried where a loss no longer holds; when that loses as well, the rival is still there.
        is_recent = known is not None and at - known.at < REMEMBERED
        self._changes += 1
        self._lost[key] = known.lost_again(bid, at) if known and is_recent else LostBid(*key, bid, 1, at)
        if len(self._lost) > MOST_MACHINES:
            del self._lost[min(self._lost, key=lambda each: self._lost[each].at)]

    def forget_won(self, leases: Iterable[Lease]) -> None:
        """A machine that was rented since, at a bid no higher than what lost, proves that the rival is gone.

        One that was rented before proves nothing: it may hold other GPUs of that host.
        """
        for lease in leases:
            lost = self._lost.get((lease.provider, lease.machine_id, lease.num_gpus))
            runs = lease.is_spot and lease.observed.status is InstanceStatus.RUNNING
            if lost is not None and runs and lease.bid <= lost.bid and lease.intended_at > lost.at:
                self._changes += 1
                del self._lost[lost.provider, lost.machine_id, lost.num_gpus]

    def raise_floors(self, listed: tuple[Offer, ...], now: datetime, unit: Decimal) -> RaisedFloors:
        """``unit``: the step of bids, $/h. While nothing has changed the offers are the same tuple."""
        known = self._raised.get(id(listed))
        known = known if known is not None and known.listed is listed else None
        if known is not None and (known.at, known.changes) == (now, self._changes):
            return known
        lost = self._on(listed, now)
        offers = known.offers if known is not None and known.lost == lost else raise_floors(listed, lost, unit)
        if len(self._raised) >= MOST_SEARCHES:
            self._raised.clear()
        found = self._raised[id(listed)] = RaisedFloors(listed, now, self._changes, lost, offers)
        return found

    def _on(self, offers: Iterable[Offer], now: datetime) -> tuple[LostBid, ...]:
        if not self._lost:
            return ()
        known = (self._lost.get(offer.key) for offer in offers)
        return tuple(lost for lost in known if lost is not None and now < lost.until(self._params))
