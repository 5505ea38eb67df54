"""Jobs with what belongs to them, leases, checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.store.memory.queries import Queries
from autopilot.store.memory.tables import Tables, hour_of

Row = TypeVar("Row")

_MIN_PREFIX_LENGTH = 6


class JobQueries(Queries):
    async def save(self, job: Job) -> None:
        with self._writing() as tables:
            tables.put_job(job)
            # Those that give up their slot go first.
            for lease in sorted(job.leases, key=lambda lease: lease.is_wanted):
                tables.put_lease(lease)

    async def save_lease(self, lease: Lease) -> None:
        with self._writing() as tables:
            tables.put_lease(lease)

    async def job(self, reference: str) -> Job | None:
        tables = self._reading()
        by_id = tables.jobs.get(reference)
        if by_id is not None:
            return _whole(tables, by_id)
        if len(reference) >= _MIN_PREFIX_LENGTH:
            by_prefix = [job for job in tables.jobs.values() if job.id.startswith(reference)]
            if len(by_prefix) == 1:
                return _whole(tables, by_prefix[0])
        named = [job for job in tables.jobs.values() if job.spec.name == reference]
        return _whole(tables, max(named, key=_age_order)) if named else None

    async def open_jobs(self) -> tuple[Job, ...]:
        tables = self._reading()
        holding = {_known(tables.leases.get(id)).job_id for id in tables.live_leases}
        chosen = {*tables.open_jobs, *(job_id for job_id in holding if job_id is not None)}
        jobs = [job for job in map(tables.jobs.get, chosen) if job is not None]
        return tuple(_whole(tables, job) for job in sorted(jobs, key=_age_order))

    async def jobs(self, *, limit: int) -> tuple[Job, ...]:
        tables = self._reading()
        newest = sorted(tables.jobs.values(), key=_age_order, reverse=True)[:limit]
        return tuple(_whole(tables, job) for job in newest)

    async def lease(self, lease_id: str) -> Lease | None:
        return self._reading().leases.get(lease_id)

    async def leases_of(self, job_id: str) -> tuple[Lease, ...]:
        tables = self._reading()
        return _leases(tables, tables.leases_by_job.get(job_id) or ())

    async def leases_labelled(self, labels: Collection[str]) -> tuple[Lease, ...]:
        tables = self._reading()
        return _leases(tables, (id for label in set(labels) for id in tables.leases_by_label.get(label) or ()))

    async def orphan_leases(self) -> tuple[Lease, ...]:
        tables = self._reading()
        return tuple(lease for lease in _leases(tables, tables.live_leases) if lease.job_id is None)

    async def unsettled_leases(self) -> tuple[Lease, ...]:
        tables = self._reading()
        return _leases(tables, tables.unsettled)

    async def spot_leases_since(self, at: datetime) -> tuple[Lease, ...]:
        tables = self._reading()
        found = (lease for lease in _leases(tables, [lease.id for lease in tables.leases.values()]) if lease.is_spot)
        return tuple(lease for lease in found if lease.intended_at >= at and lease.instance_id is not None)

    async def launches_since(self, at: datetime) -> Mapping[str | None, int]:
        tables = self._reading()
        first = hour_of(at)
        hours = [hour for hour in tables.launches if hour >= first]
        ids = (id for hour in hours for id in tables.launches.get(hour) or ())
        launched = (_known(tables.leases.get(id)) for id in ids)
        return dict(Counter(lease.job_id for lease in launched if lease.intended_at >= at))

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._writing() as tables:
            tables.put_checkpoint(checkpoint)

    async def checkpoints_of(self, job_id: str) -> tuple[Checkpoint, ...]:
        return tuple(reversed(_checkpoints(self._reading(), job_id)))

    async def remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._writing() as tables:
            tables.remove_checkpoint(checkpoint)


def _whole(tables: Tables, job: Job) -> Job:
    """The job with the leases that are not over, its newest checkpoint and what it spent."""
    held = (id for id in tables.leases_by_job.get(job.id) or () if tables.live_leases.get(id))
    checkpoints = _checkpoints(tables, job.id)
    return replace(
        job,
        leases=_leases(tables, held),
        checkpoint=checkpoints[-1] if checkpoints else None,
        spent=tables.spent_by_job.get(job.id) or ZERO,
    )


def _leases(tables: Tables, ids: Iterable[str]) -> tuple[Lease, ...]:
    """Oldest first."""
    found = [_known(tables.leases.get(id)) for id in ids]
    return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))


def _checkpoints(tables: Tables, job_id: str) -> list[Checkpoint]:
    """Oldest first."""
    found = [_known(tables.checkpoints.get(key)) for key in tables.checkpoints_by_job.get(job_id) or ()]
    return sorted(found, key=lambda checkpoint: (checkpoint.order, checkpoint.verified_at))


def _age_order(job: Job) -> tuple[datetime, str]:
    return job.submitted_at, job.id


def _known(row: Row | None) -> Row:
    assert row is not None, "an index names a row that is not there"
    return row
