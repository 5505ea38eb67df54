"""What the ledger has of the floors that the settings watch, for ``autopilot doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.domain import gpu_names
from autopilot.domain.job import GpuChoice
from autopilot.domain.prices import PRICES_EVERY
from autopilot.domain.time import show_duration
from autopilot.engine.auctions import LEARN_FROM, LEAST_RECORDED
from autopilot.ports.store import UnitOfWork

STALE = timedelta(hours=2)
"""Where many are watched the turn of one comes every hour or so."""


@dataclass(frozen=True, slots=True)
class Watched:
    gpu: GpuChoice
    recorded: timedelta
    """Recorded in the last week: the time with any data, on any market."""
    last_at: datetime | None

    def is_recorded(self, now: datetime) -> bool:
        return self.last_at is not None and now - self.last_at < STALE

    def tell(self, now: datetime) -> str:
        if self.last_at is None:
            return "no floor is recorded yet"
        bids = "first jobs bid by them" if self.recorded >= LEAST_RECORDED else "first jobs bid by them from 4 h on"
        age = show_duration(now - self.last_at)
        return f"{show_duration(self.recorded)} of floors in the last week, the newest {age} old; {bids}"


async def read_watched(uow: UnitOfWork, gpu: GpuChoice, now: datetime) -> Watched:
    sums = [
        each
        for each in await uow.prices.sum_by_step(
            gpu_names.recorded_as(gpu.name), now - LEARN_FROM, now, steps=LEARN_FROM // PRICES_EVERY
        )
        if each.num_gpus == gpu.count and each.floors
    ]
    steps = len({each.step for each in sums})
    return Watched(gpu, steps * PRICES_EVERY, max((each.last_at for each in sums), default=None))
