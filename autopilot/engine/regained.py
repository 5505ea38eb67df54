"""Which parked jobs may find room again: a bill has given money back since, or a limit or their budget was raised."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.money import CENT, ZERO, Number
from autopilot.domain.reasons import Reason
from autopilot.policy.guard import Limits
from autopilot.policy.unpaid import LIMIT_REASONS
from autopilot.ports.store import EventRecord, UnitOfWork

LIMITS_NOTE = "limits"
"""The account's limits on dollars as the last daemon had them, and since when they are no lower."""
_Parked = tuple[datetime | None, Decimal | None]
"""When a job was parked, and its budget now."""


class Regained:
    def __init__(self, limits: Limits) -> None:
        self._limits = {"day": limits.day, "month": limits.month}
        self._raised_at: datetime | None = None
        self._is_known = False
        self._unwritten: str | None = None
        self._raised: dict[str, tuple[_Parked, bool]] = {}
        """By job: whether its budget is higher than when it was parked; its events are read when either changes."""

    async def find(self, uow: UnitOfWork, jobs: Iterable[Job], now: datetime) -> frozenset[str]:
        """The ids of those parked for want of money that got some since: a cent at least, a higher limit or budget.

        ``jobs``: all that are open.
        """
        await self._compare_limits(uow, now)
        jobs = tuple(jobs)
        self._raised = {job.id: self._raised[job.id] for job in jobs if job.id in self._raised}
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
            is_raised = await self._is_budget_raised(uow, job)
            return is_raised or await uow.ledger.sum_corrections(job.parked_at, job_id=job.id) <= -CENT
        if job.reason not in LIMIT_REASONS:
            return False
        if self._raised_at is not None and self._raised_at >= job.parked_at:
            return True
        first = now.date().replace(day=1)
        return await uow.ledger.sum_corrections(job.parked_at, from_day=first) <= -CENT

    async def _is_budget_raised(self, uow: UnitOfWork, job: Job) -> bool:
        """By its owner, since it was parked. Once it has gone on and is parked again, that takes another raise."""
        parked = job.parked_at, job.spec.budget
        known = self._raised.get(job.id)
        if known is None or known[0] != parked:
            changes = _budget_changes(await uow.events.list_by_job(job.id))
            is_raised = bool(changes) and _is_more(job.spec.budget, None if changes[0] is None else str(changes[0]))
            known = self._raised[job.id] = parked, is_raised
        return known[1]

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


def _budget_changes(records: Sequence[EventRecord]) -> list[Number]:
    """The budgets that were changed since the job was last parked, oldest first."""
    last_parked = max((i for i, record in enumerate(records) if record.name == "job.parked"), default=len(records))
    changed = (dict(record.fields) for record in records[last_parked:] if record.name == "job.changed")
    return [fields["from"] for fields in changed if fields["key"] == "budget"]


def _is_more(limit: Decimal | None, before: str | None) -> bool:
    """None: no limit."""
    if before is None:
        return False
    return limit is None or limit - Decimal(before) > ZERO
