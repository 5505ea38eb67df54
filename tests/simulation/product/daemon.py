"""The product in the simulated world: engine, policy and adapters as they ship, on the world's wires and clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta

from pydantic import SecretStr

from autopilot.domain.errors import UserError
from autopilot.domain.params import Params
from autopilot.engine.certification import CertifyRules
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.ports.blobs import BlobStore
from autopilot.ports.provider import Provider
from autopilot.ports.store import StoreUnavailable
from autopilot.providers.mithril.adapter import MithrilProvider
from autopilot.providers.mithril.client import MithrilClient
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.runpod.adapter import RunpodProvider
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from autopilot.service.leadership import CREATE_TIMEOUT_REAL_S, FencedProvider
from tests.simulation.ground.ground import Ground, Life
from tests.simulation.markets.mithril import PROJECT, SSH_KEY
from tests.simulation.markets.network import Connection, MithrilTransport, RunpodTransport, VastaiTransport
from tests.simulation.product.blobs import Objects, SimulatedBlobs, SimulatedUnpacker
from tests.simulation.product.ledger import SimulatedLedger
from tests.simulation.virtual.clock import HostClock
from tests.simulation.virtual.loop import Process

INSTALL_ID = "simulate"
SENTINEL_KEY = "sentinel-account-key"
"""The markets' key: nothing that leaves the daemon may hold it."""
STOP_WAITS_S = 90.0
LONGEST_READ_S = 1.0
"""Mostly: of the markets, in a tick."""


class OrdersBootstrap:
    """A start command that names where the orders are and nothing else."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def onstart(self, job_id: str, lease_id: str) -> str:
        return f"agent {self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR)}"

    def host_script(self, job_id: str, lease_id: str, *, stays: bool) -> str:
        return self.onstart(job_id, lease_id)


class NumberedIds:
    """Ids in the order of their making, over all daemons of a run."""

    def __init__(self) -> None:
        self._given = 0

    def new(self) -> str:
        self._given += 1
        return f"01SIM{self._given:021d}"


class Daemon:
    """One process's life."""

    def __init__(
        self,
        ground: Ground,
        ledger: SimulatedLedger,
        objects: Objects,
        connections: Mapping[str, Connection],
        ids: NumberedIds,
        *,
        wrong_s: float,
        rng: random.Random,
    ) -> None:
        """``connections``: to each market. ``wrong_s``: how far the host's wall clock is off."""
        self.ground = ground
        self.ledger = ledger
        self.life = Life(Process("daemon"), ground.now_s)
        self.clock = HostClock(ground.loop, wrong_s)
        self._ids = ids
        self._rng = rng
        self._granting: asyncio.Task[None] | None = None
        self._blobs = SimulatedBlobs(ground, objects, rng)
        self._markets_by_name = self._adapters(connections)
        self._is_fenced = ground.faults.hits("F3")
        ground.loop.start(self.life.process, self._run())

    def _adapters(self, connections: Mapping[str, Connection]) -> dict[str, Provider]:
        makers = {"vastai": self._vastai, "runpod": self._runpod, "mithril": self._mithril, "nebius": self._nebius}
        return {name: makers[name](connection) for name, connection in connections.items()}

    def _vastai(self, connection: Connection) -> Provider:
        client = VastaiClient(VastaiTransport(connection), self.clock)
        return VastaiProvider(VastaiSettings(api_key=SecretStr(SENTINEL_KEY)), client, self.clock)

    def _runpod(self, connection: Connection) -> Provider:
        client = RunpodClient(RunpodTransport(connection), self.clock)
        return RunpodProvider(RunpodSettings(api_key=SecretStr(SENTINEL_KEY)), client, self.clock)

    def _mithril(self, connection: Connection) -> Provider:
        settings = MithrilSettings(api_key=SecretStr(SENTINEL_KEY), project=PROJECT, ssh_key=SSH_KEY)
        return MithrilProvider(settings, MithrilClient(MithrilTransport(connection), self.clock), self.clock)

    def _nebius(self, connection: Connection) -> Provider:
        # The vendor's SDK takes a second to load.
        from tests.simulation.product.nebius import connect_nebius

        return connect_nebius(connection, self.clock, SENTINEL_KEY)

    def _fenced(self) -> Mapping[str, Provider]:
        """As one on a server speaks to them; a create of the leader before it may still land."""
        hold_s = CREATE_TIMEOUT_REAL_S if self.ground.lives > 1 else 0.0
        return {
            name: FencedProvider(provider, self.ledger, hold_creates_real_s=hold_s)
            for name, provider in self._markets_by_name.items()
        }

    def _config(self) -> EngineConfig:
        ground = self.ground
        uncertified = ground.scenario.uncertified
        rules = CertifyRules("1.0", frozenset(uncertified), allowance=max(uncertified.values(), default=None))
        return EngineConfig(
            INSTALL_ID,
            ground.scenario.limits,
            Params(),
            ground.permit_ttl_s,
            settle_delay=timedelta(minutes=10),
            certify=rules,
        )

    async def _run(self) -> None:
        """As the service does: a tick at a time, also after one that failed."""
        config = self._config()
        bootstrap = OrdersBootstrap(self._blobs)
        engine = Engine(
            config,
            self._fenced() if self._is_fenced else self._markets_by_name,
            self.ledger,
            self._blobs,
            bootstrap,
            SimulatedUnpacker(),
            self.clock,
            self._ids,
            self._secret,
        )
        await self._open(engine)
        while not self.life.is_stopping:
            began_s = self.ground.now_s
            self._hear_wishes()
            try:
                await engine.tick()
            except StoreUnavailable:
                pass
            except Exception as problem:
                self.ground.check.report_error("tick", problem)
            next_s = began_s + self.ground.scenario.tick_s
            await self._rest(max(next_s - self.ground.now_s, 0.0))
        await engine.calls.settle_for(STOP_WAITS_S)
        self.life.has_stopped = True

    async def _open(self, engine: Engine) -> None:
        """Opens what is to answer beside the ticks, before the first of them."""

    async def _rest(self, for_s: float) -> None:
        """Until the next tick."""
        await asyncio.sleep(for_s)

    def _secret(self, name: str) -> str:
        raise UserError(f"there is no secret named {name!r}")

    def _hear_wishes(self) -> None:
        """The user speaks beside the ticks: before one, or while it reads the markets."""
        if self.ground.wishes and (self._granting is None or self._granting.done()):
            self._granting = asyncio.create_task(self._grant_wishes(self._rng.uniform(0, LONGEST_READ_S)))

    async def _grant_wishes(self, in_s: float) -> None:
        """What the user has asked for meanwhile; tried again until the ledger takes it."""
        wishes = self.ground.wishes
        await asyncio.sleep(in_s)
        while wishes:
            try:
                async with self.ledger.transaction() as uow:
                    await wishes[0].grant(uow, self.clock.now())
            except StoreUnavailable:
                return
            wishes.pop(0)
