"""What machines have shown of themselves over all jobs: launches that came to nothing, loading times, pace, a block.

Where a market offers kinds instead of machines (a pool) and names the host of one that is rented, the record is of that
host, with the pool in the place of its owner. Where it names none the record is of the pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from autopilot.domain.money import Number
from autopilot.domain.reasons import Reason

HALF_LIFE = timedelta(days=2)
"""What was seen counts half after so long: hosts that fail are mended, or delisted, within days. A machine that was
slow in the morning is still taken to be slow in the evening."""
MOST_IMAGES = 8
"""Loading times are kept of so many images on one machine, the newest."""
HOST_FAULTS = frozenset(
    {
        Reason.STUCK_LOADING,
        Reason.FAILED_BEFORE,
        Reason.AGENT_SILENT,
        Reason.HOST_LOST,
        Reason.BAD_MACHINE,
        Reason.HOST_UNFIT,
    }
)
"""Why a machine was left, where that speaks of the machine itself."""

MachineKey = tuple[str, str]
"""(provider, machine_id)"""


@dataclass(frozen=True, slots=True)
class HostRecord:
    provider: str
    machine_id: str
    host_id: str
    """Of a pool's machine, the pool."""
    gpu: str
    seen_at: datetime
    """When the newest of it was seen; what is below counts as of then, and fades."""
    launches: float = 0.0
    failed: float = 0.0
    """Of them those that came to nothing, and machines that failed later."""
    last_fault: Reason | None = None
    last_fault_at: datetime | None = None
    pace: float | None = None
    """0..1: how fast it went beside the best that the same job has shown on such GPUs. None: that is not known."""
    loads: tuple[tuple[str, Number], ...] = ()
    """Seconds from the rental to the agent's first word, by image: one whose layers are there loads sooner."""
    blocked_at: datetime | None = None
    """Since when the user wants no new rental there."""

    @property
    def key(self) -> MachineKey:
        return self.provider, self.machine_id

    def at(self, now: datetime) -> HostRecord:
        """As much of it as still counts."""
        if now <= self.seen_at:
            return self
        rest = 0.5 ** ((now - self.seen_at) / HALF_LIFE)
        pace = None if self.pace is None else 1 - (1 - self.pace) * rest
        return replace(self, seen_at=now, launches=self.launches * rest, failed=self.failed * rest, pace=pace)

    def with_loaded(self, image: str, seconds: float) -> HostRecord:
        """A launch that came to something."""
        others = tuple(each for each in self.loads if each[0] != image)
        loads = (*others, (image, round(seconds)))[-MOST_IMAGES:]
        return replace(self, launches=self.launches + 1, loads=loads)

    def with_fault(self, reason: Reason, at: datetime, weight: float, *, was_heard: bool) -> HostRecord:
        """``weight``, 0..1: how far it speaks of the machine. One that was heard has its launch counted already."""
        return replace(
            self,
            launches=self.launches + (0.0 if was_heard else weight),
            failed=self.failed + weight,
            last_fault=reason,
            last_fault_at=at,
        )

    def with_pace(self, pace: float | None) -> HostRecord:
        return replace(self, pace=pace)

    def load_s(self, image: str) -> float | None:
        seconds = dict(self.loads).get(image)
        return None if seconds is None else float(seconds)

    def forgive(self) -> HostRecord:
        """Loading times stay: they are no fault."""
        return replace(self, launches=0.0, failed=0.0, last_fault=None, last_fault_at=None, pace=None, blocked_at=None)


@dataclass(frozen=True, slots=True)
class LaunchOdds:
    """Launches, and how many of them came to nothing."""

    launches: float = 0.0
    failed: float = 0.0

    def __add__(self, other: LaunchOdds) -> LaunchOdds:
        return LaunchOdds(self.launches + other.launches, self.failed + other.failed)

    def without(self, other: LaunchOdds) -> LaunchOdds:
        return LaunchOdds(max(self.launches - other.launches, 0.0), max(self.failed - other.failed, 0.0))

    def shrunk(self, share: float, weight: float) -> float:
        """The share that comes to nothing, if ``weight`` launches were assumed at ``share`` before any was seen."""
        return (weight * share + min(self.failed, self.launches)) / (weight + self.launches)


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """All records, faded to one moment, and their sums by market and by host."""

    records: Mapping[MachineKey, HostRecord] = field(default_factory=dict)
    by_market: Mapping[str, LaunchOdds] = field(default_factory=dict)
    by_host: Mapping[tuple[str, str], LaunchOdds] = field(default_factory=dict)
    loads: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    """Seconds, by market and image: of each machine as it was last, the longest last."""

    @classmethod
    def of(cls, records: Mapping[MachineKey, HostRecord]) -> KnownHosts:
        by_market: dict[str, LaunchOdds] = {}
        by_host: dict[tuple[str, str], LaunchOdds] = {}
        loads: dict[tuple[str, str], list[float]] = defaultdict(list)
        for each in records.values():
            odds = LaunchOdds(each.launches, each.failed)
            by_market[each.provider] = by_market.get(each.provider, LaunchOdds()) + odds
            host = each.provider, each.host_id
            by_host[host] = by_host.get(host, LaunchOdds()) + odds
            for image, seconds in each.loads:
                loads[each.provider, image].append(float(seconds or 0))
        return cls(records, by_market, by_host, {image: tuple(sorted(found)) for image, found in loads.items()})

    def find(self, provider: str, machine_id: str) -> HostRecord | None:
        return self.records.get((provider, machine_id))

    def is_blocked(self, provider: str, machine_id: str) -> bool:
        record = self.find(provider, machine_id)
        return record is not None and record.blocked_at is not None
