"""A command that the kernel has killed for want of memory: what the next machine must have more of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, Decimal

from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease
from autopilot.domain.money import BYTES_PER_GB
from autopilot.domain.offer import Offer

MORE = Decimal("1.25")
"""The next machine has so much more than the one that was too small."""
BELIEVED = Decimal("1.1")
"""A machine's word for its limit, beside what was rented: sizes are told in GB and in GiB."""


@dataclass(frozen=True, slots=True)
class MemoryKill:
    at: datetime
    lease_id: str
    peak_gb: Decimal
    limit_gb: Decimal
    provider: str
    gpus: str
    """``pace_key`` of the machine."""
    launches: int
    """Of the job until then."""

    def is_of_same_size(self, offer: Offer) -> bool:
        """As far as can be told where the market does not state the memory."""
        is_same = (offer.provider, pace_key(offer.gpu, offer.num_gpus)) == (self.provider, self.gpus)
        return offer.host.ram_gb is None and is_same


def read_memory_kill(job: Job) -> MemoryKill | None:
    if not job.memory_kill:
        return None
    told = dict(job.memory_kill)
    return MemoryKill(
        at=datetime.fromisoformat(str(told["at"])),
        lease_id=str(told["lease"]),
        peak_gb=Decimal(str(told["peak_gb"])),
        limit_gb=Decimal(str(told["limit_gb"])),
        provider=str(told["provider"]),
        gpus=str(told["gpus"]),
        launches=int(str(told["launches"])),
    )


def with_memory_kill(job: Job, lease: Lease, peak: int, limit: int, at: datetime) -> Job:
    """The job as it asks for more memory from now on. ``peak`` and ``limit``: bytes, by the machine's word."""
    limit_gb = _gb(limit)
    if lease.ram_gb is not None:
        limit_gb = min(limit_gb or lease.ram_gb, lease.ram_gb * BELIEVED)
    needed = (limit_gb * MORE).to_integral_value(ROUND_CEILING)
    host = job.spec.host
    told = (
        ("at", at.isoformat()),
        ("lease", lease.id),
        ("peak_gb", _gb(peak)),
        ("limit_gb", limit_gb),
        ("provider", lease.provider),
        ("gpus", pace_key(lease.gpu, lease.num_gpus)),
        ("launches", job.launches),
    )
    spec = replace(job.spec, host=replace(host, ram_gb=max(host.ram_gb or needed, needed)))
    return replace(job, memory_kill=told, spec=spec)


def _gb(count: int) -> Decimal:
    return (Decimal(count) / BYTES_PER_GB).quantize(Decimal("0.1"))
