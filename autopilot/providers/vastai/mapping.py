"""Records of the wire → the domain's values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

from autopilot.domain.instance import Charge, CostKind, Instance, InstanceStatus, SshAddress, TopUp
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.time import utc_day
from autopilot.providers import values
from autopilot.providers.vastai.wire import MEGABYTES_PER_GB, ChargeRow, InstanceRow, OfferRow

PROVIDER = "vastai"
BID_STEP = Decimal("0.001")
LOWEST_BID = Decimal("0.001")
HIGHEST_BID_PER_GPU = Decimal(32)
HIGHEST_BID = Decimal(128)

_NOT_YET_UP = frozenset({"", "created", "loading"})
_SILENT = frozenset({"offline", "unknown"})
_RELEASED = frozenset({"stopped", "unloaded"})
_KINDS = {
    "gpu": CostKind.COMPUTE,
    "disk": CostKind.STORAGE_RUNNING,
    "bwd": CostKind.BANDWIDTH,
    "bwu": CostKind.BANDWIDTH,
}


def bid_for(bid: Decimal, num_gpus: int | None) -> Decimal:
    """The bid as the market takes it: up to the next tenth of a cent, within what it allows for that many GPUs."""
    highest = HIGHEST_BID if num_gpus is None else min(HIGHEST_BID, HIGHEST_BID_PER_GPU * num_gpus)
    return min(max(bid.quantize(BID_STEP, ROUND_CEILING), LOWEST_BID), highest)


def status(row: InstanceRow) -> InstanceStatus:
    """Decided on the contract (``cur_state``, else ``intended_status``), for ``actual_status`` lags by minutes.

    A container that ended on a contract that goes on counts as running: whether it is billed is not documented.
    """
    if row.actual in _SILENT:
        return InstanceStatus.OFFLINE
    if (row.current or row.intended) in _RELEASED:
        return InstanceStatus.STOPPED
    if row.actual in _NOT_YET_UP:
        return InstanceStatus.PROVISIONING
    return InstanceStatus.RUNNING


def top_up(account: Mapping[str, Any]) -> TopUp:
    """As its account answers it. An ``autobill_threshold``, which the SDK can set, counts as a card that pays in."""
    bill_below = values.dollars(account.get("autobill_threshold"))
    is_billed = bill_below is not None and bill_below > ZERO
    is_on = values.boolean(account.get("balance_threshold_enabled"))
    below = bill_below if is_billed else values.dollars(account.get("balance_threshold"))
    return TopUp(True if is_billed else is_on, below)


def instance(row: InstanceRow) -> Instance:
    return Instance(
        provider=PROVIDER,
        instance_id=row.instance_id,
        label=row.label,
        machine_id=row.machine_id,
        host_id=row.host_id,
        capacity_type=CapacityType.SPOT if row.is_bid else CapacityType.ON_DEMAND,
        status=status(row),
        intended_running=(row.intended or row.current or "running") == "running",
        bid=row.bid,
        storage_rate=row.storage_rate,
        gpu=row.gpu,
        num_gpus=row.num_gpus,
        ends_at=row.ends_at,
        message=row.message,
        ssh=tuple(SshAddress(host, port) for host, port in row.ssh) if row.actual == "running" else (),
    )


def offers(on_demand: Iterable[OfferRow], bid: Iterable[OfferRow], ours: Iterable[OfferRow] = ()) -> tuple[Offer, ...]:
    """One offer per machine and chunk size, the cheapest.

    An on-demand row carries both prices. A row that only the bid search returned has a floor alone, unless the
    on-demand search showed ``ours``, GPUs of the same host that we hold: a host has one on-demand price for all.
    """
    prices = {(row.machine_id, row.num_gpus): row.price for row in ours}
    both = _cheapest(_offer(row, floor=row.min_bid, on_demand_price=row.price) for row in on_demand)
    floors = _cheapest(
        _offer(row, floor=row.min_bid, on_demand_price=prices.get((row.machine_id, row.num_gpus)))
        for row in bid
        if row.min_bid
    )
    return tuple((floors | both).values())


def _cheapest(offers: Iterable[Offer]) -> dict[tuple[str, str, int], Offer]:
    chosen: dict[tuple[str, str, int], Offer] = {}
    for offer in offers:
        held = chosen.get(offer.key)
        if held is None or _cost_order(offer) < _cost_order(held):
            chosen[offer.key] = offer
    return chosen


def _cost_order(offer: Offer) -> tuple[Decimal, Decimal, int]:
    unknown = Decimal("Infinity")
    floor = unknown if offer.floor is None else offer.floor
    return floor, unknown if offer.on_demand_price is None else offer.on_demand_price, int(offer.offer_id)


def _offer(row: OfferRow, *, floor: Decimal | None, on_demand_price: Decimal | None) -> Offer:
    return Offer(
        provider=PROVIDER,
        offer_id=row.offer_id,
        machine_id=row.machine_id,
        host_id=row.host_id,
        gpu=row.gpu,
        num_gpus=row.num_gpus,
        vram_gb=row.gpu_ram_mb / MEGABYTES_PER_GB,
        floor=floor,
        on_demand_price=on_demand_price,
        storage_price=row.storage_price,
        upload_price=row.upload_price,
        download_price=row.download_price,
        download_mbps=row.download_mbps,
        reliability=row.reliability,
        verified=row.verified,
        datacenter=row.datacenter,
        disk_gb=row.disk_gb,
        location=row.location,
        ends_at=row.ends_at,
        host=row.host,
    )


def charges(rows: Iterable[ChargeRow], since: date, until: date) -> tuple[Charge, ...]:
    """One charge per instance, day and kind, in that order. A line of no known type is a fee; below 0, a credit."""
    totals: dict[tuple[str, date, CostKind], Decimal] = {}
    labels: dict[str, str] = {}
    periods: dict[tuple[str, date, CostKind], list[tuple[datetime, datetime]]] = {}
    for row in rows:
        day = utc_day(row.start)
        if not since <= day <= until:
            continue
        labels[row.instance_id] = row.label or labels.get(row.instance_id, "")
        for item_type, amount in row.items:
            other = CostKind.CREDIT if amount < ZERO else CostKind.FEE
            key = row.instance_id, day, _KINDS.get(item_type, other)
            totals[key] = totals.get(key, ZERO) + amount
            if row.end is not None:
                periods.setdefault(key, []).append((row.start, row.end))
    return tuple(
        Charge(*key, amount, labels[key[0]], tuple(periods.get(key, ()))) for key, amount in sorted(totals.items())
    )
