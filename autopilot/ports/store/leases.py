"""Leases: what was rented or asked for, with the spans in which it ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason


class Leases(Protocol):
    """Every list is oldest first unless it says otherwise."""

    async def save(self, lease: Lease) -> None:
        """Insert or update the lease and its spans."""
        ...

    async def get(self, lease_id: str) -> Lease | None: ...

    async def search(self, reference: str) -> tuple[Lease, ...]:
        """By id, by the market's id of the instance (which two markets may share), or by label; newest first."""
        ...

    async def list_by_job(self, job_id: str) -> tuple[Lease, ...]:
        """All leases that the job ever had."""
        ...

    async def list_by_jobs(self, job_ids: Collection[str]) -> tuple[Lease, ...]:
        """All that these jobs ever had."""
        ...

    async def list_by_label(self, labels: Collection[str]) -> tuple[Lease, ...]:
        """In any state."""
        ...

    async def list_orphans(self) -> tuple[Lease, ...]:
        """Leases without a job that are not over."""
        ...

    async def list_unsettled(self) -> tuple[Lease, ...]:
        """Over and not yet settled against the market's charges: GONE and once rented, or ``may_be_billed``."""
        ...

    async def list_unresolved(self, intended_since: datetime) -> tuple[Lease, ...]:
        """Leases given up without their create's outcome ever being known, intended since then."""
        ...

    async def list_to_reconcile(self, gone_since: datetime) -> tuple[Lease, ...]:
        """Leases that have or had an instance, and are not over or were gone since then."""
        ...

    async def list_spot(self, intended_since: datetime) -> tuple[Lease, ...]:
        """Spot leases that were rented, intended since then."""
        ...

    async def list_ended(self, reasons: Collection[Reason], ended_since: datetime) -> tuple[Lease, ...]:
        """Leases that are not wanted any more, for one of the reasons, with an ``end_asked_at`` since then."""
        ...

    async def count_launches(self, since: datetime) -> Mapping[str | None, LaunchCount]:
        """Leases intended since then, by job id."""
        ...
