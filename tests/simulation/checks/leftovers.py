"""What must hold of what a market keeps beside a machine: a disk, a pricing policy. It goes with the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autopilot.domain.labels import LABEL_PREFIX
from autopilot.domain.lease import Lease
from tests.simulation.checks.conduct import CHECKED_EVERY_S
from tests.simulation.ground.ground import Ground
from tests.simulation.markets.market import SimulatedMarket

FOUND_BY_LOOKING = frozenset({"nebius"})
"""Markets where it is a thing of its own, which may be made without its machine, and outlive it."""
LEFT_S = 5400.0
"""Half an hour until it counts as left behind, half an hour until two looks agree that it is unwanted, and time to
order it repeatedly from a market that does not do as it says."""


class Leftovers:
    def __init__(
        self, ground: Ground, markets: Mapping[str, SimulatedMarket], add_violation: Callable[[str, str], None]
    ) -> None:
        self._ground = ground
        self._markets = markets
        self._add_violation = add_violation
        self._left_s: dict[str, float] = {}
        """By id: for how long a daemon that could act has left it there."""

    def end(self, lease: Lease) -> None:
        """The lease is gone."""
        if lease.provider in FOUND_BY_LOOKING:
            return
        market = self._markets[lease.provider]
        there = market.boxes.get(lease.instance_id or "")
        if there is not None and there.back_s > 0:
            return  # a machine that is there again has what belongs to it
        for kept in market.kept.values():
            if kept.box_id == lease.instance_id and kept.label == lease.label:
                self._add_violation("S36", f"lease {lease.id} is gone, and the market keeps its {kept.what}")

    def look(self) -> None:
        before, self._left_s = self._left_s, {}
        for name in FOUND_BY_LOOKING & self._markets.keys():
            market = self._markets[name]
            passed_s = CHECKED_EVERY_S if self._ground.is_able(name) else 0.0
            for id_, kept in market.kept.items():
                if kept.box_id in market.boxes or not kept.label.startswith(f"{LABEL_PREFIX}."):
                    continue
                left_s = self._left_s[id_] = before.get(id_, 0.0) + passed_s
                if left_s > LEFT_S:
                    self._add_violation("S36", f"{name} keeps {id_}, the {kept.what} of {kept.box_id or 'no machine'}")
                    self._left_s[id_] = 0.0
