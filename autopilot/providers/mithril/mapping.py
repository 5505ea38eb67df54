"""Records of the wire → the domain's values. Pure.

Mithril sells no single machines: a kind of machine in a region is a *pool*, and a bid wins a machine, loses it and
wins one again. So a pool is our machine, and a bid our instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal

from autopilot.domain import gpu_names
from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.money import CENT, ZERO
from autopilot.domain.offer import CapacityType, Offer
from autopilot.providers.mithril.own_bids import Own
from autopilot.providers.mithril.wire import BID_STATUSES, INSTANCE_STATUSES, BidRow, InstanceRow, PriceRow, TypeRow
from autopilot.providers.vm_hosts import facts_of_vm

PROVIDER = "mithril"
HIGHEST_LIMIT = Decimal(1000)
"""$/h of one machine."""
DISK_PRICE = ZERO
"""$/GB-month. What the boot disk costs while its machine is stopped is published nowhere."""
UNRATED = Decimal(1)
"""The market publishes no reliability."""
UNSTATED_DISK_GB = Decimal(100)
"""Assumed for a kind of machine that does not state its local storage."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)

_STARTING = frozenset({"NEW", "CONFIRMED", "SCHEDULED", "INITIALIZING", "STARTING"})
_ON = frozenset({"RUNNING", "RELOCATING", "PREEMPTING", "STOPPING"})
"""It computes, and is billed."""
_OFF = frozenset({"STOPPED", "PREEMPTED", "PAUSED"})
_OVER = frozenset({"TERMINATED", "REPLACED"})
_ENDED = frozenset({"Terminated", "Replaced"})
_NOTICES = {
    "PREEMPTING": "outbid: it is stopped within five minutes unless the bid wins again",
    "RELOCATING": "it is moved to another host: stopped within five minutes, and started there",
}
_OFFER_ID = re.compile(r"([A-Za-z0-9-]{1,40})/([A-Za-z0-9_-]{1,64})")
_COUNT = re.compile(r"\d{1,2}x", re.IGNORECASE)
_SIZE = re.compile(r"-\d{1,3}gb", re.IGNORECASE)


def pool_id(region: str, type_id: str) -> str:
    return f"{region}/{type_id}"


def pool_of_offer(identifier: str) -> tuple[str, str]:
    """(region, kind of machine). Raises ``ValueError`` for what is no offer id of this market."""
    match = _OFFER_ID.fullmatch(identifier)
    if match is None:
        raise ValueError(f"not an offer id of this market: {identifier!r}")
    return match[1], match[2]


def gpu_of(name: str) -> str:
    """``H100 SXM`` for ``h100-80gb.sxm.8x``: the standard name where there is one."""
    parts = [part for part in name.split(".") if not _COUNT.fullmatch(part)]
    return gpu_names.standard(" ".join(_SIZE.sub("", part) for part in parts).upper())


def limit_for(bid: Decimal, ceiling: Decimal | None = None) -> Decimal:
    """The bid as the market takes it: whole cents, never more than was asked for. ``ceiling``: of its pool."""
    highest = HIGHEST_LIMIT if ceiling is None else min(ceiling.quantize(CENT, ROUND_FLOOR), HIGHEST_LIMIT)
    return min(bid.quantize(CENT, ROUND_FLOOR), highest)


@dataclass(frozen=True, slots=True)
class Room:
    """``floor``: $/h, the least limit that wins a machine for one more bid of ours; None: none does that is known of.

    ``bids``: how many more of ours win at it.
    """

    floor: Decimal | None
    bids: int = 0


def room(row: PriceRow, own: Own) -> Room:
    """The floor is not the price: with no machine free a bid has to beat the lowest that has one. A bid between the two
    loses, and raises what everybody pays.

    Bids of our own are no competition. No more are made than can win, for one that loses sets the price of the rest;
    and where the lowest that has a machine is ours, one more would but take it from ourselves.
    """
    found = _room(row, own)
    is_allowed = found.floor is None or row.ceiling is None or found.floor <= row.ceiling
    return found if is_allowed else Room(None)


def _room(row: PriceRow, own: Own) -> Room:
    least = row.minimum or ZERO
    if row.available:
        free = row.available - own.waiting
        found = _least_for_a_free_one(row, own)
        return Room(found, free) if found is not None and free > 0 else Room(None)
    lowest = row.wins_now - CENT if row.wins_now is not None else row.lowest_allocated
    if not lowest or own.waiting or own.is_echoed_by(lowest):
        return Room(None)
    return Room(max(lowest + CENT, least), 1)


def _least_for_a_free_one(row: PriceRow, own: Own) -> Decimal | None:
    least = row.minimum or ZERO
    if row.wins_now is not None and not own.is_echoed_by(row.wins_now - CENT):
        return max(row.wins_now, least)
    is_others = row.spot is not None and not own.is_echoed_by(row.spot)
    price = max(row.spot or ZERO, least) if is_others else least
    return price + CENT if price else None


def offer(kind: TypeRow, region: str, row: PriceRow, gpu: str, own: Own) -> Offer | None:
    """``gpu``: the name under which it was asked for. None if no bid is known to win."""
    found = room(row, own)
    if found.floor is None or found.floor > HIGHEST_LIMIT:
        return None
    return Offer(
        provider=PROVIDER,
        offer_id=pool_id(region, kind.type_id),
        machine_id=pool_id(region, kind.type_id),
        host_id="",
        gpu=gpu,
        num_gpus=kind.num_gpus,
        vram_gb=kind.memory_gb,
        floor=found.floor,
        on_demand_price=None,
        storage_price=DISK_PRICE,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=UNRATED,
        verified=True,
        datacenter=True,
        disk_gb=kind.storage_gb or UNSTATED_DISK_GB,
        location=region,
        ends_at=None,
        clearing_price=None if row.spot is None or own.is_echoed_by(row.spot) else row.spot,
        room=found.bids,
        host=facts_of_vm(region, kind.cpus, kind.ram_gb),
    )


def current(bid: BidRow, rows: Iterable[InstanceRow]) -> InstanceRow | None:
    """The machine that the bid has now: of those that are not over the newest."""
    alive = [row for row in rows if row.bid_id == bid.bid_id and row.status not in _OVER]
    return max(alive, key=lambda row: (row.created_at or LONG_AGO, row.instance_id), default=None)


def is_on(machine: InstanceRow) -> bool:
    """Whether it computes, or is about to. In an unknown state it may."""
    return machine.status in _ON | _STARTING or machine.status not in INSTANCE_STATUSES


def machine_is_over(machine: InstanceRow) -> bool:
    return machine.status in _OVER


def has_ended(bid: BidRow) -> bool:
    """Whether the bid itself is over; a machine of it may still stop."""
    return bid.status in _ENDED


def is_over(bid: BidRow, machine: InstanceRow | None) -> bool:
    """Whether nothing is left of it. A bid that has ended may have a machine that still stops, and is billed."""
    return has_ended(bid) and not (machine is not None and is_on(machine))


def status(bid: BidRow, machine: InstanceRow | None, *, is_waiting: bool) -> InstanceStatus:
    """``is_waiting``: a new bid may still win its first machine soon."""
    # In an unknown state it may be billed, and no bill corrects the books later: it counts as running.
    if bid.status not in BID_STATUSES or (machine is not None and machine.status not in INSTANCE_STATUSES):
        return InstanceStatus.RUNNING
    if machine is not None and machine.status in _ON:
        return InstanceStatus.RUNNING
    if bid.status == "Relocating":
        return InstanceStatus.RUNNING
    if bid.status == "Paused" or (machine is not None and machine.status == "ERROR"):
        return InstanceStatus.STOPPED
    if bid.status in ("Open", "Preempting"):
        is_new = machine is None and not bid.instance_ids
        starts = machine is not None and machine.status in _STARTING
        return InstanceStatus.PROVISIONING if starts or (is_new and is_waiting) else InstanceStatus.STOPPED
    # It has won: what it has was stopped and starts again, or is about to be listed.
    return InstanceStatus.PROVISIONING


def message(bid: BidRow, machine: InstanceRow | None) -> str:
    if machine is not None and machine.status in _NOTICES:
        return _NOTICES[machine.status]
    if bid.status == "Open":
        return "the bid waits to win" + (" again" if machine is not None or bid.instance_ids else "")
    return f"bid {bid.status}" + (f", machine {machine.status}" if machine is not None else "")


def instance(
    bid: BidRow,
    machine: InstanceRow | None,
    kind: TypeRow | None,
    prices: PriceRow | None,
    others: Own,
    *,
    is_waiting: bool,
) -> Instance:
    """``kind`` None: the market does not list it any more. ``prices`` None: they cannot be read now. ``others``: of our
    own bids in its pool.
    """
    state = status(bid, machine, is_waiting=is_waiting)
    limit = bid.limit * bid.quantity
    return Instance(
        provider=PROVIDER,
        instance_id=bid.bid_id,
        label=bid.name,
        machine_id=pool_id(bid.region, bid.type_id),
        host_id="",
        capacity_type=CapacityType.SPOT,
        status=state,
        intended_running=bid.status != "Paused" and not has_ended(bid),
        bid=limit,
        storage_rate=ZERO,
        gpu=gpu_of(kind.name) if kind is not None else "",
        num_gpus=kind.num_gpus * bid.quantity if kind is not None else 0,
        ends_at=None,
        message=message(bid, machine),
        start_failed=machine is not None and machine.status == "ERROR",
        price_to_win=_price_to_win(bid, prices, others)
        if state in (InstanceStatus.STOPPED, InstanceStatus.RUNNING)
        else None,
        price=None if prices is None or prices.spot is None else min(prices.spot * bid.quantity, limit),
        stopped_by=_stopped_by(bid, machine) if state is InstanceStatus.STOPPED else None,
    )


def _stopped_by(bid: BidRow, machine: InstanceRow | None) -> Stopper | None:
    """Only the account's user pauses a bid: nothing here does. A bid that waits has lost."""
    if machine is not None and machine.status == "ERROR":
        return Stopper.HOST
    return {"Paused": Stopper.USER, "Open": Stopper.BIDDER, "Preempting": Stopper.BIDDER}.get(bid.status)


def _price_to_win(bid: BidRow, prices: PriceRow | None, others: Own) -> Decimal | None:
    """For a bid that has lost, and waits or still has its machine for minutes: its own limit is too low."""
    has_lost = bid.status in ("Open", "Preempting")
    needed = room(prices, others).floor if prices is not None and has_lost else None
    return None if needed is None else needed * bid.quantity
