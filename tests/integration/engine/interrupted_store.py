"""A real store, cut off at one chosen transaction: by a kill of the daemon, or by a disk that fails for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

from autopilot.ports.store import Store, StoreUnavailable, UnitOfWork

Moment = Literal["before", "after"]
"""Of the commit."""


class Killed(BaseException):
    """The process is no more. Not an ``Exception``: nothing may catch it and go on."""


class InterruptedStore:
    """Counts transactions. After ``kill_at`` everything raises ``Killed``; ``is_full`` fails every write."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.transactions = 0
        self.kill_at: int | None = None
        self.moment: Moment = "before"
        self.is_full = False
        self.fail_at: int | None = None
        self._is_dead = False

    @property
    def revision(self) -> int:
        return self._inner.revision

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        self._check_alive()
        self.transactions += 1
        number = self.transactions
        async with self._inner.transaction() as work:
            yield work
            if self.is_full or number == self.fail_at:
                raise StoreUnavailable("the disk is full")
            if number == self.kill_at and self.moment == "before":
                self._die()
        if number == self.kill_at and self.moment == "after":
            self._die()

    def snapshot(self) -> AbstractAsyncContextManager[UnitOfWork]:
        self._check_alive()
        return self._inner.snapshot()

    async def close(self) -> None:
        await self._inner.close()

    def _die(self) -> None:
        self._is_dead = True
        raise Killed

    def _check_alive(self) -> None:
        if self._is_dead:
            raise Killed
