"""What the store is told of each machine, so that a ledger that is put back from an older copy can learn of it again.

The note lies beside the daemon's own copies of manifests, where no machine may write. It is the lease as the ledger has
it, keyed by field name: another version ignores unknown fields. It is rewritten whenever the place, the terms or the
price of the rental changes, and once more when the machine is gone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from autopilot.domain.agent_state import AgentState
from autopilot.domain.codec import Codec
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import (
    AgentReport,
    Bidding,
    Billing,
    BillWait,
    Ending,
    Lease,
    LeaseOrders,
    LeaseState,
    Observed,
    Permit,
    Role,
    Slot,
    Span,
    Traffic,
)
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.mailbox.keys import rental_key
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot.ports.blobs import BlobStore, BlobUnavailable

log = structlog.get_logger(__name__)

VERSION = 1
MOST_SPANS = 2000
"""As many as keep a record well below the limit for one read."""

_VALUES = Codec(AgentState, BillWait, CapacityType, InstanceStatus, LeaseState, Reason, Role, Slot)
_GROUPS: Mapping[str, type] = {
    "billing": Billing,
    "bidding": Bidding,
    "observed": Observed,
    "orders": LeaseOrders,
    "permit": Permit,
    "agent": AgentReport,
    "traffic": Traffic,
    "ending": Ending,
}
_NOT_NOTED = ("anchor", "uses", "spans", "decision_id", *_GROUPS)


class RentalNotes:
    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._noted: dict[str, object] = {}
        self._due: dict[str, tuple[str, Lease]] = {}
        """By lease, with its job: notes that are still to be written."""
        self._epochs: dict[str, int] = {}
        """The run epoch that was noted before: a ledger that was put back from an older copy may have a lower one."""

    async def keep(self, jobs: Iterable[Job]) -> None:
        """Record the machines of jobs that are neither arrays nor tasks. Failures are logged and tried again."""
        for job in jobs:
            for lease in job.leases if job.array_id is None else ():
                if self._noted.get(lease.id) != _face(lease):
                    self._due[lease.id] = job.id, lease
        await asyncio.gather(*(self._write(job_id, lease) for job_id, lease in tuple(self._due.values())))

    async def _write(self, job_id: str, lease: Lease) -> None:
        try:
            if lease.id not in self._epochs:
                before = await find_note(self._blobs, job_id, lease.id)
                self._epochs[lease.id] = before.orders.run_epoch if before else 0
            self._epochs[lease.id] = epoch = max(self._epochs[lease.id], lease.orders.run_epoch)
            noted = replace(lease, orders=replace(lease.orders, run_epoch=epoch))
            await self._blobs.put(rental_key(job_id, lease.id), to_note(job_id, noted))
        except BlobUnavailable as problem:
            log.warning("rental.unnoted", lease=lease.id, reason=str(problem))
            return
        self._due.pop(lease.id, None)
        if lease.is_over:
            self._noted.pop(lease.id, None)
            self._epochs.pop(lease.id, None)
        else:
            self._noted[lease.id] = _face(lease)


def _face(lease: Lease) -> object:
    """A change of anything else is found again by looking at the machine."""
    rented = lease.state, lease.instance_id, lease.slot, lease.held_until, lease.observed.status
    return *rented, lease.orders, lease.bid, lease.bidding, lease.storage_rate, len(lease.spans), lease.ending


def to_note(job_id: str, lease: Lease) -> bytes:
    lease = replace(lease, agent=replace(lease.agent, readings=None))
    said: dict[str, Any] = {
        field.name: _VALUES.encode(getattr(lease, field.name))
        for field in dataclasses.fields(Lease)
        if field.name not in _NOT_NOTED
    }
    for name in _GROUPS:
        said[name] = _by_name(getattr(lease, name))
    said["spans"] = [_by_name(span) for span in lease.spans[-MOST_SPANS:]]
    return json.dumps({"v": VERSION, "job": job_id, "lease": said}).encode()


def _by_name(group: Any) -> dict[str, Any]:
    return {field.name: _VALUES.encode(getattr(group, field.name)) for field in dataclasses.fields(group)}


def read_note(data: bytes, job_id: str, lease_id: str) -> Lease | None:
    """None for what is no note of that machine of that job."""
    try:
        body = json.loads(data)
        if body["v"] != VERSION or body["job"] != job_id:
            return None
        lease = _lease_of(body["lease"])
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return lease if lease.id == lease_id and lease.job_id == job_id else None


def _lease_of(said: Mapping[str, Any]) -> Lease:
    spans = tuple(_make(Span, span) for span in said["spans"])
    groups = {name: _make(kind, said[name]) for name, kind in _GROUPS.items() if name in said}
    plain = {name: body for name, body in said.items() if name not in _NOT_NOTED}
    lease: Lease = _make(Lease, plain, spans=spans, **groups)
    return lease


def _make(kind: Any, said: Mapping[str, Any], **more: Any) -> Any:
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: _VALUES.decode(value) for name, value in said.items() if name in known}, **more)


async def find_note(blobs: BlobStore, job_id: str, lease_id: str) -> Lease | None:
    """Raises ``BlobUnavailable``."""
    key = rental_key(job_id, lease_id)
    size = await blobs.size(key)
    if size is None or size > MAX_OBJECT_BYTES:
        return None
    return read_note(await blobs.get(key) or b"", job_id, lease_id)
