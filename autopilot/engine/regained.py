"""Which parked jobs may find room again: a bill has given money back since, or a limit was raised."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.money import CENT, ZERO
from autopilot.domain.reasons import Reason
from autopilot.policy.guard import Limits
from autopilot.policy.unpaid import LIMIT_REASONS
from autopilot.ports.store import UnitOfWork

LIMITS_NOTE = "limits"
"""The account's limits on dollars as the last daemon had them, and since when they are no lower."""


class Regained:
    def __init__(self, limits: Limits) -> None:
        self._limits = {"day": limits.day, "month": limits.month}
        self._raised_at: datetime | None = None
        self._is_known = False
        self._unwritten: str | None = None

    async def find(self, uow: UnitOfWork, jobs: Iterable[Job], now: datetime) -> frozenset[str]:
        """The ids of those parked for want of money since whose parking some came back, a cent at least."""
        await self._compare_limits(uow, now)
        return frozenset([job.id for job in jobs if await self._has_room(uow, job, now)])

    async def note_limits(self, uow: UnitOfWork) -> None:
        """Keep the limits for the next daemon to compare its own with."""
        if self._unwritten is not None:
            await uow.notes.set(LIMITS_NOTE, self._unwritten)
            self._unwritten = None

    async def _has_room(self, uow: UnitOfWork, job: Job, now: datetime) -> bool:
        if job.status is not JobStatus.PARKED or job.parked_at is None:
            return False
        if job.reason is Reason.BUDGET_EXHAUSTED:
            return await uow.ledger.sum_corrections(job.parked_at, job_id=job.id) <= -CENT
        if job.reason not in LIMIT_REASONS:
            return False
        if self._raised_at is not None and self._raised_at >= job.parked_at:
            return True
        first = now.date().replace(day=1)
        return await uow.ledger.sum_corrections(job.parked_at, from_day=first) <= -CENT

    async def _compare_limits(self, uow: UnitOfWork, now: datetime) -> None:
        """Once: they change only when a daemon starts."""
        if self._is_known:
            return
        text = await uow.notes.get(LIMITS_NOTE)
        before = json.loads(text) if text else {}
        if raised_at := before.get("raised_at"):
            self._raised_at = datetime.fromisoformat(raised_at)
        if any(name in before and _is_more(limit, before[name]) for name, limit in self._limits.items()):
            self._raised_at = now
        shown = {name: None if limit is None else str(limit) for name, limit in self._limits.items()}
        raised = None if self._raised_at is None else self._raised_at.isoformat()
        new = json.dumps(shown | {"raised_at": raised})
        self._unwritten = new if new != text else None
        self._is_known = True


def _is_more(limit: Decimal | None, before: str | None) -> bool:
    """None: no limit."""
    if before is None:
        return False
    return limit is None or limit - Decimal(before) > ZERO
