"""What the check on arrival has measured on a machine, and what of that is less than was rented.

These are the machine's own words: they find hosts that are broken, not hosts that lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.money import BYTES_PER_GB, Number

WELL_KNOWN = frozenset(
    {
        "huggingface.co",
        "pypi.org",
        "files.pythonhosted.org",
        "github.com",
        "gitlab.com",
        "bitbucket.org",
        "conda.anaconda.org",
        "registry.npmjs.org",
        "download.pytorch.org",
    }
)
"""A machine from which none reaches one of these has no such network as jobs need. Any other host may be down."""
MEMORY_SHARE_USED = 0.1
"""More of a GPU's memory than this in use on arrival is another's; a driver keeps less for itself."""
RAM_SHARE = 0.8
"""A container that may use less than this of the rented memory lacks some; sizes are told in GB and in GiB."""
DISK_SHARE_FREE = 0.1
"""Of the rented disk, where the size of a checkpoint is not known yet."""
CHECKPOINTS_KEPT = 2
SLOW_DISK_MB_PER_S = 50
SLOW_STORE_MBPS = 8
SKEWED_S = 60
LEAST_SHM_BYTES = 256 << 20
"""Loaders that hand batches over in shared memory fail with less, where several GPUs are fed."""


@dataclass(frozen=True, slots=True)
class ArrivalGpu:
    """None: it does not say. Sizes in bytes."""

    used: int | None = None
    total: int | None = None
    slowed: bool = False
    """By hardware, by heat, or by its power supply."""
    errors: int = 0
    """Uncorrected errors of its memory since the driver was loaded."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """None or empty: it was not measured, or not in time. Sizes in bytes."""

    took_s: float = 0.0
    gpus: tuple[ArrivalGpu, ...] | None = None
    gpu_fault: str = ""
    """In the words of ``nvidia-smi``, or that it hangs."""
    driver: str = ""
    all_reduce: str = ""
    """One of ``ALL_REDUCES``."""
    ram: int | None = None
    shm: int | None = None
    disk_free: int | None = None
    disk_fault: str = ""
    disk_mb_per_s: float | None = None
    upload_mbps: float | None = None
    download_mbps: float | None = None
    clock_off_s: float | None = None
    unreachable: tuple[str, ...] = ()
    """Hosts that the job names and that take no connection from there."""


ALL_REDUCES = ("ok", "without_peer", "failed", "skipped")
"""``without_peer``: only with ``NCCL_P2P_DISABLE=1``, which the job's command is given there."""


@dataclass(frozen=True, slots=True)
class Rented:
    """What there should be."""

    num_gpus: int
    disk_gb: Decimal
    ram_gb: Decimal | None = None
    """None: its market did not say."""
    checkpoint_bytes: int | None = None
    """Of the job's newest; None: it has none yet."""


@dataclass(frozen=True, slots=True)
class ArrivalFinding:
    kind: str
    """One of ``LACKS``, or of ``WARNINGS``."""
    has: Number = None
    wanted: Number = None


LACKS = ("gpus", "gpu_fault", "gpu_memory", "gpu_errors", "throttled", "all_reduce", "ram", "disk", "unreachable")
"""For each of them a machine is left."""
WARNINGS = ("slow_disk", "slow_upload", "slow_download", "clock", "small_shm", "without_peer", "unreachable_other")


def find_lacks(arrival: Arrival, rented: Rented) -> tuple[ArrivalFinding, ...]:
    """What the machine lacks of what was paid for."""
    return (*_lacks_of_gpus(arrival, rented), *_lacks_of_machine(arrival, rented))


def _lacks_of_gpus(arrival: Arrival, rented: Rented) -> tuple[ArrivalFinding, ...]:
    found, gpus = [], arrival.gpus
    if arrival.gpu_fault:
        found.append(ArrivalFinding("gpu_fault", arrival.gpu_fault))
    if gpus is not None and len(gpus) < rented.num_gpus:
        found.append(ArrivalFinding("gpus", len(gpus), rented.num_gpus))
    shares = [gpu.used / gpu.total for gpu in gpus or () if gpu.used is not None and gpu.total]
    if shares and max(shares) > MEMORY_SHARE_USED:
        found.append(ArrivalFinding("gpu_memory", round(max(shares), 2), MEMORY_SHARE_USED))
    if errors := sum(gpu.errors for gpu in gpus or ()):
        found.append(ArrivalFinding("gpu_errors", errors, 0))
    if slowed := sum(gpu.slowed for gpu in gpus or ()):
        found.append(ArrivalFinding("throttled", slowed, 0))
    if arrival.all_reduce == "failed":
        found.append(ArrivalFinding("all_reduce"))
    return tuple(found)


def _lacks_of_machine(arrival: Arrival, rented: Rented) -> tuple[ArrivalFinding, ...]:
    found = []
    if rented.ram_gb is not None and arrival.ram is not None and arrival.ram < RAM_SHARE * _bytes(rented.ram_gb):
        found.append(ArrivalFinding("ram", _gb(arrival.ram), float(rented.ram_gb)))
    wanted = _room_wanted(rented)
    if arrival.disk_fault:
        found.append(ArrivalFinding("disk", arrival.disk_fault))
    elif arrival.disk_free is not None and arrival.disk_free < wanted:
        found.append(ArrivalFinding("disk", _gb(arrival.disk_free), _gb(wanted)))
    known = [host for host in arrival.unreachable if host in WELL_KNOWN]
    if known:
        found.append(ArrivalFinding("unreachable", ", ".join(known)))
    return tuple(found)


def find_warnings(arrival: Arrival, rented: Rented) -> tuple[ArrivalFinding, ...]:
    """What is only said."""
    low = (
        ("slow_disk", arrival.disk_mb_per_s, SLOW_DISK_MB_PER_S),
        ("slow_upload", arrival.upload_mbps, SLOW_STORE_MBPS),
        ("slow_download", arrival.download_mbps, SLOW_STORE_MBPS),
    )
    found = [ArrivalFinding(kind, round(has, 1), least) for kind, has, least in low if has is not None and has < least]
    if arrival.clock_off_s is not None and abs(arrival.clock_off_s) > SKEWED_S:
        found.append(ArrivalFinding("clock", round(arrival.clock_off_s), SKEWED_S))
    if rented.num_gpus > 1 and arrival.shm is not None and arrival.shm < LEAST_SHM_BYTES:
        found.append(ArrivalFinding("small_shm", _gb(arrival.shm), _gb(LEAST_SHM_BYTES)))
    if arrival.all_reduce == "without_peer":
        found.append(ArrivalFinding("without_peer"))
    others = [host for host in arrival.unreachable if host not in WELL_KNOWN]
    if others:
        found.append(ArrivalFinding("unreachable_other", ", ".join(others)))
    return tuple(found)


def _room_wanted(rented: Rented) -> int:
    """For two checkpoints, one that is kept and one that is written."""
    if rented.checkpoint_bytes is not None:
        return CHECKPOINTS_KEPT * rented.checkpoint_bytes
    return round(DISK_SHARE_FREE * _bytes(rented.disk_gb))


def _bytes(gb: Decimal) -> float:
    return float(gb * BYTES_PER_GB)


def _gb(count: int) -> float:
    return round(float(count / BYTES_PER_GB), 1)
