"""RunPod as one part of the sandbox: its market, processes, HTTP surface and control API."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from aiohttp import web

from autopilot.domain.errors import UserError, lab_hint
from autopilot_lab.sandbox.boxes import BOX_ADDRESS
from autopilot_lab.sandbox.faults import Faults
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.runpod.catalogue import default_catalogue
from autopilot_lab.sandbox.runpod.churn import Churn
from autopilot_lab.sandbox.runpod.containers import LocalPods
from autopilot_lab.sandbox.runpod.control import RunpodControl
from autopilot_lab.sandbox.runpod.exchange import ExchangeConfig, Mode
from autopilot_lab.sandbox.runpod.lifecycle import NoPodContainers, Timings
from autopilot_lab.sandbox.runpod.machines import MachineSpec
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import NetworkVolume, Pod
from autopilot_lab.sandbox.runpod.resolvers import Caller, Customer
from autopilot_lab.sandbox.runpod.rest_api import RestApi
from autopilot_lab.sandbox.runpod.rows import open_ports
from autopilot_lab.sandbox.wire import Host

_TERM_REAL_S, _RESTART_REAL_S = 1.0, 1.0
"""Real seconds that a process gets at least, however fast the market's clock runs."""


@dataclass(frozen=True)
class RunpodConfig:
    """Everything that shapes the RunPod part. Durations are market seconds."""

    keys: tuple[str, ...] = ("runpod-sandbox-key",)
    seed: int = 1
    private_images: tuple[PrivateImage, ...] = ()
    balance: Decimal = Decimal(100)
    machines: tuple[MachineSpec, ...] | None = None
    mode: Mode = Mode.NORMAL
    exchange: ExchangeConfig | None = None
    churn: bool = False
    enforce_rate_limits: bool = True
    billing_lag_s: float = 3600.0
    pull_s: float = 40.0
    resume_s: float = 15.0
    network_volumes: Sequence[NetworkVolume] = ()

    def timings(self, speed: float) -> Timings:
        defaults = Timings()
        return Timings(
            pull_s=self.pull_s,
            resume_s=self.resume_s,
            restart_s=max(defaults.restart_s, _RESTART_REAL_S * speed),
            grace_s=max(defaults.grace_s, _TERM_REAL_S * speed),
        )


class RunpodSandbox:
    """``state_dir`` ``None``: pods run no processes. ``speed``: market seconds per real second."""

    def __init__(self, config: RunpodConfig, host: Host, now: datetime, speed: float, state_dir: Path | None) -> None:
        self.base_url = ""
        """Where pods find their provider."""
        self._config = config
        self._host = host
        self._pods = None if state_dir is None else LocalPods(state_dir, self.environment)
        self.market = PodMarket(
            config.machines if config.machines is not None else default_catalogue(config.seed),
            now,
            seed=config.seed,
            balance=config.balance,
            mode=config.mode,
            config=config.exchange,
            timings=config.timings(speed),
            network_volumes=config.network_volumes,
            containers=self._pods or NoPodContainers(),
        )
        self.market.registries.private = config.private_images
        if config.churn:
            Churn(self.market, config.seed)
        self._stopping = asyncio.Event()

    def add_routes(self, app: web.Application) -> None:
        """Raises ``UserError`` without graphql-core."""
        try:
            from autopilot_lab.sandbox.runpod.graphql_api import GraphqlApi
        except ModuleNotFoundError as error:
            if error.name != "graphql":
                raise
            raise UserError("the sandbox needs graphql-core, which is not installed", hint=lab_hint()) from None
        config, requests, account = self._config, Counter[str](), Customer()
        faults = Faults(config.seed)
        shared = (self.market, account, self._host, faults, self._authorise, requests, self._stopping)
        app.router.add_post("/graphql", GraphqlApi(*shared).handle)
        RestApi(*shared, enforce_rate_limits=config.enforce_rate_limits, billing_lag_s=config.billing_lag_s).add_routes(
            app
        )
        RunpodControl(self.market, self._host, faults, requests, config.billing_lag_s).add_routes(app)

    def synchronise(self, now: datetime) -> None:
        self.market.advance_to(now)
        if self._pods is None:
            return
        for pod in self.market.live():
            for line in self._pods.new_lines(pod.id) if pod.boots else ():
                pod.write_log(now, "container", line)
        for ended in self._pods.exits():
            self.market.container_exited(ended.key, ended.boot, ended.code)

    async def settle(self) -> None:
        """Wait until processes have followed the market."""
        if self._pods is not None:
            await self._pods.settle()

    def stop(self) -> None:
        """Let go of the calls that hang or stream."""
        self._stopping.set()

    async def close(self) -> None:
        if self._pods is not None:
            await self._pods.close()

    def _authorise(self, key: str, team: str | None) -> Caller | None:
        if key in self._config.keys:
            return Caller(team=team)
        is_good = "own-key-destroys" not in self.market.broken
        pod = next((pod for pod in self.market.live() if is_good and pod.api_key == key), None)
        return None if pod is None else Caller(team=team, pod_id=pod.id)

    def environment(self, pod: Pod) -> dict[str, str]:
        """What the provider sets in a container, and where the pod finds its market."""
        machine = self.market.machines[pod.machine_id]
        spec = machine.spec
        environment = {
            "RUNPOD_POD_ID": pod.id[::-1] if "own-id" in self.market.broken else pod.id,
            "RUNPOD_API_KEY": pod.api_key,
            "RUNPOD_DC_ID": spec.data_center_id or "",
            "RUNPOD_POD_HOSTNAME": f"{pod.id}-{spec.machine_id[:8]}",
            "RUNPOD_GPU_COUNT": str(pod.gpu_count),
            "RUNPOD_CPU_COUNT": str(spec.vcpus_per_gpu * pod.gpu_count),
            "RUNPOD_MEM_GB": str(spec.memory_gb_per_gpu * pod.gpu_count),
            "RUNPOD_PUBLIC_IP": BOX_ADDRESS if spec.public_ip else "",
            "CUDA_VERSION": spec.cuda_version,
            "AUTOPILOT_PROVIDER_URL": self.base_url,
        }
        for private, public, kind, _ in open_ports(machine, pod):
            if kind == "tcp" and "one-port-in-and-out" not in self.market.broken:
                environment[f"RUNPOD_TCP_PORT_{private}"] = str(public)
        if pod.order.network_volume_id is not None:
            environment["RUNPOD_VOLUME_ID"] = pod.order.network_volume_id
        return environment
