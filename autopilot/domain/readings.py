"""What a machine's agent reads on it beside the job: its GPUs, its disk, its load, and progress that it recognises.

All are claims. All but progress and arrival are for the display alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autopilot.domain.arrival import Arrival


@dataclass(frozen=True, slots=True)
class Gpu:
    """None: it does not say."""

    busy: float | None = None
    """0..1: the share of the last moment in which it worked."""
    memory_used: int | None = None
    """Bytes, as all sizes here."""
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class Recognised:
    """Progress of a training that was recognised in the job's output or files. The job itself says nothing of it."""

    form: str
    """Where it was read: ``bar``, ``step``, ``epochs`` or ``trainer`` in the output, ``saved`` in a state file."""
    step: int | None
    fraction: float
    """0..1."""
    confidence: float
    """0..1: how sure it is that this is the job's own progress."""
    left_s: float | None = None
    """Seconds until it is at its end, at the pace that was seen on this machine; None: none was seen yet."""
    seen: float = 0.0
    """0..1: the share of the whole over which that pace was seen."""

    @property
    def whole_s(self) -> float | None:
        """Seconds of the whole at that pace; None: unknown, or it is at its end and says no more."""
        return None if self.left_s is None or self.fraction >= 1 else self.left_s / (1 - self.fraction)


@dataclass(frozen=True, slots=True)
class Readings:
    """None: it could not be read."""

    gpus: tuple[Gpu, ...] | None = None
    disk_free: int | None = None
    """Room for the job's work directory."""
    load: float | None = None
    """Processes that want to run, on average over a minute; in a container those of its host."""
    still_s: float | None = None
    """For so long nothing was new of the command: neither output nor progress, and its GPUs were idle."""
    recognised: Recognised | None = None
    arrival: Arrival | None = None
    """What the check on arrival has found; it is made once. None: not yet, or an agent of an older version."""

    @property
    def gpu_busy(self) -> float | None:
        """On average over the GPUs that say it."""
        known = [gpu.busy for gpu in self.gpus or () if gpu.busy is not None]
        return sum(known) / len(known) if known else None

    @property
    def gpu_memory(self) -> tuple[int, int] | None:
        """Used, and in all, of the GPUs that say both; None: none does."""
        known = [
            (gpu.memory_used, gpu.memory_total)
            for gpu in self.gpus or ()
            if gpu.memory_used is not None and gpu.memory_total
        ]
        return (sum(used for used, _ in known), sum(total for _, total in known)) if known else None


@dataclass(frozen=True, slots=True)
class MachineReading:
    """One point of a lease's history."""

    lease_id: str
    at: datetime
    gpu_busy: float | None
    """0..1, on average over its GPUs."""
    gpu_memory_share: float | None
    """0..1, of the memory of all its GPUs."""
    disk_free: int | None
    """Bytes."""
    load: float | None
    progress: float | None
    """0..1: the job's, as it says."""


def reading_of(lease_id: str, at: datetime, readings: Readings, progress: float | None) -> MachineReading:
    memory = readings.gpu_memory
    share = memory and memory[0] / memory[1]
    return MachineReading(lease_id, at, readings.gpu_busy, share, readings.disk_free, readings.load, progress)
