"""Background life of the market: floors that drift, rivals who come and go, now and then an on-demand customer.

Every machine has its own generator, so that what happens on one depends neither on the others nor on the customer.
"""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

from autopilot_lab.sandbox.market.machines import Machine
from autopilot_lab.sandbox.market.market import SandboxMarket

_MEAN_GAP_S = {"floor": 1_200.0, "rival": 2_400.0, "on_demand": 14_400.0}
_MEAN_STAY_S = {"rival": 1_500.0, "on_demand": 5_400.0}
_FLOOR_BAND = (Decimal("0.7"), Decimal("1.5"))
"""Floors stay within these multiples of where they began."""


class Churn:
    def __init__(self, market: SandboxMarket, seed: int) -> None:
        self._market = market
        for machine in market.machines.values():
            rng = random.Random(f"{seed}:{machine.spec.machine_id}")  # noqa: S311 - reproducible, no secret
            for kind in _MEAN_GAP_S:
                self._plan(kind, machine, rng)

    def _plan(self, kind: str, machine: Machine, rng: random.Random) -> None:
        gap = timedelta(seconds=rng.expovariate(1 / _MEAN_GAP_S[kind]))
        self._market.agenda.at(self._market.now + gap, lambda: self._happen(kind, machine, rng))

    def _happen(self, kind: str, machine: Machine, rng: random.Random) -> None:
        spec = machine.spec
        if kind == "floor":
            low, high = (spec.floor * factor for factor in _FLOOR_BAND)
            moved = machine.floor * Decimal(f"{rng.lognormvariate(0, 0.06):.4f}")
            self._market.set_floor(spec.machine_id, min(max(moved, low), high).quantize(Decimal("0.0001")))
        else:
            chunk = rng.choice(spec.chunks())
            stay_s = rng.expovariate(1 / _MEAN_STAY_S[kind])
            if kind == "rival":
                over = Decimal(f"{rng.uniform(1.0, 1.6):.4f}")
                bid = (machine.floor_of(chunk) * over).quantize(Decimal("0.0001"))
                self._market.add_rival(spec.machine_id, chunk, bid, stay_s)
            else:
                self._market.add_on_demand(spec.machine_id, chunk, stay_s)
        self._plan(kind, machine, rng)
