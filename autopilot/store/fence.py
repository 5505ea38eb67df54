"""Fencing: a transaction of a daemon that no longer leads must not write, however late it wakes up.

The row of ``leader`` holds the leader's epoch; taking the ledger over raises it. A write transaction reads the row and
keeps it from being raised until it has ended, so that either it commits before the takeover or not at all.
"""

from __future__ import annotations

import asyncio

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.ports.store import LeadershipLost
from autopilot.store.schema import leader


class Fence:
    """``lost`` is set, for good, when the ledger turns out to be another's."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.lost = asyncio.Event()

    async def check(self, connection: AsyncConnection) -> None:
        """Raises ``LeadershipLost``."""
        self._compare(await connection.scalar(select(leader.c.epoch)))

    async def check_and_hold(self, connection: AsyncConnection) -> None:
        """The same, and no other daemon takes the ledger before this transaction has ended."""
        self._compare(await connection.scalar(select(leader.c.epoch).with_for_update(read=True)))

    def _compare(self, epoch: int | None) -> None:
        if epoch == self.epoch and not self.lost.is_set():
            return
        self.lost.set()
        raise LeadershipLost(f"another daemon leads this ledger now (epoch {epoch}, ours was {self.epoch})")
