"""The sandbox: its markets, their HTTP server and their instances, on any of the three clocks.

vast.ai is under ``/api``, RunPod under ``/graphql``, ``/v2``, ``/v1`` and ``/hapi``, Mithril under ``/v2``, their
controls under ``/_emu``. Nebius speaks gRPC on a port of its own, where one is asked for.
On a clock that is set by hand the markets move when they are asked something; otherwise also by themselves, so that
processes are started and killed in time. Either way every event happens at its exact instant.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from aiohttp import web

from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock
from autopilot_lab.sandbox.apart import OwnNetwork
from autopilot_lab.sandbox.boxes import BOX_ADDRESS
from autopilot_lab.sandbox.catalogue import default_catalogue
from autopilot_lab.sandbox.churn import Churn
from autopilot_lab.sandbox.config import SandboxConfig
from autopilot_lab.sandbox.control import Control
from autopilot_lab.sandbox.faults import Faults
from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.market.lifecycle import NoContainers, Timings
from autopilot_lab.sandbox.market.market import SandboxMarket
from autopilot_lab.sandbox.mithril.market import MithrilMarket
from autopilot_lab.sandbox.mithril.provider import MithrilSandbox
from autopilot_lab.sandbox.processes import LocalContainers, SshRules
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Pod
from autopilot_lab.sandbox.runpod.provider import RunpodSandbox
from autopilot_lab.sandbox.vastai.app import VastApi
from autopilot_lab.sandbox.vastai.calls import Site
from autopilot_lab.sandbox.vastai.pacing import RowQuota
from autopilot_lab.sandbox.vastai.rows import open_ports

if TYPE_CHECKING:
    from autopilot_lab.sandbox.nebius.market import NebiusMarket
    from autopilot_lab.sandbox.nebius.provider import NebiusSandbox

__all__ = ["Sandbox", "SandboxConfig", "running_sandbox"]

_TICK_S = 0.2
_WARNED_REAL_S = 1.0
_SHUTDOWN_S = 2.0


class _SilentContainers(NoContainers):
    """Instances without processes: they run, print nothing and never end."""

    def console(self, instance_id: int) -> bytes:
        return b""


class Sandbox:
    def __init__(self, config: SandboxConfig, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.time_ahead = timedelta(0)
        self._url: str | None = None
        self._runner: web.AppRunner | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._lock: IO[str] | None = None
        self._nebius: NebiusSandbox | None = None
        self._stopping: asyncio.Future[None] | None = None

    @property
    def url(self) -> str:
        """Base URL, without a trailing slash. Raises ``RuntimeError`` before ``start``."""
        if self._url is None:
            raise RuntimeError("the sandbox has not been started")
        return self._url

    @property
    def market(self) -> SandboxMarket:
        """vast.ai's."""
        return self._market

    @property
    def vastai_api(self) -> VastApi:
        """For callers in this process, past HTTP."""
        return self._api

    @property
    def runpod(self) -> PodMarket:
        return self._runpod.market

    @property
    def mithril(self) -> MithrilMarket:
        return self._mithril.market

    @property
    def nebius(self) -> NebiusMarket:
        """Raises ``RuntimeError`` if it is not asked for."""
        return self._the_nebius.market

    @property
    def nebius_address(self) -> str:
        """As ``base_url`` of that market's settings. Raises ``RuntimeError`` if it is not asked for."""
        return self._the_nebius.address

    @property
    def _the_nebius(self) -> NebiusSandbox:
        if self._nebius is None:
            raise RuntimeError("the sandbox has no Nebius: give it a nebius_port")
        return self._nebius

    def pod_environment(self, pod: Pod) -> dict[str, str]:
        """What RunPod's half sets in a pod."""
        return self._runpod.environment(pod)

    async def start(self) -> None:
        """Listen. Raises ``UserError`` when the port or the state directory is in use."""
        now = self.clock.now()
        config = self.config.with_zoo(now)
        self._lock = _claim(config.state_dir)
        self._containers = (
            LocalContainers(config.state_dir, self.environment, self._ssh_rules() if config.ssh else None)
            if config.real_processes
            else _SilentContainers()
        )
        self._market = SandboxMarket(
            config.machines if config.machines is not None else default_catalogue(config.seed, now),
            now,
            seed=config.seed,
            credit=config.credit,
            timings=_timings(config.timings, self.clock.speed),
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
            account_id=config.account_id,
            log_polls=config.log_polls,
            list_lag_s=config.list_lag_s,
            private_images=config.private_images,
        )
        self._api = VastApi(
            self._site, self, faults, api_keys=config.api_keys, enforce_rate_limits=config.enforce_rate_limits
        )
        self._runpod = RunpodSandbox(
            config.runpod, self, now, self.clock.speed, config.state_dir if config.real_processes else None
        )
        self._mithril = MithrilSandbox(
            config.mithril, self, now, self.clock.speed, config.state_dir if config.real_processes else None
        )
        app = web.Application()
        app.on_response_prepare.append(self._tell_time)
        if config.nebius is not None:
            # Its SDK is an extra, and takes half a second to import.
            from autopilot_lab.sandbox.nebius.provider import NebiusSandbox

            self._nebius = NebiusSandbox(
                config.nebius, self, now, self.clock.speed, config.state_dir if config.real_processes else None
            )
            await self._nebius.start()
            self._nebius.add_routes(app)
        self._api.add_routes(app)
        self._runpod.add_routes(app)
        self._mithril.add_routes(app)
        Control(self._market, self.clock, self, faults, self._api).add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, config.host, config.port, reuse_address=True)
        try:
            await site.start()
        except (OSError, OverflowError) as error:  # taken, not ours to take, or no port at all
            await self.stop()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UserError(
                f"cannot listen on {config.host}:{config.port}: {reason}", hint="choose another port"
            ) from None
        self._url = f"http://{config.host}:{self._runner.addresses[0][1]}"
        self._site.base_url = self._runpod.base_url = self._url
        if not isinstance(self.clock, ManualClock):
            self._ticking = asyncio.create_task(self._tick())

    @property
    def date(self) -> str:
        """As its answers tell the time. By ``time_ahead`` it is another than the clock's."""
        return format_datetime(self.clock.now() + self.time_ahead, usegmt=True)

    async def _tell_time(self, _: web.Request, answer: web.StreamResponse) -> None:
        answer.headers["Date"] = self.date

    async def stop(self) -> None:
        """Kill every instance and close the server. A second call does nothing."""
        if self._ticking is not None:
            self._ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None
        if self._runner is not None:
            self._api.stop()
            self._runpod.stop()
            self._mithril.stop()
            if self._nebius is not None:
                await self._nebius.stop()
            await self._runner.cleanup()
            self._runner = None
            if isinstance(self._containers, LocalContainers):
                await self._containers.close()
            await self._runpod.close()
            await self._mithril.close()
            if self._nebius is not None:
                await self._nebius.close()
                self._nebius = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def synchronise(self) -> datetime:
        now = self.clock.now()
        self._market.advance_to(now)
        if isinstance(self._containers, LocalContainers):
            for ended in self._containers.exits():
                self._market.container_exited(ended.instance_id, ended.boot, ended.code)
        self._runpod.synchronise(now)
        self._mithril.synchronise(now)
        if self._nebius is not None:
            self._nebius.synchronise(now)
        return now

    async def settle(self) -> None:
        if isinstance(self._containers, LocalContainers):
            await self._containers.settle()
        await self._runpod.settle()
        await self._mithril.settle()
        if self._nebius is not None:
            await self._nebius.settle()

    async def _tick(self) -> None:
        while True:
            self.synchronise()
            wait_s = _TICK_S
            agendas = [self._market.agenda, self._runpod.market.agenda, self._mithril.market.agenda]
            if self._nebius is not None:
                agendas.append(self._nebius.market.agenda)
            for agenda in agendas:
                due = agenda.next_due()
                if due is not None:
                    wait_s = min(wait_s, max((due - self.clock.now()).total_seconds() / self.clock.speed, 0.001))
            await asyncio.sleep(wait_s)

    @property
    def _port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def _ssh_rules(self) -> SshRules:
        def forwards() -> bool:
            return "ssh-forwards" not in self._market.broken

        return SshRules(forwards, self._serve_within, self.config.host, self.config.ssh_names)

    def _serve_within(self, network: OwnNetwork) -> Callable[[], None]:
        """The market answers in that network too, at its loopback: what else is there reaches nothing."""
        assert self._runner is not None
        site = web.SockSite(self._runner, network.listen(self._port))
        starting = asyncio.ensure_future(site.start())

        async def stop() -> None:
            with contextlib.suppress(RuntimeError):  # the sandbox ended meanwhile, and all of its sites
                await starting
                await site.stop()

        def begin_stop() -> None:
            self._stopping = asyncio.ensure_future(stop())

        return begin_stop

    def environment(self, instance: Contract) -> dict[str, str]:
        """What the provider sets in a container, and where the instance finds its market."""
        return {
            "CONTAINER_ID": str(instance.id + ("own-id" in self._market.broken)),
            "CONTAINER_API_KEY": instance.api_key,
            "VAST_CONTAINERLABEL": f"C.{instance.id}",
            "GPU_COUNT": str(len(instance.gpu_ids)),
            "PUBLIC_IPADDR": BOX_ADDRESS,
            "SSH_PUBLIC_KEY": "",
            "AUTOPILOT_PROVIDER_URL": f"http://127.0.0.1:{self._port}" if self.config.ssh else self.url,
            **{f"VAST_TCP_PORT_{inside}": str(outside) for inside, outside in self._ports_named(instance)},
        }

    def _ports_named(self, instance: Contract) -> list[tuple[int, int]]:
        return [] if "one-port-in-and-out" in self._market.broken else open_ports(instance)


@contextlib.asynccontextmanager
async def running_sandbox(config: SandboxConfig, clock: Clock) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(config, clock)
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.stop()


def _timings(timings: Timings, speed: float) -> Timings:
    """A process that is warned gets a real second at least, however fast the clock runs."""
    return replace(timings, warned_for_s=max(timings.warned_for_s, _WARNED_REAL_S * speed))


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
