"""Our own bids are no competition: where all machines of a pool pay one price, a bid of ours that loses sets it.

So no more bids are made than can win, one that has lost beside machines of ours is withdrawn, and what a bid does to
the price of our other machines is part of its cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, Ours, ProviderView
from autopilot.domain.offer import Offer

Pool = tuple[str, str]


def leave_room(offers: Iterable[Offer], leases: Iterable[Lease]) -> tuple[Offer, ...]:
    """The offers, and no floor where bids that no list of the market shows yet take all the room.

    ``leases``: of all jobs. What a list shows, the market's adapter has counted.
    """
    made = Counter((lease.provider, lease.machine_id) for lease in leases if _is_unlisted_bid(lease))
    return tuple(_with_room(offer, made[offer.provider, offer.machine_id]) for offer in offers)


def _is_unlisted_bid(lease: Lease) -> bool:
    return lease.is_spot and lease.instance_id is None and not lease.is_over


def _with_room(offer: Offer, made: int) -> Offer:
    if offer.room is None or not made:
        return offer
    left = max(offer.room - made, 0)
    return replace(offer, room=left, floor=offer.floor if left else None)


def ours_in_pools(leases: Iterable[Lease], job_id: str, providers: Mapping[str, ProviderView]) -> dict[Pool, Ours]:
    """The machines that other jobs have, where a bid that loses sets the price of all."""
    setting = {name for name, view in providers.items() if view.capabilities.bids_set_price}
    found: dict[Pool, Ours] = {}
    for lease in leases:
        if lease.provider in setting and lease.job_id != job_id and _has_machine(lease):
            pool = lease.provider, lease.machine_id
            before = found.get(pool, Ours(0, lease.computes_at))
            found[pool] = Ours(before.count + 1, min(before.price, lease.computes_at))
    return found


def _has_machine(lease: Lease) -> bool:
    has_won = lease.observed.status in (InstanceStatus.RUNNING, InstanceStatus.PROVISIONING)
    return lease.is_spot and lease.is_wanted and lease.instance_id is not None and has_won


def sets_our_price(lease: Lease, market: Market) -> bool:
    """Whether other machines of ours may pay by this bid, which has lost: no higher one is known to win."""
    is_beside_ours = (lease.provider, lease.machine_id) in market.ours
    return is_beside_ours and lease.observed.price_to_win is None
