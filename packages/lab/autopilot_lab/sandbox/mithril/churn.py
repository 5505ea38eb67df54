"""Background life of Mithril's market: rivals who come, bid more or less, and go.

Every pool has its own generator, so that what happens in one depends neither on the others nor on the customer.
"""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

from autopilot_lab.sandbox.mithril.market import MithrilMarket
from autopilot_lab.sandbox.mithril.pools import AuctionPool

_MEAN_GAP_S, _MEAN_STAY_S = 1_800.0, 3_600.0


class Churn:
    def __init__(self, market: MithrilMarket, seed: int) -> None:
        self._market = market
        for pool in market.pools.values():
            self._plan(pool, random.Random(f"{seed}:{pool.spec.region}:{pool.spec.type.id}"))  # noqa: S311

    def _plan(self, pool: AuctionPool, rng: random.Random) -> None:
        gap = timedelta(seconds=rng.expovariate(1 / _MEAN_GAP_S))
        self._market.agenda.at(self._market.now + gap, lambda: self._arrive(pool, rng))

    def _arrive(self, pool: AuctionPool, rng: random.Random) -> None:
        limit = (pool.minimum * Decimal(f"{rng.uniform(1.0, 1.8):.4f}")).quantize(Decimal("0.01"))
        quantity = rng.randint(1, max(pool.slots // 2, 1))
        self._market.add_rival(pool, limit, quantity, rng.expovariate(1 / _MEAN_STAY_S))
        self._plan(pool, rng)
