"""Records of the wire → the domain's values, and prices of a whole pod ⇄ prices per GPU. Pure.

RunPod does not sell machines but *pools*: a GPU type in one of two clouds. Here a pool is a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from autopilot.domain.instance import Charge, CostKind, Instance, InstanceStatus, Stopper
from autopilot.domain.money import ZERO, storage_rate
from autopilot.domain.offer import CapacityType, Offer
from autopilot.providers.runpod.wire import CLOUDS, UNTOLD, BillRow, PodRow, PriceRow

PROVIDER = "runpod"
ANY_DATACENTER = "-"
BID_STEP = Decimal("0.000001")
"""Step of a bid per GPU, in $/h; finer than any price of the market."""
DISK_PRICE = Decimal("0.10")
"""$/GB-month of both disks while a pod runs."""
STOPPED_VOLUME_PRICE = Decimal("0.20")
"""$/GB-month of the volume while a pod is stopped; the container's disk is gone then and costs nothing."""
LOST_AFTER = timedelta(minutes=5)
"""A runtime that is missing for shorter than this is a gap in the market's telemetry, for longer a lost host."""
UNRATED = Decimal(1)
"""The market publishes no reliability of its pools."""

_START_FAILED = re.compile(r"exited by runpod(?!.*balance)|error$", re.IGNORECASE | re.DOTALL)
"""What is said of a pod whose image could not be pulled, or whose container not be made; REST has a status for it.
An outbid, an empty account and a user are named where they ended one."""

_STOPPERS = (
    (re.compile(r"outbid\b", re.IGNORECASE), Stopper.BIDDER),
    (re.compile(r"exited by user\b", re.IGNORECASE), Stopper.USER),
)
"""Who stopped a pod, by what GraphQL says of it. Of "Exited by Runpod" it gives no reason, and REST says nothing."""

_OFFER_ID = re.compile(rf"(.+)/({'|'.join(CLOUDS)})/([1-9][0-9]{{0,2}})(?:/([A-Z0-9-]{{2,40}}))?")


@dataclass(frozen=True, slots=True)
class Pool:
    gpu_type_id: str
    cloud: str
    num_gpus: int
    place: str = ""
    """The country or the data centre that was asked for; empty: anywhere."""


def pool_id(gpu_type_id: str, cloud: str) -> str:
    return f"{gpu_type_id}/{cloud or ANY_DATACENTER}/{ANY_DATACENTER}"


def offer_id(gpu_type_id: str, cloud: str, num_gpus: int, place: str = "") -> str:
    return f"{gpu_type_id}/{cloud}/{num_gpus}" + (f"/{place}" if place else "")


def pool_of_offer(identifier: str) -> Pool:
    """Raises ``ValueError`` for what is no offer id of this market."""
    match = _OFFER_ID.fullmatch(identifier)
    if match is None:
        raise ValueError(f"not an offer id of this market: {identifier!r}")
    return Pool(match[1], match[2], int(match[3]), match[4] or "")


def bid_per_gpu(bid: Decimal, num_gpus: int) -> Decimal:
    """The share of one GPU in a bid for the whole pod, rounded up so that the whole is never below the bid."""
    return (bid / num_gpus).quantize(BID_STEP, ROUND_CEILING)


def whole_bid(bid: Decimal, num_gpus: int) -> Decimal:
    """The bid for the whole pod as the market will see it."""
    return bid_per_gpu(bid, num_gpus) * num_gpus


def _pods_per_price(row: PriceRow) -> int:
    """What to multiply stated prices by: 1, or the number of GPUs if they turn out to be per GPU.

    The market states them for the whole pod; that is checked against its own list prices, for it once was otherwise.
    """
    for stated, per_gpu in ((row.on_demand, row.list_price), (row.floor, row.list_spot_price)):
        if stated is not None and per_gpu is not None:
            is_per_gpu = abs(stated - per_gpu) < abs(stated - per_gpu * row.num_gpus)
            return row.num_gpus if is_per_gpu else 1
    return 1


def offer(row: PriceRow, gpu: str, disk_gb: Decimal, *, spot: bool) -> Offer | None:
    """``gpu``: the name under which it was asked for. None when nothing of it can be rented."""
    scale = _pods_per_price(row)
    floor = row.floor * scale if spot and row.floor is not None else None
    on_demand = row.on_demand * scale if row.on_demand is not None else None
    if floor is None and on_demand is None:
        return None
    return Offer(
        provider=PROVIDER,
        offer_id=offer_id(row.gpu.gpu_type_id, row.cloud, row.num_gpus, row.host.country or row.host.region),
        machine_id=pool_id(row.gpu.gpu_type_id, row.cloud),
        host_id="",
        gpu=gpu,
        num_gpus=row.num_gpus,
        vram_gb=row.gpu.memory_gb,
        floor=floor,
        on_demand_price=on_demand,
        storage_price=DISK_PRICE,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=UNRATED,
        verified=True,
        datacenter=row.cloud == "SECURE",
        disk_gb=disk_gb,
        location=row.host.country or row.host.region,
        ends_at=None,
        host=row.host,
    )


def status(row: PodRow, silence: timedelta | None) -> InstanceStatus:
    """``desiredStatus`` is what is meant to be; only a runtime tells that it is. ``silence``: see ``Runtimes``."""
    if row.state == UNTOLD:
        # It may be billed: it counts as running, regardless of its runtime.
        return InstanceStatus.RUNNING
    if row.state == "EXITED":
        return InstanceStatus.STOPPED
    if row.state == "DEAD":
        return InstanceStatus.OFFLINE
    if row.state == "CREATED" or silence is None:
        return InstanceStatus.PROVISIONING
    return InstanceStatus.RUNNING if silence < LOST_AFTER else InstanceStatus.OFFLINE


def start_failed(row: PodRow) -> bool:
    """Whether a stopped pod that never ran did not come up. The runtime of a stopped pod is stale, but proves a run.

    REST tells nothing of most ends; a pod on demand has not been outbid.
    """
    if row.state != "EXITED" or row.is_up:
        return False
    is_silent = row.is_up is None and not row.is_spot
    return is_silent or _START_FAILED.match(row.message) is not None


def disk_rate(container_gb: Decimal, volume_gb: Decimal, *, stopped: bool) -> Decimal:
    """$/h of a pod's two disks."""
    if stopped:
        return storage_rate(STOPPED_VOLUME_PRICE, volume_gb)
    return storage_rate(DISK_PRICE, container_gb + volume_gb)


def _price_to_win(row: PodRow) -> Decimal | None:
    """For a stopped pod. The price of a running one does not show that it was outbid."""
    if row.bid_to_resume is None or row.state != "EXITED":
        return None
    return row.bid_to_resume * max(row.num_gpus, 1)


def _stopped_by(row: PodRow) -> Stopper | None:
    """A pod's own key stops it as its user does: whose permit had run out is not taken for stopped by hand."""
    if row.state != "EXITED":
        return None
    return next((who for words, who in _STOPPERS if words.match(row.message)), None)


def instance(row: PodRow, silence: timedelta | None) -> Instance:
    state = status(row, silence)
    return Instance(
        provider=PROVIDER,
        instance_id=row.pod_id,
        label=row.name,
        machine_id=pool_id(row.gpu_type_id, row.cloud),
        host_id=row.machine_id,
        capacity_type=CapacityType.SPOT if row.is_spot else CapacityType.ON_DEMAND,
        status=state,
        intended_running=row.state in ("CREATED", "RUNNING", UNTOLD),
        bid=row.bid,
        storage_rate=disk_rate(row.container_gb, row.volume_gb, stopped=state is InstanceStatus.STOPPED),
        gpu=row.gpu,
        num_gpus=row.num_gpus,
        ends_at=None,
        message=row.message,
        start_failed=start_failed(row),
        price_to_win=_price_to_win(row),
        stopped_by=_stopped_by(row),
    )


def charges(rows: Iterable[BillRow], since: date, until: date) -> tuple[Charge, ...]:
    """One charge per pod, day and kind, in that order; nothing if nothing was billed."""
    totals: dict[tuple[str, date, CostKind], Decimal] = {}
    periods: dict[tuple[str, date], list[tuple[datetime, datetime]]] = {}
    for row in rows:
        if not since <= row.day <= until:
            continue
        if row.period is not None:
            periods.setdefault((row.pod_id, row.day), []).append(row.period)
        for kind, amount in ((CostKind.COMPUTE, row.compute), (CostKind.STORAGE_RUNNING, row.storage)):
            key = row.pod_id, row.day, kind
            totals[key] = totals.get(key, ZERO) + amount
    billed = sorted((key, amount) for key, amount in totals.items() if amount)
    return tuple(Charge(*key, amount, periods=tuple(periods.get(key[:2], ()))) for key, amount in billed)
