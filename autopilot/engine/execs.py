"""Commands that a user has a machine run beside its job: asked for in its orders, answered in an object of its own.

They live in memory only: if the daemon dies, they are lost, and the client only sees the request break off.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from autopilot.domain.errors import UserError
from autopilot.mailbox.exec_answers import MAX_ANSWER_BYTES, ExecAnswer, parse_exec_answer
from autopilot.mailbox.keys import exec_key
from autopilot.mailbox.order_shapes import ExecOrder
from autopilot.mailbox.orders import URL_VALID_FOR
from autopilot.ports.blobs import BlobStore, BlobUnavailable

log = structlog.get_logger(__name__)

FETCH_WITHIN_S = 75.0
"""Real seconds beyond the command's own time: an agent looks at its orders every 15 s, between uploads of output."""
LOOK_EVERY_S = 0.5
TRY_AGAIN = "its machine may be paused, or cut off: autopilot show says what is known of it"


class ExecBusy(UserError):
    """Another command of that job is under way."""


class NoAnswer(UserError):
    """The machine did not answer, or its answer cannot be read. Whether it ran the command is not known."""


@dataclass(eq=False, slots=True)
class _Call:
    lease_id: str
    order: ExecOrder
    is_dropped: bool = False
    """Its machine is given up."""


class Execs:
    """``write``: rewrites the orders of that lease at once; raises ``BlobUnavailable``, ``UserError``.

    ``count``: so many bytes of that lease were taken and are deleted again.
    """

    def __init__(
        self, blobs: BlobStore, write: Callable[[str], Awaitable[None]], count: Callable[[str, int], None]
    ) -> None:
        self._blobs = blobs
        self._write = write
        self._count = count
        self._calls: dict[str, _Call] = {}
        self._closing = asyncio.Event()
        self.fetch_within_s = FETCH_WITHIN_S

    def of(self, lease_id: str) -> ExecOrder | None:
        """What the orders of that lease ask for."""
        calls = (call for call in self._calls.values() if call.lease_id == lease_id and not call.is_dropped)
        return next((call.order for call in calls), None)

    async def call(self, job_id: str, lease_id: str, call_id: str, command: str, timeout_s: int) -> ExecAnswer:
        """Have the machine run the command; ``timeout_s`` are real seconds.

        Raises ``ExecBusy``, ``NoAnswer``, ``UserError``, ``BlobUnavailable``.
        """
        if job_id in self._calls:
            raise ExecBusy("another command of this job is under way", hint="wait until it has ended, then try again")
        key = exec_key(job_id, lease_id, call_id)
        url = self._blobs.sign_put(key, URL_VALID_FOR, MAX_ANSWER_BYTES)
        call = self._calls[job_id] = _Call(lease_id, ExecOrder(call_id, command, timeout_s, int(time.time()), url))
        try:
            await self._write(lease_id)
            data = await self._wait(call, key, timeout_s + self.fetch_within_s)
        finally:
            del self._calls[job_id]
            await self._clear(lease_id, key)
        self._count(lease_id, len(data))
        answer = parse_exec_answer(data, call_id)
        if answer is None:
            raise NoAnswer("the machine's answer cannot be read", hint="the command may have run")
        return answer

    def forget(self, lease_ids: frozenset[str]) -> None:
        """Calls to leases other than these get no answer any more."""
        for call in self._calls.values():
            call.is_dropped |= call.lease_id not in lease_ids

    def drop(self, lease_id: str) -> None:
        """The machine is another task's now: what was asked of the one before gets no answer."""
        for call in self._calls.values():
            call.is_dropped |= call.lease_id == lease_id

    def close(self) -> None:
        """End all waits with an error: the daemon is stopping."""
        self._closing.set()

    async def _wait(self, call: _Call, key: str, within_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while loop.time() < until and not self._closing.is_set():
            with contextlib.suppress(BlobUnavailable):
                data = await self._blobs.get(key, MAX_ANSWER_BYTES + 1)
                if data is not None:
                    return data
            if call.is_dropped:
                raise NoAnswer("the machine was released before it answered", hint="the command may have run")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_EVERY_S)
        if self._closing.is_set():
            raise NoAnswer("the daemon is shutting down", hint="the command may still run")
        raise NoAnswer(f"the machine did not answer within {within_s:.0f} s", hint=TRY_AGAIN)

    async def _clear(self, lease_id: str, key: str) -> None:
        try:
            await self._write(lease_id)
            await self._blobs.delete([key])
        except (BlobUnavailable, UserError) as problem:  # the next tick's orders do not ask for it either
            log.warning("exec.not_cleared", lease=lease_id, reason=str(problem))
