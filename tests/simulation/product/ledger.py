"""The daemon's ledger in the simulated world: what is committed outlives a kill, what is not does not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autopilot.ports.store import CommitUnknown, StoreUnavailable
from autopilot_lab.memory_store.store import MemoryStore
from autopilot_lab.memory_store.tables import Committed, MemoryTables
from autopilot_lab.memory_store.unit_of_work import MemoryUnitOfWork
from tests.simulation.ground.ground import Ground

LEDGER = "ledger"
"""What bursts call it."""


class SimulatedLedger(MemoryStore):
    """The memory store, which takes its time, fails as a disk does, and shows each commit to the checkers."""

    def __init__(self, ground: Ground, committed: Committed, rng: random.Random) -> None:
        super().__init__()
        self._committed = committed
        self._ground = ground
        self._rng = rng

    def reopen(self) -> SimulatedLedger:
        """What the next process finds."""
        self._is_open = False
        return SimulatedLedger(self._ground, self._committed, self._rng)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryUnitOfWork]:
        async with super().transaction() as work:
            yield work
            await self._take_time()
        await self._take_time()

    async def _take_time(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0005, 0.01))

    def _commit(self, tables: MemoryTables) -> None:
        ground = self._ground
        if not any(rows.changes for rows in tables.all()):
            return
        if ground.faults.bursts("G1", LEDGER, ground.now_s):
            raise StoreUnavailable("the ledger is unavailable: the disk is full")
        is_kept = True
        is_unknown = ground.faults.hits("G2")
        if is_unknown:
            is_kept = self._rng.random() < 0.5
        if is_kept:
            ground.check.commit(tables)
            super()._commit(tables)
            ground.version += 1
            ground.trace("committed")
        if is_unknown:
            raise CommitUnknown("the connection was lost during a commit, whose outcome is unknown")
