"""Tables that decisions read, one for each job, made in threads so that the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

S = TypeVar("S", bound=Hashable)


class Tables(Generic[S]):
    """Tables of one kind, each with its shape as key. A job keeps the table it has until a better one is ready."""

    def __init__(self, make: Callable[[S], object], serves: Callable[[S, S], bool], most: int) -> None:
        """``make`` keeps what it makes. ``serves``: whether a table of the first shape will do for the second.

        ``most``: so many at once; jobs beyond that are decided without one.
        """
        self._make = make
        self._serves = serves
        self._most = most
        self._shapes: dict[str, S] = {}
        """By job: the one in use."""
        self._wanted: dict[str, S] = {}
        """By job: the one that is to take its place."""
        self._made: set[S] = set()
        self._making: dict[S, asyncio.Task[None]] = {}

    def of(self, job_id: str) -> S | None:
        """The shape of the job's table, if it has one that is ready."""
        wanted = self._wanted.get(job_id)
        if wanted in self._made:
            assert wanted is not None
            self._shapes[job_id] = wanted
            del self._wanted[job_id]
        return self._shapes.get(job_id)

    def knows(self, job_id: str) -> bool:
        """Whether the job has a table, or is to have one."""
        return job_id in self._shapes or job_id in self._wanted

    def want(self, job_id: str, shape: S) -> None:
        """See to it that the job has a table that serves for this shape."""
        present = self.of(job_id)
        if present is not None and self._serves(present, shape):
            self._wanted.pop(job_id, None)
            return
        at_hand = (*self._made, *self._making)
        near = next((other for other in at_hand if self._serves(other, shape)), None)
        if near is None:
            self._drop_unused()
            if len(self._made) + len(self._making) >= self._most:
                log.warning("table.refused", tables=len(self._made), consequence="the job is decided without one")
                return
            near = shape
            self._making[shape] = asyncio.create_task(self._begin(shape))
        self._wanted[job_id] = near

    def forget(self, open_jobs: Collection[str]) -> None:
        """Keep nothing of jobs that are over."""
        for job_id in self._shapes.keys() | self._wanted.keys():
            if job_id not in open_jobs:
                self._shapes.pop(job_id, None)
                self._wanted.pop(job_id, None)
        self._drop_unused()

    async def close(self) -> None:
        """Wait for the tables that are being made: a thread cannot be cancelled."""
        await asyncio.gather(*self._making.values(), return_exceptions=True)

    def _drop_unused(self) -> None:
        self._made &= {*self._shapes.values(), *self._wanted.values()}

    async def _begin(self, shape: S) -> None:
        try:
            await asyncio.to_thread(self._make, shape)
            self._made.add(shape)
        except Exception:
            log.exception("table.failed")
        finally:
            del self._making[shape]
