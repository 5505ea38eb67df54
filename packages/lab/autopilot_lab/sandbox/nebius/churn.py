"""Background life of Nebius's market: prices that wander. Every pool has its own generator."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

from autopilot_lab.sandbox.nebius.market import STEP_S, NebiusMarket
from autopilot_lab.sandbox.nebius.pools import NebiusPool


class Churn:
    def __init__(self, market: NebiusMarket, seed: int) -> None:
        self._market = market
        for pool in market.pools.values():
            self._plan(pool, random.Random(f"nebius:{seed}:{pool.spec.region}:{pool.spec.platform.name}"))  # noqa: S311

    def _plan(self, pool: NebiusPool, rng: random.Random) -> None:
        gap = timedelta(seconds=rng.uniform(0.2, 1.0) * STEP_S)
        self._market.agenda.at(self._market.now + gap, lambda: self._move(pool, rng))

    def _move(self, pool: NebiusPool, rng: random.Random) -> None:
        wanted = pool.spec.price * Decimal(f"{rng.lognormvariate(0, 0.2):.4f}")
        mixed = (pool.price * 2 + wanted) / 3
        pool.next_price = min(max(mixed.quantize(Decimal("0.01")), Decimal("0.05")), pool.spec.platform.on_demand)
        self._plan(pool, rng)
