"""One market whose hosts differ and partly never boot, without any other fault."""

from __future__ import annotations

from tests.simulation.ground.faults import Faults
from tests.simulation.ground.scenario import Scenario
from tests.simulation.markets.auction import AuctionMarket
from tests.simulation.markets.capped import CappedMarket
from tests.simulation.markets.market import SimulatedMarket
from tests.simulation.markets.mithril import Mithril
from tests.simulation.markets.network import Answerer
from tests.simulation.markets.runpod import PodMarket, Runpod
from tests.simulation.markets.vastai import Vastai
from tests.simulation.runs.world import World
from tests.simulation.virtual.loop import VirtualLoop
from tests.simulation.zoo.stock import stock


class ZooWorld(World):
    def __init__(self, share_of_duds: float, seed: int, scenario: Scenario, loop: VirtualLoop, faults: Faults) -> None:
        self.share_of_duds = share_of_duds
        super().__init__(seed, scenario, loop, faults)

    def _open_markets(self) -> dict[str, Answerer]:
        return {name: self._open(name) for name in self.scenario.markets}

    def _open(self, name: str) -> Answerer:
        parts = self, name, stock(name, self.seed, self.share_of_duds), self.rng(name), self._boot_agent
        if name == "vastai":
            return Vastai(SimulatedMarket(*parts))
        if name == "runpod":
            return Runpod(PodMarket(*parts))
        if name == "mithril":
            return Mithril(AuctionMarket(*parts))
        # The vendor's SDK takes a second to load.
        from tests.simulation.markets.nebius import Nebius

        return Nebius(CappedMarket(*parts))
