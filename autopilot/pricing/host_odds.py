"""What a machine's record adds to the cost of finishing there: launches that come to nothing, a slower pace.

The chance that a launch comes to nothing is shrunk from the market to the host to the machine (empirical Bayes, as in
``hazard``). A machine that stays the best choice is tried until it comes up, so the launches to be lost there are
p / (1 − p); each costs what a machine may load for. A record only adds: what has none costs what it did.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.hosts import KnownHosts, LaunchOdds
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params

MARKET_WEIGHT = 20.0
"""Before a market's own launches count, so many are assumed to have come up."""
HOST_WEIGHT = 1.0
"""Machines of one host share its faults more often than not."""
MACHINE_WEIGHT = 0.05
"""A machine that has not come up will not the next time either, mostly: driver, disk and network are the same."""
POOL_WEIGHT = 5.0
"""Of a pool the next machine is another one."""


class Burden(NamedTuple):
    """What to expect of one machine beyond what its offer says."""

    lost: Decimal
    """Dollars for launches that come to nothing."""
    pace: float
    """0..1, of what such GPUs do elsewhere."""
    load: timedelta
    """It was seen to take so long until its agent spoke."""


UNBURDENED = Burden(ZERO, 1.0, timedelta(0))


def weigh_host(
    hosts: KnownHosts, offer: Offer, image: str, hourly: Decimal, params: Params, *, is_pooled: bool
) -> Burden:
    """``hourly``: $/h of the machine, disk included."""
    market = hosts.by_market.get(offer.provider)
    if market is None:
        return UNBURDENED
    record = hosts.find(offer.provider, offer.machine_id)
    own = LaunchOdds() if record is None else LaunchOdds(record.launches, record.failed)
    others = (
        hosts.by_host.get((offer.provider, offer.host_id), LaunchOdds()).without(own) if offer.host_id else LaunchOdds()
    )
    share = others.shrunk(market.shrunk(0.0, MARKET_WEIGHT), HOST_WEIGHT)
    share = own.shrunk(share, POOL_WEIGHT if is_pooled else MACHINE_WEIGHT)
    launches = share / max(1 - share, 1e-6)
    lost = accrue(hourly, timedelta(seconds=params.loading.timeout_s)) * Decimal(launches)
    if record is None:
        return Burden(lost, 1.0, timedelta(0))
    load = timedelta(seconds=record.load_s(image) or 0.0)
    return Burden(lost, record.pace if record.pace is not None else 1.0, load)
