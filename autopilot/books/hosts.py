"""What is remembered of machines, as the API and the page tell it."""

from __future__ import annotations

from datetime import datetime

from autopilot.answers.hosts import Host, HostLoad, Hosts
from autopilot.domain.hosts import HostRecord
from autopilot.ports.store import UnitOfWork


async def list_hosts(uow: UnitOfWork, now: datetime, *, provider: str | None = None) -> Hosts:
    """Those last seen first; ``provider``: of one market."""
    return Hosts(hosts=[describe_host(each, each.at(now)) for each in await uow.hosts.list(provider=provider)])


def describe_host(record: HostRecord, now: HostRecord) -> Host:
    """``now``: the same record, faded to the moment."""
    return Host(
        provider=record.provider,
        machine_id=record.machine_id,
        host_id=record.host_id,
        gpu=record.gpu,
        seen_at=record.seen_at,
        launches=round(now.launches, 3),
        failed=round(now.failed, 3),
        last_fault=record.last_fault,
        last_fault_at=record.last_fault_at,
        pace=None if now.pace is None else round(now.pace, 3),
        loads=[HostLoad(image=image, seconds=float(seconds or 0)) for image, seconds in record.loads],
        blocked_at=record.blocked_at,
    )
