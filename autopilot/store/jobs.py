"""Jobs with what belongs to them, and their checkpoints: the newest one is a job's ``checkpoint``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, func, or_, select

from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import SPEND_TYPES
from autopilot.domain.money import ZERO
from autopilot.store.leases import LIVE, LeaseStatements
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import checkpoints, jobs, leases, ledger_entries

_MIN_PREFIX_LENGTH = 6
_OPEN = [status for status in JobStatus if not status.is_final]


class JobStatements(LeaseStatements):
    async def save(self, job: Job) -> None:
        await self._upsert(jobs, [values_of(jobs, job, name=job.spec.name)])
        await self._save_leases(job.leases)

    async def job(self, reference: str) -> Job | None:
        by_id = await self._jobs(select(jobs).where(jobs.c.id == reference))
        if by_id:
            return by_id[0]
        if len(reference) >= _MIN_PREFIX_LENGTH:
            prefix = func.substr(jobs.c.id, 1, len(reference))
            by_prefix = await self._jobs(select(jobs).where(prefix == reference).limit(2))
            if len(by_prefix) == 1:
                return by_prefix[0]
        newest = select(jobs).where(jobs.c.name == reference).order_by(jobs.c.submitted_at.desc(), jobs.c.id.desc())
        by_name = await self._jobs(newest.limit(1))
        return by_name[0] if by_name else None

    async def open_jobs(self) -> tuple[Job, ...]:
        holding = select(leases.c.job_id).where(leases.c.state.in_(LIVE))
        chosen = select(jobs).where(or_(jobs.c.status.in_(_OPEN), jobs.c.id.in_(holding)))
        return await self._jobs(chosen.order_by(jobs.c.submitted_at, jobs.c.id))

    async def jobs(self, *, limit: int) -> tuple[Job, ...]:
        return await self._jobs(select(jobs).order_by(jobs.c.submitted_at.desc(), jobs.c.id.desc()).limit(limit))

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._append(checkpoints, [values_of(checkpoints, checkpoint)])

    async def checkpoints_of(self, job_id: str) -> tuple[Checkpoint, ...]:
        return tuple(reversed(await self._checkpoints([job_id])))

    async def remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        is_it = (checkpoints.c.lease_id == checkpoint.lease_id) & (checkpoints.c.number == checkpoint.number)
        await self._run(delete(checkpoints).where(is_it))

    async def _jobs(self, chosen: Any) -> tuple[Job, ...]:
        """Five queries, however many jobs."""
        rows = await self._all(chosen)
        if not rows:
            return ()
        ids: list[str] = [row[0] for row in rows]
        held: dict[str | None, list[Lease]] = defaultdict(list)
        for lease in await self._leases(leases.c.job_id.in_(ids), leases.c.state.in_(LIVE)):
            held[lease.job_id].append(lease)
        newest = {checkpoint.job_id: checkpoint for checkpoint in await self._checkpoints(ids)}
        spent = await self._spent(ids)
        return tuple(
            record_of(
                Job,
                jobs,
                row,
                leases=tuple(held[row[0]]),
                checkpoint=newest.get(row[0]),
                spent=spent.get(row[0], ZERO),
            )
            for row in rows
        )

    async def _checkpoints(self, job_ids: Sequence[str]) -> list[Checkpoint]:
        """Oldest first."""
        chosen = select(checkpoints).where(checkpoints.c.job_id.in_(job_ids))
        found = [record_of(Checkpoint, checkpoints, row) for row in await self._all(chosen)]
        return sorted(found, key=lambda checkpoint: (checkpoint.order, checkpoint.verified_at))

    async def _spent(self, job_ids: Sequence[str]) -> dict[str, Decimal]:
        entry = ledger_entries.c
        spend = select(entry.job_id, func.sum(entry.amount)).where(
            entry.job_id.in_(job_ids), entry.type.in_(SPEND_TYPES)
        )
        return {job_id: amount for job_id, amount in await self._all(spend.group_by(entry.job_id))}
