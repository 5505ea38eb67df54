"""The market's JSON as frozen records. Prices that make no sense are left out; bids and instances must be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from autopilot.domain.money import CENT, ZERO
from autopilot.providers import values
from autopilot.providers.strangers import is_strangers, says_whose

BID_STATUSES = frozenset({"Open", "Allocated", "Preempting", "Paused", "Relocating", "Terminated", "Replaced"})
INSTANCE_STATUSES = frozenset(
    {
        "NEW", "CONFIRMED", "SCHEDULED", "INITIALIZING", "STARTING", "RUNNING", "STOPPING", "STOPPED", "TERMINATED",
        "RELOCATING", "PREEMPTING", "PREEMPTED", "REPLACED", "PAUSED", "ERROR",
    }
)  # fmt: skip
LIVE_BIDS = ("Paused", "Open", "Preempting", "Allocated")
"""To ask for, in the order in which a bid mostly passes through them, so that one that moves on is in a later list. A
state that the market's filter does not accept would have the whole list refused."""
DEAREST_BID = Decimal(10_000)
"""$/h of all machines of one bid."""
MOST_SAMPLES = 50_000
"""Samples of one record of prices: a month of auctions has 21,600."""
MOST_INSTANCES = 100
"""Instances of one bid, in its own list: one for each relocation, and one more."""

LONGEST_WORD = 40

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REGION = re.compile(r"[A-Za-z0-9-]{1,40}")


class UnreadableRow(ValueError):
    """A row lacks what must be known of it; it cannot be skipped without a false picture."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A kind of machine in one region. ``name``: like ``h100-80gb.sxm.8x``."""

    type_id: str
    name: str
    num_gpus: int
    memory_gb: Decimal
    """Per GPU."""
    storage_gb: Decimal | None
    cpus: Decimal | None = None
    ram_gb: Decimal | None = None
    """Of the whole machine."""


@dataclass(frozen=True, slots=True)
class AuctionRow:
    """A kind of machine in a region. Its prices are read apart, where more of them are told."""

    type_id: str
    region: str


@dataclass(frozen=True, slots=True)
class PriceRow:
    """$/h of one machine; None: not stated. ``ceiling``: no bid may be higher."""

    spot: Decimal | None
    minimum: Decimal | None
    lowest_allocated: Decimal | None
    wins_now: Decimal | None
    """The limit that the market itself says would win."""
    available: int | None
    ceiling: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """``prices``: $/h of a machine, by when it began to be so. ``is_whole``: the last holds until the end."""

    prices: dict[datetime, Decimal]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class BidRow:
    """``status``: a word outside ``BID_STATUSES`` is unknown. ``region`` empty: not stated, because a bid needs none.
    A stranger's bid that cannot be read in full has only its id, name and status."""

    bid_id: str
    name: str
    status: str
    limit: Decimal
    """$/h of one machine."""
    quantity: int
    type_id: str
    region: str
    instance_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A machine of a bid. ``status``: a word outside ``INSTANCE_STATUSES`` is unknown."""

    instance_id: str
    bid_id: str
    status: str
    created_at: datetime | None


def check_id(value: object) -> str | None:
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _region(value: object) -> str | None:
    return value if isinstance(value, str) and _REGION.fullmatch(value) else None


def dollars(value: object) -> Decimal | None:
    """``"$2.50"`` as 2.50."""
    if not isinstance(value, str):
        return None
    return values.price(value.strip().removeprefix("$").replace(",", ""))


def _cents(value: object) -> Decimal | None:
    """Cents as dollars."""
    read = values.number(value)
    return None if read is None else values.price(read * CENT)


def _positive(value: Decimal | None) -> Decimal | None:
    return value if value else None


def rows(body: object, *names: str) -> list[Any] | None:
    """A list that is bare, or under one of these names in an object; None if there is none."""
    if isinstance(body, list):
        return body
    found = values.mapping(body)
    return next((found[name] for name in names if isinstance(found.get(name), list)), None)


def type_row(raw: object) -> TypeRow | None:
    """None for what is no machine with GPUs."""
    row = values.mapping(raw)
    type_id, name = check_id(row.get("fid")), values.text(row.get("name"))
    count, memory_gb = values.integer(row.get("num_gpus")), values.number(row.get("gpu_memory_gb"))
    if type_id is None or not name or not count or not 0 < count <= 64 or memory_gb is None or memory_gb <= 0:
        return None
    storage, cpus, ram = (_positive(values.number(row.get(key))) for key in ("local_storage_gb", "num_cpus", "ram_gb"))
    return TypeRow(type_id, name[:80], count, memory_gb, storage, cpus, ram)


def auction_row(raw: object) -> AuctionRow | None:
    row = values.mapping(raw)
    type_id, region = check_id(row.get("instance_type")), _region(row.get("region"))
    return None if type_id is None or region is None else AuctionRow(type_id, region)


def price_row(raw: object) -> PriceRow:
    row = values.mapping(raw)
    return PriceRow(
        spot=_positive(_cents(row.get("spot_price_cents"))),
        minimum=_positive(_cents(row.get("minimum_price_cents"))),
        lowest_allocated=_positive(_cents(row.get("lowest_allocated_bid_cents"))),
        wins_now=_positive(_cents(row.get("dynamic_win_price_cents"))),
        available=_count(row.get("available_capacity")),
        ceiling=_positive(_cents(row.get("max_spot_price_cents"))),
    )


def past_prices(raw: object, type_id: str, region: str) -> PriceRecord | None:
    """The record of that pool. None: that is not a record."""
    body = values.mapping(raw)
    series = body.get("series")
    if isinstance(series, list):
        # A record that breaks off says nothing of the time after its last price.
        return _series_prices(series, type_id, region, is_whole=body.get("complete") is not False)
    listed = body.get("prices")
    if not isinstance(listed, list):
        return None
    found: dict[datetime, Decimal] = {}
    for row in map(values.mapping, listed[:MOST_SAMPLES]):
        at, price = values.timestamp(row.get("timestamp")), _positive(dollars(row.get("spot_instance_price")))
        if at is not None and price is not None:
            found[at] = price
    return PriceRecord(found, is_whole=len(listed) <= MOST_SAMPLES)


def _series_prices(series: list[Any], type_id: str, region: str, *, is_whole: bool) -> PriceRecord | None:
    """Prices are texts in dollars. A bare number might be cents, and is left out: no price is better than one a
    hundred times too high."""
    found: dict[datetime, Decimal] = {}
    for row in map(values.mapping, series):
        if row.get("instance_type") != type_id or row.get("region") not in (region, None):
            continue
        times, prices = row.get("timestamps"), row.get("spot_prices")
        if not isinstance(times, list) or not isinstance(prices, list) or len(times) != len(prices):
            return None
        is_whole = is_whole and len(times) <= MOST_SAMPLES
        for stated_at, stated in zip(times[:MOST_SAMPLES], prices[:MOST_SAMPLES], strict=True):
            at, price = values.timestamp(stated_at), _positive(dollars(stated))
            if at is not None and price is not None:
                found[at] = price
    return PriceRecord(found, is_whole)


def _count(value: object) -> int | None:
    read = values.integer(value)
    return read if read is not None and 0 <= read < 10**6 else None


def bid_row(raw: object) -> BidRow:
    """Raises ``UnreadableRow`` when the id, status, limit, quantity or kind of machine is missing."""
    row = values.mapping(raw)
    bid_id, status, limit = check_id(row.get("fid")), values.text(row.get("status")), dollars(row.get("limit_price"))
    quantity, type_id = _count(row.get("instance_quantity")), check_id(row.get("instance_type"))
    region = "" if row.get("region") is None else _region(row["region"])
    if bid_id is None or not status or limit is None or not quantity:
        raise UnreadableRow(f"bid {bid_id or '?'} lacks its fid, status, limit_price or instance_quantity")
    if limit * quantity > DEAREST_BID:
        raise UnreadableRow(f"bid {bid_id} is for {quantity} machines at ${limit}/h, which is no credible price")
    if type_id is None or region is None:
        raise UnreadableRow(f"bid {bid_id} lacks its instance_type, or its region makes no sense")
    return BidRow(
        bid_id=bid_id,
        name=values.label(row.get("name")),
        status=status[:LONGEST_WORD],
        limit=limit,
        quantity=quantity,
        type_id=type_id,
        region=region,
        instance_ids=_instance_ids(bid_id, row),
    )


def listed_bid(raw: object) -> BidRow:
    """Ours in full; of anybody's the id and the name at least. Raises ``UnreadableRow``."""
    row = values.mapping(raw)
    bid_id = check_id(row.get("fid"))
    if not says_whose(row, "name"):
        raise UnreadableRow(f"bid {bid_id or '?'} has no name, so it may be ours")
    try:
        return bid_row(raw)
    except UnreadableRow:
        if bid_id is None or not is_strangers(row, "name"):
            raise
        status = values.text(row.get("status"))[:LONGEST_WORD]
        return BidRow(bid_id, values.label(row["name"]), status, ZERO, 1, "", "", ())


def _instance_ids(bid_id: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    stated = row.get("instances")
    found = [check_id(each) for each in stated[:MOST_INSTANCES]] if isinstance(stated, list) else None
    if found is None or any(each is None for each in found):
        raise UnreadableRow(f"bid {bid_id} does not list its instances")
    return tuple(each for each in found if each is not None)


def instance_row(raw: object) -> InstanceRow | None:
    """None if it belongs to no bid: then it is not ours, regardless of its other fields. Raises ``UnreadableRow`` when
    the id, the status or whose it is cannot be read."""
    row = values.mapping(raw)
    if "bid" in row and row["bid"] is None:
        return None
    instance_id, bid = check_id(row.get("fid")), check_id(row.get("bid"))
    if bid is None:
        raise UnreadableRow(f"instance {instance_id or '?'} does not name its bid")
    status = values.text(row.get("status")).removeprefix("STATUS_")[:LONGEST_WORD]
    if instance_id is None:
        raise UnreadableRow(f"an instance of bid {bid} lacks its fid")
    return InstanceRow(instance_id, bid, status, values.timestamp(row.get("created_at")))


def bid_id(raw: object) -> str | None:
    """Id of a bid, as far as the answer has it."""
    return check_id(values.mapping(raw).get("fid"))
