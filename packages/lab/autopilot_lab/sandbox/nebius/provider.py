"""Nebius as one part of the sandbox: its market, processes, gRPC services and control API."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from pathlib import Path

import grpc
from aiohttp import web

from autopilot.domain.errors import UserError
from autopilot_lab.sandbox.faults import Faults
from autopilot_lab.sandbox.nebius.api import NebiusApi
from autopilot_lab.sandbox.nebius.catalogue import default_catalogue
from autopilot_lab.sandbox.nebius.churn import Churn
from autopilot_lab.sandbox.nebius.config import NebiusConfig
from autopilot_lab.sandbox.nebius.containers import LocalMachines
from autopilot_lab.sandbox.nebius.control import NebiusControl
from autopilot_lab.sandbox.nebius.lifecycle import NoMachines, Timings
from autopilot_lab.sandbox.nebius.market import NebiusMarket
from autopilot_lab.sandbox.wire import Host

_GRACE_REAL_S = 1.0
"""Real seconds that a process gets at least, however fast the market's clock runs."""


class NebiusSandbox:
    """``state_dir`` ``None``: machines run no processes. ``speed``: market seconds per real second."""

    def __init__(self, config: NebiusConfig, host: Host, now: datetime, speed: float, state_dir: Path | None) -> None:
        self._config = config
        self._host = host
        self._machines = None if state_dir is None else LocalMachines(state_dir, speed, config.private_images)
        grace_s = max(Timings().grace_s, _GRACE_REAL_S * speed)
        self.market = NebiusMarket(
            config.pools if config.pools is not None else default_catalogue(config.seed),
            now,
            seed=config.seed,
            timings=Timings(start_s=config.start_s, grace_s=grace_s),
            machines=self._machines or NoMachines(),
        )
        self.market.has_strangers = config.strangers
        if config.churn:
            Churn(self.market, config.seed)
        self._faults = Faults(config.seed)
        self._requests = Counter[str]()
        self._stopping = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """As ``base_url`` of the market's settings."""
        return f"grpc://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen. Raises ``UserError`` when the port is in use."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        api = NebiusApi(
            self.market,
            self._host,
            self._faults,
            self._requests,
            self._stopping,
            keys=self._config.keys,
            page_rows=self._config.page_rows,
        )
        server.add_generic_rpc_handlers((api,))
        try:
            self._port = server.add_insecure_port(f"127.0.0.1:{self._config.port}")
        except RuntimeError:
            raise UserError(
                f"cannot listen on 127.0.0.1:{self._config.port} for Nebius", hint="choose another port"
            ) from None
        await server.start()
        self._server = server

    def add_routes(self, app: web.Application) -> None:
        NebiusControl(self.market, self._host, self._faults, self._requests, lambda: self.address).add_routes(app)

    def synchronise(self, now: datetime) -> None:
        self.market.advance_to(now)
        for ended in self._machines.take_ended() if self._machines is not None else ():
            vm = self.market.vms.get(ended.key)
            if vm is not None and not vm.is_gone and vm.boots == ended.boot:
                self.market.lifecycle.switched_off(vm)

    async def settle(self) -> None:
        """Wait until processes have followed the market."""
        if self._machines is not None:
            await self._machines.settle()

    async def stop(self) -> None:
        """Let go of the calls that hang, and close the services."""
        self._stopping.set()
        if self._server is not None:
            await self._server.stop(0.2)
            self._server = None

    async def close(self) -> None:
        if self._machines is not None:
            await self._machines.close()
