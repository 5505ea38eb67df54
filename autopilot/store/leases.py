"""Leases with their spans, and the tasks that used them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import OVER, WANTED, Lease, LeaseState, Span, TaskUse
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import lease_spans, lease_uses, leases
from autopilot.store.statements import SqlRepository

LIVE = sorted(set(LeaseState) - OVER)
UNSETTLED = and_(
    leases.c.settled_at.is_(None),
    or_(
        and_(leases.c.state == LeaseState.GONE, leases.c.instance_id.is_not(None)),
        and_(
            leases.c.state == LeaseState.ABANDONED,
            leases.c.instance_id.is_(None),
            leases.c.create_unknown.is_(True),
            leases.c.unobserved > ZERO,
        ),
    ),
)
"""Over, and its bill not yet final: of a machine that is gone, or of one that may have existed."""


SHARED = select(lease_uses.c.lease_id).where(lease_uses.c.seq > 0)
"""Those that several tasks have used, one after another."""


class SqlLeases(SqlRepository):
    __slots__ = ()

    async def save(self, lease: Lease) -> None:
        await self.save_all((lease,))

    async def get(self, lease_id: str) -> Lease | None:
        return next(iter(await self.select(leases.c.id == lease_id)), None)

    async def search(self, reference: str) -> tuple[Lease, ...]:
        named = or_(*(column == reference for column in (leases.c.id, leases.c.instance_id, leases.c.label)))
        return (await self.select(named))[::-1]

    async def list_by_job(self, job_id: str) -> tuple[Lease, ...]:
        return await self.list_by_jobs((job_id,))

    async def list_by_jobs(self, job_ids: Collection[str]) -> tuple[Lease, ...]:
        return await self.select(are_of(job_ids)) if job_ids else ()

    async def list_by_label(self, labels: Collection[str]) -> tuple[Lease, ...]:
        return await self.select(leases.c.label.in_(labels)) if labels else ()

    async def list_orphans(self) -> tuple[Lease, ...]:
        return await self.select(leases.c.job_id.is_(None), leases.c.state.in_(LIVE))

    async def list_unsettled(self) -> tuple[Lease, ...]:
        return await self.select(UNSETTLED)

    async def list_spot(self, intended_since: datetime) -> tuple[Lease, ...]:
        return await self.select(
            leases.c.intended_at >= intended_since,
            leases.c.capacity_type == CapacityType.SPOT,
            leases.c.instance_id.is_not(None),
        )

    async def list_ended(self, reasons: Collection[Reason], ended_since: datetime) -> tuple[Lease, ...]:
        return await self.select(
            leases.c.reason.in_(reasons),
            leases.c.state.not_in(WANTED),
            func.coalesce(leases.c.destroy_requested_at, leases.c.intended_at) >= ended_since,
        )

    async def list_to_reconcile(self, gone_since: datetime) -> tuple[Lease, ...]:
        still_here = leases.c.state.in_(LIVE)
        gone_lately = and_(leases.c.state == LeaseState.GONE, leases.c.gone_at >= gone_since)
        return await self.select(leases.c.instance_id.is_not(None), or_(still_here, gone_lately))

    async def list_unresolved(self, intended_since: datetime) -> tuple[Lease, ...]:
        return await self.select(
            leases.c.state == LeaseState.ABANDONED,
            leases.c.instance_id.is_(None),
            leases.c.create_unknown.is_(True),
            leases.c.intended_at >= intended_since,
        )

    async def count_launches(self, since: datetime) -> Mapping[str | None, LaunchCount]:
        refused = and_(leases.c.state == LeaseState.ABANDONED, leases.c.instance_id.is_(None))
        count = select(leases.c.job_id, func.count(), func.sum(case((refused, 1), else_=0)))
        rows = await self._sql.fetch_all(count.where(leases.c.intended_at >= since).group_by(leases.c.job_id))
        return {job_id: LaunchCount(intended - refused, refused) for job_id, intended, refused in rows}

    async def save_all(self, saved: Iterable[Lease]) -> None:
        # Those that give up their slot go first: the unique index looks at each row as it is written.
        ordered = sorted(saved, key=lambda lease: lease.is_wanted)
        await self._sql.upsert(leases, [values_of(leases, lease) for lease in ordered])
        spans = [
            values_of(lease_spans, span, lease_id=lease.id, seq=seq)
            for lease in ordered
            for seq, span in enumerate(lease.spans)
        ]
        await self._sql.upsert(lease_spans, spans)
        uses = [
            values_of(lease_uses, use, lease_id=lease.id, seq=seq)
            for lease in ordered
            for seq, use in enumerate(lease.uses)
        ]
        await self._sql.upsert(lease_uses, uses)

    async def select(self, *conditions: ColumnElement[bool]) -> tuple[Lease, ...]:
        """With their spans and uses, oldest first."""
        chosen = select(leases).where(*conditions)
        rows = await self._sql.fetch_all(chosen.order_by(leases.c.intended_at, leases.c.id))
        spans: dict[Any, list[Span]] = defaultdict(list)
        uses: dict[Any, list[TaskUse]] = defaultdict(list)
        if rows:
            ids = [row[0] for row in rows]
            of_chosen = select(lease_spans).where(lease_spans.c.lease_id.in_(ids))
            for row in await self._sql.fetch_all(of_chosen.order_by(lease_spans.c.lease_id, lease_spans.c.seq)):
                spans[row[0]].append(record_of(Span, lease_spans, row))
            their_uses = select(lease_uses).where(lease_uses.c.lease_id.in_(ids))
            for row in await self._sql.fetch_all(their_uses.order_by(lease_uses.c.lease_id, lease_uses.c.seq)):
                uses[row[0]].append(record_of(TaskUse, lease_uses, row))
        return tuple(
            record_of(Lease, leases, row, spans=tuple(spans[row[0]]), uses=tuple(uses[row[0]])) for row in rows
        )


def are_of(job_ids: Collection[str]) -> ColumnElement[bool]:
    """Leases that these jobs have, and those that they had as tasks before others of their array."""
    used = select(lease_uses.c.lease_id).where(lease_uses.c.job_id.in_(job_ids))
    return or_(leases.c.job_id.in_(job_ids), leases.c.id.in_(used))
