"""What a machine answers → records. A machine may answer anything: all is bounded and of its type, or is no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from autopilot.domain.host import Arch, driver_order
from autopilot.providers.ssh.config import MOST_GPUS, MOST_JOBS
from autopilot.providers.ssh.shipped.program import ANSWER, MOST_LEASES, NAME
from autopilot.providers.values import Unreadable, decode, number

MOST_ANSWER = 128 * 1024
"""Bytes, with what a login prints before it."""
MOST_TEXT = 300
MIB_IN_GB = 1024
"""As GPUs are sold: a card of 24 GB shows 24,564 MiB."""
ARCHES = {"x86_64": Arch.AMD64, "aarch64": Arch.ARM64}


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A row of nvidia-smi."""

    index: int
    name: str
    total_gb: Decimal
    used_mib: Decimal
    driver: str
    compute_cap: Decimal | None


@dataclass(frozen=True, slots=True)
class SeenLease:
    name: str
    label: str
    state: str
    """``running``, ``starting``, or why it has ended: ``stopped``, ``taken``, ``hours``, ``leaving``."""
    slot: int
    gpu: str
    num_gpus: int
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeenMachine:
    """A machine at one moment. ``gpus`` None: nobody asked for them."""

    leases: tuple[SeenLease, ...]
    is_taken_back: bool
    arch: Arch | None
    cpus: int
    ram_gb: Decimal
    disk_gb: Decimal
    gpus: tuple[SeenGpu, ...] | None
    gpu_fault: str


def read_answer(said: str) -> Mapping[str, Any]:
    """The program's line, whatever else a login has printed. Raises ``Unreadable``."""
    lines = [line for line in said.splitlines() if line.startswith(ANSWER)]
    if len(lines) != 1:
        raise Unreadable("there is no answer in what it printed")
    found = decode(lines[0].removeprefix(ANSWER))
    if not isinstance(found, dict):
        raise Unreadable("its answer is no object")
    return found


def read_seen(answer: Mapping[str, Any]) -> SeenMachine:
    """Raises ``Unreadable``."""
    leases, gpus = answer.get("leases"), answer.get("gpus")
    if not isinstance(leases, list) or len(leases) > MOST_LEASES:
        raise Unreadable("its answer has no leases")
    if gpus is not None and (not isinstance(gpus, list) or len(gpus) > MOST_GPUS):
        raise Unreadable("its answer has no GPUs")
    found = tuple(map(_lease, leases))
    if len({each.name for each in found}) != len(found):
        raise Unreadable("its answer names a lease twice")
    if not isinstance(answer.get("taken_back"), bool):
        raise Unreadable("its answer does not say whether it is taken back")
    arch = answer.get("arch")
    return SeenMachine(
        leases=found,
        is_taken_back=bool(answer["taken_back"]),
        arch=ARCHES.get(arch) if isinstance(arch, str) else None,
        cpus=_whole(answer.get("cpus"), 4096),
        ram_gb=Decimal(_whole(answer.get("ram_mb"), 10**9)) / 1000,
        disk_gb=Decimal(_whole(answer.get("disk_mb"), 10**12)) // 1000,
        gpus=None if gpus is None else tuple(map(_gpu, gpus)),
        gpu_fault=clean(answer.get("gpu_fault", "")),
    )


def _lease(row: object) -> SeenLease:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or NAME.fullmatch(row["name"]) is None:
        raise Unreadable("a lease has no name")
    label, state, gpu = row.get("label"), row.get("state"), row.get("gpu")
    if not (isinstance(label, str) and isinstance(state, str) and isinstance(gpu, str)):
        raise Unreadable("a lease has no label")
    ends_at = row.get("ends_at")
    return SeenLease(
        name=row["name"],
        label=clean(label),
        state=clean(state),
        slot=_whole(row.get("slot"), MOST_JOBS),
        gpu=clean(gpu),
        num_gpus=_whole(row.get("num_gpus"), MOST_GPUS),
        ends_at=None if ends_at is None else datetime.fromtimestamp(_whole(ends_at, 10**11), UTC),
    )


def _gpu(row: object) -> SeenGpu:
    if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
        raise Unreadable("a GPU is no row")
    index = row.get("index", "")
    if len(index) > 2 or not (index.isascii() and index.isdigit()) or int(index) >= MOST_GPUS:
        raise Unreadable("a GPU has no number")
    driver = row.get("driver_version", "")
    try:
        driver_order(driver)
    except ValueError:
        driver = ""
    cap = _amount(row.get("compute_cap", ""))
    return SeenGpu(
        index=int(index),
        name=clean(row.get("name", "")),
        total_gb=(_amount(row.get("memory.total", "")) or Decimal(0)) / MIB_IN_GB,
        used_mib=_amount(row.get("memory.used", "")) or Decimal(0),
        driver=driver,
        compute_cap=cap if cap and cap < 100 else None,
    )


def clean(text: object) -> str:
    """Of one line, printable, and short."""
    return "".join(each for each in str(text)[:MOST_TEXT] if each.isprintable())


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Unreadable("a number of its answer is none")
    return value


def _amount(text: object) -> Decimal | None:
    found = number(text)
    return found if found is not None and found >= 0 else None
