"""The world of one start: the suite's market alone, no faults, and a daemon that has recorded what went before."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from autopilot.domain.job import GpuChoice
from autopilot.engine.engine import EngineConfig
from autopilot.ports.provider import Provider
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from tests.simulation.ground.faults import Faults
from tests.simulation.ground.scenario import GPU, Scenario
from tests.simulation.markets.network import Answerer, Connection, VastaiTransport
from tests.simulation.product.daemon import SENTINEL_KEY, Daemon
from tests.simulation.runs.world import World
from tests.simulation.suites.market import SuiteMarket, SuiteVastai
from tests.simulation.suites.start import Start
from tests.simulation.virtual.loop import VirtualLoop

UNDISTURBED_S = 60.0
"""Searches are no younger than that."""
IDLE_S = 600.0
"""A job without a machine is watched closely for so long."""


class SuiteDaemon(Daemon):
    ground: SuiteWorld

    def _adapters(self, connections: dict[str, Connection]) -> dict[str, Provider]:  # type: ignore[override]
        client = VastaiClient(VastaiTransport(connections["vastai"]), self.clock)
        return {"vastai": VastaiProvider(VastaiSettings(api_key=SecretStr(SENTINEL_KEY)), client, self.clock)}

    async def _rest(self, for_s: float) -> None:
        """The daemon looks every tick. Looks that can find nothing new are left out, but for one a minute."""
        await super()._rest(for_s)
        until_s = self.ground.now_s + UNDISTURBED_S - self.ground.scenario.tick_s
        saved = self.ground.saved
        while self.ground.is_undisturbed and self.ground.saved == saved and self.ground.now_s < until_s:
            await super()._rest(self.ground.scenario.tick_s)

    def _config(self) -> EngineConfig:
        start = self.ground.start
        # What was recorded before a first job, was watched.
        watched = (GpuChoice(GPU),) if start.live.recorded_h else ()
        return replace(super()._config(), params=start.params(), watched=watched)


class SuiteWorld(World):
    def __init__(self, start: Start, seed: int, scenario: Scenario, loop: VirtualLoop, faults: Faults) -> None:
        self.start = start
        self._idle_since_s = 0.0
        super().__init__(seed, scenario, loop, faults)
        self.make_daemon = SuiteDaemon
        # Tables are made at once, in virtual time.
        loop.is_offloaded_done = lambda: True
        self.committed["prices"] = {
            (seen.provider, seen.machine_id, seen.num_gpus, seen.observed_at): seen for seen in start.recorded()
        }

    @property
    def saved(self) -> list[object]:
        """Of each machine, its newest checkpoint."""
        return [box.disk.memory.get("last_ckpt_n") for box in self.boxes()]

    @property
    def is_undisturbed(self) -> bool:
        """The job's one machine works, or it has waited without one for a while."""
        boxes = list(self.boxes())
        if boxes:
            self._idle_since_s = self.now_s
        agents = [box.agent for box in boxes]
        is_idle = not boxes and self.now_s - self._idle_since_s >= IDLE_S
        return is_idle or (len(agents) == 1 and agents[0] is not None and agents[0].is_at_work)

    def _open_markets(self) -> dict[str, Answerer]:
        market = SuiteMarket(self, self.start, self.rng("vastai"), self._boot_agent)
        return {"vastai": SuiteVastai(market)}
