"""The market's answers as JSON rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot_lab.sandbox.market.metering import GPU
from autopilot_lab.sandbox.mithril.bids import Bid, Machine
from autopilot_lab.sandbox.mithril.market import MithrilMarket
from autopilot_lab.sandbox.mithril.pools import AuctionPool, Sample, TypeSpec

Json = dict[str, Any]


def instant(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def dollars(amount: Decimal) -> str:
    return f"${amount:.2f}"


def _cents(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount * 100)


def type_row(kind: TypeSpec) -> Json:
    return {
        "fid": kind.id,
        "name": kind.name,
        "num_cpus": kind.num_cpus,
        "ram_gb": kind.ram_gb,
        "num_gpus": kind.num_gpus,
        "gpu_type": kind.gpu_type,
        "gpu_memory_gb": kind.gpu_memory_gb,
        "gpu_socket": kind.gpu_socket,
        "local_storage_gb": kind.local_storage_gb,
        "network_type": "ethernet",
    }


def auction_row(pool: AuctionPool) -> Json:
    cleared = pool.cleared
    return {
        "fid": pool.id,
        "instance_type": pool.spec.type.id,
        "region": pool.spec.region,
        "capacity": cleared.free,
        "last_instance_price": dollars(cleared.price),
        "lowest_allocated_price": None if cleared.lowest is None else dollars(cleared.lowest),
        "adjustable_memory": False,
        "default_image_version": "imgver_ubuntu2204",
    }


def price_row(market: MithrilMarket, pool: AuctionPool, *, is_stale: bool) -> Json:
    cleared = market.told.get(pool.key, pool.cleared) if is_stale else pool.cleared
    return {
        "spot_price_cents": _cents(cleared.price),
        "reserved_price_cents": _cents(pool.minimum * 2),
        "minimum_price_cents": _cents(pool.minimum),
        "lowest_allocated_bid_cents": None if cleared.free else _cents(cleared.lowest),
        "dynamic_win_price_cents": None,
        "available_capacity": cleared.free,
        "total_capacity": pool.slots,
        "max_spot_price_cents": _cents(pool.highest),
    }


def _samples(pool: AuctionPool, start: datetime | None, end: datetime | None, count: int) -> list[Sample]:
    """``count`` samples evenly over the span; -1: all."""
    kept = [each for each in pool.history if (start is None or each.at >= start) and (end is None or each.at <= end)]
    if 0 < count < len(kept):
        kept = [kept[index * (len(kept) - 1) // max(count - 1, 1)] for index in range(count)]
    return kept


def series_row(pool: AuctionPool, start: datetime | None, end: datetime | None, count: int) -> Json:
    kept = _samples(pool, start, end, count)
    return {
        "instance_type": pool.spec.type.id,
        "region": pool.spec.region,
        "timestamps": [instant(each.at) for each in kept],
        "spot_prices": [dollars(each.price) for each in kept],
        "reserved_prices": [dollars(pool.minimum * 2) for _ in kept],
        "region_disabled": False,
    }


def old_history(pool: AuctionPool, start: datetime | None, end: datetime | None, count: int) -> list[Json]:
    """As it was told before."""
    return [
        {
            "spot_instance_price": dollars(each.price),
            "reserved_instance_price": dollars(pool.minimum * 2),
            "timestamp": instant(each.at),
            "instance_type": pool.spec.type.id,
            "region": pool.spec.region,
        }
        for each in _samples(pool, start, end, count)
    ]


def bill_rows(bid: Bid) -> list[Json]:
    """Of each of its machines, the periods in which it was billed."""
    events: dict[str, list[Json]] = {machine.id: [] for machine in bid.machines}
    for start, end, rate in bid.meter.stretches(GPU):
        made = [machine.id for machine in bid.machines if machine.created_at <= start]
        events[made[-1]].append(
            {
                "price_cents": int(rate * 100 / bid.order.quantity),
                "start_time": instant(start),
                "end_time": None if end is None else instant(end),
            }
        )
    return [
        {"instance_fid": machine_id, "events": billed, "bid_fid": bid.id, "reservation_fid": None}
        for machine_id, billed in events.items()
    ]


def bid_row(bid: Bid) -> Json:
    order = bid.order
    return {
        "fid": bid.id,
        "name": order.name,
        "project": order.project,
        "created_by": "user_sandbox",
        "created_at": instant(bid.created_at),
        "deactivated_at": None if bid.deactivated_at is None else instant(bid.deactivated_at),
        "limit_price": dollars(bid.limit),
        "instance_quantity": order.quantity,
        "instance_type": order.type_id,
        "region": order.region,
        "instances": [machine.id for machine in bid.machines],
        "launch_specification": {
            "volumes": list(order.volumes),
            "ssh_keys": list(order.ssh_keys),
            "startup_script": order.startup_script,
            "kubernetes_cluster": None,
        },
        "status": bid.shown_as or str(bid.status),
    }


def machine_row(bid: Bid, machine: Machine) -> Json:
    return {
        "fid": machine.id,
        "name": f"{bid.order.name}-{machine.id[-4:]}",
        "project": bid.order.project,
        "created_at": instant(machine.created_at),
        "created_by": "user_sandbox",
        "instance_type": bid.order.type_id,
        "region": bid.order.region,
        "bid": bid.id,
        "reservation": None,
        "ssh_destination": None,
        "private_ip": None,
        "status": f"STATUS_{machine.status}",
    }


def status_row(bid: Bid, machine: Machine) -> Json:
    return {
        "fid": machine.id,
        "name": f"{bid.order.name}-{machine.id[-4:]}",
        "status": f"STATUS_{machine.status}",
        "bid": bid.id,
        "reservation": None,
        "end_time": None if machine.end_time is None else instant(machine.end_time),
    }


def listed_machines(market: MithrilMarket, lag_s: float) -> list[Json]:
    """``lag_s``: how late the list learns of new machines."""
    until = market.now - timedelta(seconds=lag_s)
    return [
        machine_row(bid, machine)
        for bid in market.bids.values()
        for machine in bid.machines
        if machine.created_at <= until
    ]
