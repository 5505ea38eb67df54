"""Background life of RunPod's market: floors that drift slowly, rivals and on-demand customers who come and go.

Every machine has its own generator, so that what happens on one depends neither on the others nor on the customer.
"""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal

from autopilot_lab.sandbox.runpod.exchange import Exchange
from autopilot_lab.sandbox.runpod.machines import Machine

_MEAN_GAP_S = {"floor": 14_400.0, "rival": 3_600.0, "on_demand": 5_400.0}
_MEAN_STAY_S = {"rival": 2_400.0, "on_demand": 5_400.0}
_FLOOR_BAND = (Decimal("0.8"), Decimal("1.3"))
"""Floors stay within these multiples of where they began."""


class Churn:
    def __init__(self, market: Exchange, seed: int) -> None:
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
            step = Decimal(f"{rng.lognormvariate(0, 0.04):.4f}")
            if spec.floor is not None and machine.floor is not None:
                low, high = (spec.floor * factor for factor in _FLOOR_BAND)
                moved = min(max(machine.floor * step, low), high).quantize(Decimal("0.001"))
                self._market.set_floor(spec.machine_id, moved)
        else:
            gpu_count = rng.randint(1, spec.gpu_count)
            over = Decimal(f"{rng.uniform(1.0, 1.5):.4f}")
            stay = timedelta(seconds=rng.expovariate(1 / _MEAN_STAY_S[kind]))
            self._arrive(kind, machine, gpu_count, over, stay)
        self._plan(kind, machine, rng)

    def _arrive(self, kind: str, machine: Machine, gpu_count: int, over: Decimal, stay: timedelta) -> None:
        if kind == "rival" and machine.floor is None:
            return
        bid = (machine.floor * over).quantize(Decimal("0.01")) if kind == "rival" and machine.floor else None
        stranger = self._market.add_stranger(kind, machine, gpu_count, bid)
        if stranger is not None:
            stranger_id = stranger.id
            self._market.agenda.at(self._market.now + stay, lambda: self._market.remove_stranger(stranger_id))
