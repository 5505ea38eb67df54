"""What machines claim to have sent, beside what the store took from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, counted_bytes, counted_traffic
from autopilot.domain.money import BYTES_PER_GB, ZERO
from autopilot.mailbox.keys import lease_prefix
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.ports.blobs import BlobStore

SMALL_MESSAGES_BYTES = 64_000_000
"""Heartbeats of days: each replaces the one before, so the store cannot tell how many it took."""


@dataclass(slots=True)
class _Taken:
    total: int
    sizes: dict[str, int] = field(default_factory=dict)
    """By key, of all that was ever seen there: checkpoints are deleted and stay sent."""


class Claims:
    """A claim of traffic counts up to what the store took from the machine, and no further."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._taken: dict[str, _Taken] = {}

    async def most_bytes(self, job_id: str, lease: Lease, heartbeat: Heartbeat) -> int:
        """How much the lease can have sent in all. The store is looked through where the claim is above what is known,
        and after a new boot. Raises ``BlobUnavailable``.
        """
        is_new_boot = heartbeat.boot != lease.agent.boot
        claimed = counted_bytes(lease) + heartbeat.bytes_sent - (0 if is_new_boot else lease.agent.sent_bytes)
        known = self._taken.get(lease.id)
        if known is None or is_new_boot or claimed > known.total + SMALL_MESSAGES_BYTES:
            known = self._taken[lease.id] = _add(known, lease, await self._blobs.sizes(lease_prefix(job_id, lease.id)))
        return known.total + SMALL_MESSAGES_BYTES

    def add(self, lease_id: str, size: int) -> None:
        """Something was taken from the machine, and is deleted at once."""
        if (known := self._taken.get(lease_id)) is not None:
            known.total += size

    def forget(self, lease_ids: frozenset[str]) -> None:
        """Drop what is kept for leases other than these."""
        for lease_id in self._taken.keys() - lease_ids:
            del self._taken[lease_id]


def _add(known: _Taken | None, lease: Lease, sizes: dict[str, int]) -> _Taken:
    if known is None:  # what an earlier daemon counted was there once
        return _Taken(max(sum(sizes.values()), counted_bytes(lease)), sizes)
    more = sum(max(size - known.sizes.get(key, 0), 0) for key, size in sizes.items())
    return _Taken(known.total + more, known.sizes | sizes)


def within_budget(job: Job, before: Job, lease: Lease, most: int) -> int:
    """``most`` bytes of ``lease``, as far as its job's budget pays for them: beyond it only a bill counts.

    ``before``: the job as the ledger has it. What was claimed since is not in its spend yet.
    """
    price = lease.traffic.upload_price
    if job.spec.budget is None or price == ZERO:
        return most
    left = job.spec.budget - before.spent - counted_traffic(job.leases) + counted_traffic(before.leases)
    return min(most, counted_bytes(lease) + int(max(left, ZERO) / price * BYTES_PER_GB))
