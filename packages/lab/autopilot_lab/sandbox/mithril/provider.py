"""Mithril as one part of the sandbox: its market, processes, HTTP surface and control API."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults
from autopilot_lab.sandbox.mithril.api import MOST_PAGE_ROWS, MithrilApi
from autopilot_lab.sandbox.mithril.bids import Bid
from autopilot_lab.sandbox.mithril.catalogue import default_catalogue
from autopilot_lab.sandbox.mithril.churn import Churn
from autopilot_lab.sandbox.mithril.containers import LocalMachines
from autopilot_lab.sandbox.mithril.control import MithrilControl
from autopilot_lab.sandbox.mithril.lifecycle import NoMachines, Timings
from autopilot_lab.sandbox.mithril.market import MithrilMarket
from autopilot_lab.sandbox.mithril.pools import AuctionPoolSpec
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.wire import Host

_GRACE_REAL_S = 1.0
"""Real seconds that a process gets at least, however fast the market's clock runs."""


@dataclass(frozen=True)
class MithrilConfig:
    """Everything that shapes the Mithril part. Durations are market seconds."""

    keys: tuple[str, ...] = ("mithril-sandbox-key",)
    seed: int = 1
    private_images: tuple[PrivateImage, ...] = ()
    pools: tuple[AuctionPoolSpec, ...] | None = None
    churn: bool = False
    start_s: float = 60.0
    restart_s: float = 40.0
    page_rows: int = MOST_PAGE_ROWS
    list_lag_s: float = 0.0
    ended_by_others: int | None = 0

    def timings(self, speed: float) -> Timings:
        grace_s = max(Timings().grace_s, _GRACE_REAL_S * speed)
        return Timings(start_s=self.start_s, restart_s=self.restart_s, grace_s=grace_s)


class MithrilSandbox:
    """``state_dir`` ``None``: machines run no processes. ``speed``: market seconds per real second."""

    def __init__(self, config: MithrilConfig, host: Host, now: datetime, speed: float, state_dir: Path | None) -> None:
        self._config = config
        self._host = host
        self._machines = None
        if state_dir is not None:
            self._machines = LocalMachines(state_dir, speed, config.private_images, self._num_gpus)
        self.market = MithrilMarket(
            config.pools if config.pools is not None else default_catalogue(config.seed),
            now,
            seed=config.seed,
            timings=config.timings(speed),
            machines=self._machines or NoMachines(),
        )
        self.market.ended_by_others = config.ended_by_others
        if config.churn:
            Churn(self.market, config.seed)
        self._stopping = asyncio.Event()

    def add_routes(self, app: web.Application) -> None:
        config, requests, faults = self._config, Counter[str](), Faults(self._config.seed)
        MithrilApi(
            self.market,
            self._host,
            faults,
            requests,
            self._stopping,
            keys=config.keys,
            page_rows=config.page_rows,
            list_lag_s=config.list_lag_s,
        ).add_routes(app)
        MithrilControl(self.market, self._host, faults, requests).add_routes(app)

    def synchronise(self, now: datetime) -> None:
        self.market.advance_to(now)

    async def settle(self) -> None:
        """Wait until processes have followed the market."""
        if self._machines is not None:
            await self._machines.settle()

    def stop(self) -> None:
        """Let go of the calls that hang."""
        self._stopping.set()

    async def close(self) -> None:
        if self._machines is not None:
            await self._machines.close()

    def _num_gpus(self, bid: Bid) -> int:
        return self.market.pool_of(bid).spec.type.num_gpus
