"""The product in the simulated world: engine, policy and adapters as they ship, on the world's wires and clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import SecretStr

from autopilot.domain.params import Params
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.mailbox.formats import orders_key
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.ports.blobs import BlobStore
from autopilot.ports.provider import Provider
from autopilot.ports.store import StoreUnavailable
from autopilot.providers.runpod.adapter import RunpodProvider
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from tests.simulation.blobs import SimulatedBlobs
from tests.simulation.clock import HostClock
from tests.simulation.ledger import SimulatedLedger
from tests.simulation.loop import Process
from tests.simulation.network import Line, RunpodTransport, VastaiTransport

if TYPE_CHECKING:
    from tests.simulation.world import World

INSTALL_ID = "simulate"
SENTINEL_KEY = "sentinel-account-key"
"""The markets' key: nothing that leaves the daemon may hold it."""
STOP_WAITS_S = 90.0


class OrdersBootstrap:
    """A start command that names where the orders are and nothing else."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def onstart(self, job_id: str, lease_id: str) -> str:
        return f"agent {self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR)}"


class NumberedIds:
    """Ids in the order of their making, over all daemons of a run."""

    def __init__(self) -> None:
        self._given = 0

    def new(self) -> str:
        self._given += 1
        return f"01SIM{self._given:021d}"


class Daemon:
    """One process's life."""

    def __init__(self, world: World, ledger: SimulatedLedger, *, wrong_s: float) -> None:
        self.world = world
        self.ledger = ledger
        self.process = Process("daemon")
        self.clock = HostClock(world.loop, wrong_s)
        self.began_s = world.now_s
        self.ticks = 0
        self.is_told_to_stop = False
        self.has_stopped = False
        blobs = SimulatedBlobs(world.objects, world.network_luck)
        self._blobs = blobs
        self._markets_by_name = self._markets()
        self.engine: Engine | None = None
        world.loop.start(self.process, self._run())

    def _markets(self) -> dict[str, Provider]:
        world, key = self.world, SecretStr(SENTINEL_KEY)
        vastai, runpod = VastaiSettings(api_key=key), RunpodSettings(api_key=key)
        vastai_client = VastaiClient(VastaiTransport(Line(world, "vastai", world.network_luck)), self.clock)
        runpod_client = RunpodClient(RunpodTransport(Line(world, "runpod", world.network_luck)), self.clock)
        return {
            "vastai": VastaiProvider(vastai, vastai_client, self.clock),
            "runpod": RunpodProvider(runpod, runpod_client, self.clock),
        }

    async def _run(self) -> None:
        """As the service does: a tick at a time, also after one that failed."""
        world = self.world
        config = EngineConfig(
            INSTALL_ID, world.scenario.limits, Params(), world.permit_ttl_s, settle_delay=timedelta(minutes=10)
        )
        bootstrap = OrdersBootstrap(self._blobs)
        self.engine = Engine(config, self._markets_by_name, self.ledger, self._blobs, bootstrap, self.clock, world.ids)
        while not self.is_told_to_stop:
            began_s = self.world.now_s
            await self._grant_wishes()
            try:
                await self.engine.tick()
            except StoreUnavailable:
                pass
            except Exception as problem:
                self.world.check.unhandled("tick", problem)
            self.ticks += 1
            next_s = began_s + self.world.scenario.tick_s
            await asyncio.sleep(max(next_s - self.world.now_s, 0.0))
        await self.engine.calls.settle_for(STOP_WAITS_S)
        self.has_stopped = True

    async def _grant_wishes(self) -> None:
        """What the user has asked for meanwhile; tried again until the ledger takes it."""
        wishes = self.world.wishes
        while wishes:
            try:
                async with self.ledger.transaction() as uow:
                    await wishes[0].granted(uow, self.clock.now())
            except StoreUnavailable:
                return
            wishes.pop(0)
