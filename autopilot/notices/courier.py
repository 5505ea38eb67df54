"""Brings what lies in the outbox to its sinks, beside the tick: at least once, each notice under one id.

A notice leaves the outbox when its sink has taken it. A daemon that is killed between the two sends it once more, as it
does where the answer was lost or bad.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from autopilot.notices.kinds import ENDS_OF_JOBS
from autopilot.notices.message import Sink, SinkFailed, message_of
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import PendingNotice, Store, StoreUnavailable

log = structlog.get_logger(__name__)

TellReceipt = Callable[[str], Awaitable[str]]
"""The receipt of a job, by its id, in one line; empty if it has none."""

FIRST_RETRY = timedelta(seconds=15)
LONGEST_RETRY = timedelta(minutes=15)
DIGEST_FROM = 5
"""So many notices that wait for one sink go as one digest."""
MOST_IN_DIGEST = 50
LOOKED_AT = 4 * MOST_IN_DIGEST
STORE_RETRY = timedelta(seconds=15)
END_WAIT_REAL_S = 5.0
"""How long a stop waits for a sink's answer: one that is not heard is sent again."""


def retry_after(attempts: int) -> timedelta:
    """The pause after so many failures in a row, at least one."""
    return min(FIRST_RETRY * (1 << min(attempts - 1, 10)), LONGEST_RETRY)


class Courier:
    def __init__(
        self,
        store: Store,
        sinks: Mapping[str, Sink],
        clock: Clock,
        ids: Ids,
        scrub: Callable[[str], str],
        tell_receipt: TellReceipt | None = None,
    ) -> None:
        """``scrub``: takes known secrets out of what a sink's failure says. ``tell_receipt``: the line that is added to
        the notice of a job's end; None: none is added."""
        self._tell_receipt = tell_receipt
        self._store = store
        self._sinks = sinks
        self._clock = clock
        self._ids = ids
        self._scrub = scrub
        self._failures = dict.fromkeys(sinks, 0)
        self._paused_until: dict[str, datetime] = {}
        self._news = {name: asyncio.Event() for name in sinks}
        self._is_ending = False

    def wake(self) -> None:
        """There may be something new."""
        for news in self._news.values():
            news.set()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Deliver while the block runs: a task for each sink, so that none waits for another."""
        tasks = [asyncio.create_task(self._serve(name), name=f"notices for {name}") for name in self._sinks]
        try:
            yield
        finally:
            self._is_ending = True
            self.wake()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=END_WAIT_REAL_S)
                for task in late:
                    task.cancel()
                await asyncio.gather(*late, return_exceptions=True)

    async def _serve(self, name: str) -> None:
        while not self._is_ending:
            self._news[name].clear()
            try:
                due_at = await self.deliver(name)
            except StoreUnavailable as problem:
                log.warning("notices.waiting", sink=name, reason=str(problem))
                due_at = self._clock.now() + STORE_RETRY
            except Exception:
                log.exception("notices.failed", sink=name)
                due_at = self._clock.now() + LONGEST_RETRY
            await self._wait(self._news[name], due_at)

    async def _wait(self, news: asyncio.Event, due_at: datetime | None) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(news.wait())]
        if due_at is not None:
            waits.append(asyncio.ensure_future(self._clock.sleep((due_at - self._clock.now()).total_seconds())))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def deliver(self, name: str) -> datetime | None:
        """Send what is due to one sink, message by message, until none is left or one fails.

        Returns when something is due next; None while nothing waits. Raises ``StoreUnavailable``.
        """
        while not self._is_ending and self._may_send(name):
            notices = await self._next(name)
            if not notices:
                break
            await self._send(name, self._sinks[name], notices)
        async with self._store.snapshot() as uow:
            due_at = await uow.notices.next_due(name)
        pause = self._paused_until.get(name)
        return due_at if due_at is None or pause is None else max(due_at, pause)

    def _may_send(self, name: str) -> bool:
        pause = self._paused_until.get(name)
        return pause is None or pause <= self._clock.now()

    async def _next(self, name: str) -> Sequence[PendingNotice]:
        """The notices of the next message; those of a new digest are bound together for every later attempt."""
        now = self._clock.now()
        async with self._store.snapshot() as uow:
            due = await uow.notices.list_due(name, now, limit=LOOKED_AT)
        if not due:
            return ()
        if due[0].digest_id:
            return [notice for notice in due if notice.digest_id == due[0].digest_id]
        alone = [notice for notice in due if not notice.digest_id][:MOST_IN_DIGEST]
        if len(alone) < DIGEST_FROM:
            return alone[:1]
        digest_id = self._ids.new()
        bound = [replace(notice, digest_id=digest_id, due_at=due[0].due_at) for notice in alone]
        async with self._store.transaction() as uow:
            await uow.notices.save(bound)
        return bound

    async def _send(self, name: str, sink: Sink, notices: Sequence[PendingNotice]) -> None:
        try:
            await sink.send(message_of([await self._add_receipt(each) for each in notices]))
        except SinkFailed as problem:
            await self._postpone(name, notices, str(problem))
            return
        except Exception as problem:
            log.exception("notice.sending_failed", sink=name)
            await self._postpone(name, notices, type(problem).__name__)
            return
        self._failures[name] = 0
        self._paused_until.pop(name, None)
        async with self._store.transaction() as uow:
            await uow.notices.remove(notices)
        log.info("notice.delivered", sink=name, notices=[notice.id for notice in notices])

    async def _add_receipt(self, notice: PendingNotice) -> PendingNotice:
        """As it is known when the notice is sent; a receipt that cannot be read delays no notice."""
        if self._tell_receipt is None or notice.job_id is None or notice.kind not in ENDS_OF_JOBS:
            return notice
        try:
            told = await self._tell_receipt(notice.job_id)
        except Exception as problem:
            log.warning("notice.without_receipt", job_id=notice.job_id, reason=type(problem).__name__)
            return notice
        return replace(notice, text=f"{notice.text}\nReceipt: {told}.") if told else notice

    async def _postpone(self, name: str, notices: Sequence[PendingNotice], problem: str) -> None:
        now, attempts = self._clock.now(), notices[0].attempts + 1
        self._failures[name] += 1
        self._paused_until[name] = now + retry_after(self._failures[name])
        due_at = now + retry_after(attempts)
        log.warning(
            "notice.not_delivered",
            sink=name,
            notices=[notice.id for notice in notices],
            attempts=attempts,
            reason=self._scrub(problem),
            again_at=max(due_at, self._paused_until[name]).isoformat(),
        )
        async with self._store.transaction() as uow:
            await uow.notices.save([replace(notice, attempts=attempts, due_at=due_at) for notice in notices])
