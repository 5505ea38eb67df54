"""The sandbox: a market, its HTTP server and its instances, on any of the three clocks.

On a clock that is set by hand the market moves when it is asked something; otherwise also by itself, so that
processes are started and killed in time. Either way every event happens at its exact instant.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO

from aiohttp import web

from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock, ManualClock
from autopilot.sandbox.catalogue import default_catalogue
from autopilot.sandbox.churn import Churn
from autopilot.sandbox.control import Control
from autopilot.sandbox.faults import Faults
from autopilot.sandbox.market.instances import Instance
from autopilot.sandbox.market.lifecycle import NoContainers, Timings
from autopilot.sandbox.market.machines import MachineSpec
from autopilot.sandbox.market.market import Market
from autopilot.sandbox.processes import LocalContainers
from autopilot.sandbox.vastai.app import VastApi
from autopilot.sandbox.vastai.calls import Site
from autopilot.sandbox.vastai.pacing import RowQuota

_TICK_S = 0.2
_SHUTDOWN_S = 2.0


@dataclass(frozen=True)
class SandboxConfig:
    """Everything that shapes a sandbox. Durations are market seconds; ``machines`` replaces the default market."""

    state_dir: Path
    seed: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    api_keys: tuple[str, ...] = ("sandbox-key",)
    credit: Decimal = Decimal(100)
    machines: tuple[MachineSpec, ...] | None = None
    churn: bool = False
    enforce_rate_limits: bool = True
    search_quota_rows: int = 20_000
    real_processes: bool = True
    clearing_is_visible: bool = False
    """Whether a chunk held by a rival shows the bid that would win it; otherwise it shows the host's floor."""
    list_lag_s: float = 0.0
    """How late the instance list learns of new and destroyed instances."""
    log_polls: int = 1
    """How often a requested log is not there yet."""
    loading_s: float = 40.0
    """From create until the container runs."""
    resume_s: float = 20.0
    """From regaining the GPUs until the container runs again."""
    status_lag_s: float = 30.0
    """How long ``actual_status`` lags behind a stop."""
    underbid_delay_s: float = 47.0
    """From lowering a bid until the auction sees it."""
    bid_echo_lag_s: float = 16.0
    """From a changed bid until the machine's ``min_bid`` echoes it."""

    @property
    def timings(self) -> Timings:
        return Timings(
            provision_s=self.loading_s / 10,
            loading_s=self.loading_s,
            resume_s=self.resume_s,
            status_lag_s=self.status_lag_s,
            underbid_delay_s=self.underbid_delay_s,
            bid_echo_lag_s=self.bid_echo_lag_s,
        )


class _SilentContainers(NoContainers):
    """Instances without processes: they run, print nothing and never end."""

    def console(self, instance_id: int) -> bytes:
        return b""


class Sandbox:
    def __init__(self, config: SandboxConfig, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self._url: str | None = None
        self._runner: web.AppRunner | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._lock: IO[str] | None = None

    @property
    def url(self) -> str:
        """Base URL, without a trailing slash. Raises ``RuntimeError`` before ``start``."""
        if self._url is None:
            raise RuntimeError("the sandbox has not been started")
        return self._url

    @property
    def market(self) -> Market:
        return self._market

    async def start(self) -> None:
        """Listen. Raises ``UserError`` when the port or the state directory is in use."""
        config = self.config
        self._lock = _claim(config.state_dir)
        now = self.clock.now()
        self._containers = (
            LocalContainers(config.state_dir, self._environment) if config.real_processes else _SilentContainers()
        )
        self._market = Market(
            config.machines if config.machines is not None else default_catalogue(config.seed, now),
            now,
            seed=config.seed,
            credit=config.credit,
            timings=config.timings,
            clearing_is_visible=config.clearing_is_visible,
            containers=self._containers,
        )
        if config.churn:
            Churn(self._market, config.seed)
        faults = Faults(config.seed)
        self._site = Site(
            self._market,
            self._containers,
            RowQuota(config.search_quota_rows),
            log_polls=config.log_polls,
            list_lag_s=config.list_lag_s,
        )
        self._api = VastApi(
            self._site, self, faults, api_keys=config.api_keys, enforce_rate_limits=config.enforce_rate_limits
        )
        app = web.Application()
        self._api.add_routes(app)
        Control(self._market, self.clock, self, faults, self._api).add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, config.host, config.port, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            raise UserError(
                f"cannot listen on {config.host}:{config.port}: {error.strerror}", hint="choose another port"
            ) from None
        self._url = f"http://{config.host}:{self._runner.addresses[0][1]}"
        self._site.base_url = self._url
        if not isinstance(self.clock, ManualClock):
            self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Kill every instance and close the server. A second call does nothing."""
        if self._ticking is not None:
            self._ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None
        if self._runner is not None:
            self._api.stop()
            await self._runner.cleanup()
            self._runner = None
            if isinstance(self._containers, LocalContainers):
                await self._containers.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def synchronise(self) -> datetime:
        now = self.clock.now()
        self._market.advance_to(now)
        if isinstance(self._containers, LocalContainers):
            for ended in self._containers.exits():
                self._market.container_exited(ended.instance_id, ended.boot, ended.code)
        return now

    async def settled(self) -> None:
        if isinstance(self._containers, LocalContainers):
            await self._containers.settled()

    async def _tick(self) -> None:
        while True:
            self.synchronise()
            wait_s = _TICK_S
            due = self._market.agenda.next_due()
            if due is not None:
                wait_s = min(wait_s, max((due - self.clock.now()).total_seconds() / self.clock.speed, 0.001))
            await asyncio.sleep(wait_s)

    def _environment(self, instance: Instance) -> dict[str, str]:
        """What the provider sets in a container, and where the instance finds its market."""
        spec = self._market.machines[instance.machine_id].spec
        environment = {
            "CONTAINER_ID": str(instance.id),
            "CONTAINER_API_KEY": instance.api_key,
            "VAST_CONTAINERLABEL": f"C.{instance.id}",
            "GPU_COUNT": str(len(instance.gpu_ids)),
            "PUBLIC_IPADDR": spec.public_ipaddr,
            "SSH_PUBLIC_KEY": "",
            "VAST_TCP_PORT_22": "22",
            "AUTOPILOT_PROVIDER_URL": self.url,
        }
        if self.clock.speed != 1:
            environment["AUTOPILOT_CLOCK_SPEED"] = f"{self.clock.speed:g}"
        return environment


@contextlib.asynccontextmanager
async def running_sandbox(config: SandboxConfig, clock: Clock) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(config, clock)
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.stop()


def _claim(state_dir: Path) -> IO[str]:
    """One sandbox at a time may own a state directory: it wipes the disks of the one before."""
    state_dir.mkdir(parents=True, exist_ok=True)
    lock = (state_dir / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UserError(f"another sandbox uses {state_dir}", hint="stop it, or choose another directory") from None
    return lock
