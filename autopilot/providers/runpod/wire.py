"""The market's JSON as frozen records. Prices that make no sense are left out; pods and bills must be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from autopilot.domain.host import NO_FACTS, HostFacts
from autopilot.domain.money import ZERO
from autopilot.domain.start_faults import START_WORDS
from autopilot.domain.time import utc_day
from autopilot.providers import values
from autopilot.providers.strangers import is_strangers, says_whose

Cloud = Literal["SECURE", "COMMUNITY"]
CLOUDS: tuple[Cloud, ...] = ("SECURE", "COMMUNITY")
CAPACITY_VARIABLE = "AUTOPILOT_CAPACITY"
"""Set on every pod that we rent: REST does not say which pods are spot."""
SPOT_WORD = "spot"

_POD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SPOT_TYPES = frozenset({"INTERRUPTABLE", "BID"})
_POD_TYPES = _SPOT_TYPES | {"RESERVED", "BACKGROUND"}
_STATES = {
    "CREATED": "CREATED",
    "RUNNING": "RUNNING",
    "RESTARTING": "CREATED",
    "EXITED": "EXITED",
    "PAUSED": "EXITED",
    "DEAD": "DEAD",
    "TERMINATED": "TERMINATED",
}
_REST_STATES = {
    "PROVISIONING": "CREATED",
    "STARTING": "CREATED",
    "RUNNING": "RUNNING",
    "EXITED": "EXITED",
    "ERROR": "EXITED",
    "TERMINATED": "TERMINATED",
}
"""An ERROR can be started or terminated like an EXITED one."""
UNTOLD = "UNTOLD"
"""Status of a pod whose state is unknown."""


class UnreadableRow(ValueError):
    """A row lacks what must be known of it; it cannot be skipped without a false picture."""


@dataclass(frozen=True, slots=True)
class GpuRow:
    gpu_type_id: str
    name: str
    memory_gb: Decimal


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One GPU type in one cloud. ``floor`` and ``on_demand`` as stated for a pod of so many GPUs; the list prices
    are per GPU."""

    gpu: GpuRow
    cloud: Cloud
    num_gpus: int
    floor: Decimal | None
    on_demand: Decimal | None
    list_price: Decimal | None
    list_spot_price: Decimal | None
    host: HostFacts = NO_FACTS
    """What the market was asked to hold to."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """``state``: CREATED, RUNNING, EXITED, DEAD, TERMINATED or ``UNTOLD``. ``is_up`` None: only ``state`` can tell.
    ``bid``: $/h of the whole pod."""

    pod_id: str
    name: str
    is_spot: bool
    state: str
    is_up: bool | None
    bid: Decimal
    num_gpus: int
    container_gb: Decimal
    volume_gb: Decimal
    gpu: str
    gpu_type_id: str
    cloud: str
    machine_id: str
    started_at: datetime | None
    message: str
    bid_to_resume: Decimal | None = None
    """$/h per GPU, of a stopped spot pod; None: not stated, or no bid gets its GPUs."""


@dataclass(frozen=True, slots=True)
class BillRow:
    """One pod in one bucket of time."""

    pod_id: str
    day: date
    compute: Decimal
    storage: Decimal
    period: tuple[datetime, datetime] | None = None
    """From when to when, where the bill says so."""


def check_pod_id(value: object) -> str | None:
    return value if isinstance(value, str) and _POD_ID.fullmatch(value) else None


def pod_id(raw: object) -> str | None:
    """Id of a pod, as far as the answer has it."""
    return check_pod_id(values.mapping(raw).get("id"))


def _positive(value: Decimal | None) -> Decimal | None:
    return value if value else None


def _gpu(row: Mapping[str, Any], name_field: str, memory_field: str) -> GpuRow | None:
    gpu_type_id, name = values.text(row.get("id")), values.text(row.get(name_field))
    memory_gb = values.number(row.get(memory_field))
    if not gpu_type_id or memory_gb is None or memory_gb < 0:
        return None
    return GpuRow(gpu_type_id, name or gpu_type_id, memory_gb)


def gpu_row(raw: object) -> GpuRow | None:
    return _gpu(values.mapping(raw), "displayName", "memoryInGb")


def rest_gpu_row(raw: object) -> GpuRow | None:
    return _gpu(values.mapping(raw), "name", "memory")


def price_rows(raw: object, num_gpus: int) -> tuple[PriceRow, ...]:
    """Rows of one GPU type: one for each cloud in which it is available now."""
    row = values.mapping(raw)
    gpu = gpu_row(row)
    if gpu is None:
        return ()
    found = (_price_row(gpu, row, cloud, num_gpus) for cloud in CLOUDS)
    return tuple(price for price in found if price is not None)


def _price_row(gpu: GpuRow, row: Mapping[str, Any], cloud: Cloud, num_gpus: int) -> PriceRow | None:
    prefix = cloud.lower()
    stated = values.mapping(row.get(prefix))
    floor = _positive(values.price(stated.get("minimumBidPrice")))
    on_demand = _positive(values.price(stated.get("uninterruptablePrice")))
    if values.text(stated.get("stockStatus")).upper() == "NONE" or (floor is None and on_demand is None):
        return None
    return PriceRow(
        gpu,
        cloud,
        num_gpus,
        floor,
        on_demand,
        list_price=_positive(values.price(row.get(f"{prefix}Price"))),
        list_spot_price=_positive(values.price(row.get(f"{prefix}SpotPrice"))),
    )


def rest_price_row(raw: object, cloud: Cloud, num_gpus: int) -> PriceRow | None:
    """Of one GPU type in an answer that was asked for that cloud and count: list prices are per GPU there."""
    row = values.mapping(raw)
    gpu, name = rest_gpu_row(row), cloud.lower()
    price = _positive(values.price(values.mapping(row.get("price")).get(name)))
    most = values.integer(values.mapping(row.get("maxCount")).get(name))
    if gpu is None or price is None or values.boolean(row.get(name)) is False or (most is not None and num_gpus > most):
        return None
    if values.text(row.get("availability")).upper() in ("", "NONE"):
        return None
    return PriceRow(gpu, cloud, num_gpus, None, price * num_gpus, price, None)


def _state(word: object, states: Mapping[str, str]) -> str | None:
    """None if there is no word."""
    said = values.text(word)
    return states.get(said, UNTOLD) if said else None


def any_pod(read: Callable[[object], PodRow], raw: object) -> PodRow:
    """Ours in full; of anybody's the id and the name at least, and it counts as running. Raises ``UnreadableRow``."""
    row = values.mapping(raw)
    found = pod_id(row)
    if not says_whose(row, "name"):
        raise UnreadableRow(f"pod {found or '?'} has no name, so it may be ours")
    try:
        return read(raw)
    except UnreadableRow:
        if found is None or not is_strangers(row, "name"):
            raise
        return PodRow(
            pod_id=found,
            name=values.label(row["name"]),
            is_spot=False,
            state=UNTOLD,
            is_up=None,
            bid=ZERO,
            num_gpus=0,
            container_gb=ZERO,
            volume_gb=ZERO,
            gpu="",
            gpu_type_id="",
            cloud="",
            machine_id="",
            started_at=None,
            message="",
        )


def pod_row(raw: object) -> PodRow:
    """Raises ``UnreadableRow`` when the id, state or price is missing, or the kind is missing or unknown.

    So it does where nothing is said of a runtime: a pod that runs would look like one whose host is lost.
    """
    row = values.mapping(raw)
    found, pod_type = pod_id(row), values.text(row.get("podType"))
    state, bid = _state(row.get("desiredStatus"), _STATES), values.price(row.get("costPerHr"))
    if found is None or pod_type not in _POD_TYPES or state is None or bid is None:
        raise UnreadableRow(f"pod {found or '?'} lacks its id, podType, desiredStatus or costPerHr")
    if not isinstance(row.get("runtime", ""), dict | None):
        raise UnreadableRow(f"pod {found} does not say whether it has a runtime")
    machine = values.mapping(row.get("machine"))
    started_at = values.timestamp(row.get("lastStartedAt")) or values.timestamp(row.get("createdAt"))
    secure = values.boolean(machine.get("secureCloud"))
    return PodRow(
        pod_id=found,
        name=values.label(row.get("name")),
        is_spot=pod_type in _SPOT_TYPES,
        state=state,
        is_up=isinstance(row.get("runtime"), dict),
        bid=bid,
        num_gpus=max(values.integer(row.get("gpuCount")) or 0, 0),
        container_gb=_size(row.get("containerDiskInGb")),
        volume_gb=_size(row.get("volumeInGb")),
        gpu=values.text(machine.get("gpuDisplayName")),
        gpu_type_id=values.text(machine.get("gpuTypeId")),
        cloud="" if secure is None else CLOUDS[0] if secure else CLOUDS[1],
        machine_id=values.text(row.get("machineId")),
        started_at=started_at,
        message=values.text(row.get("lastStatusChange"))[:200],
        bid_to_resume=_positive(values.price(row.get("lowestBidPriceToResume"))),
    )


def rest_pod_row(raw: object) -> PodRow:
    """Raises ``UnreadableRow`` when the id, state or price is missing, or the environment: it alone tells a spot pod
    from one on demand.
    """
    row = values.mapping(raw)
    found, status = pod_id(row), values.text(row.get("status"))
    state, bid = _state(status, _REST_STATES), values.price(row.get("cost"))
    if found is None or state is None or bid is None:
        raise UnreadableRow(f"pod {found or '?'} lacks its id, status or cost")
    if not isinstance(row.get("env", ""), dict | None):
        raise UnreadableRow(f"pod {found} does not show its environment")
    gpu = values.mapping(row.get("gpu"))
    persistent = values.mapping(values.mapping(row.get("mounts")).get("persistent"))
    gpu_type_id = values.text(gpu.get("id"))
    return PodRow(
        pod_id=found,
        name=values.label(row.get("name")),
        is_spot=values.mapping(row.get("env")).get(CAPACITY_VARIABLE) == SPOT_WORD,
        state=state,
        is_up=None,
        bid=bid,
        num_gpus=max(values.integer(gpu.get("count")) or 0, 0),
        container_gb=_size(row.get("disk")),
        volume_gb=_size(persistent.get("size")),
        gpu=gpu_type_id,
        gpu_type_id=gpu_type_id,
        cloud=values.text(row.get("cloud")),
        machine_id="",
        started_at=values.timestamp(row.get("startedAt")) or values.timestamp(row.get("createdAt")),
        message=status,
    )


def log_events(stream: str) -> list[Any]:
    """The data in a stream of events; what cannot be read is left out."""
    events = []
    for data in (line.removeprefix("data:") for line in stream.splitlines() if line.startswith("data:")):
        try:
            events.append(values.decode(data))
        except values.Unreadable:
            continue
    return events


def start_line(event: object) -> str:
    """A line of the host, or of our start text in the container; empty for what the image itself wrote."""
    said = values.mapping(event)
    line = values.text(said.get("line"))[:500]
    return line if values.text(said.get("source")) == "system" or line.startswith(START_WORDS) else ""


def _size(value: object) -> Decimal:
    read = values.number(value)
    return ZERO if read is None or read < 0 else read


def bill_row(raw: object) -> BillRow:
    """All that is billed beside the disk counts as compute: it was paid. Raises ``UnreadableRow``."""
    row = values.mapping(raw)
    found, start = check_pod_id(row.get("podId")), values.timestamp(row.get("startTime"))
    total, disk = values.dollars(row.get("totalAmount")), values.dollars(row.get("diskAmount"))
    if found is None or start is None or total is None or disk is None:
        raise UnreadableRow(f"the bill of pod {found or '?'} lacks its podId, startTime or amounts")
    end = values.timestamp(row.get("endTime"))
    period = (start, end) if end is not None and end > start else None
    return BillRow(found, utc_day(start), compute=total - disk, storage=disk, period=period)
