"""The market's own bill: for each machine of a bid, at what price it was billed from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.labels import LABEL_PREFIX
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.time import split_by_day, start_of_day
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers import values
from autopilot.providers.drift.shape import LIST, NULL, NUMBER, TEXT, AnswerShape, ignore, read
from autopilot.providers.mithril import wire
from autopilot.providers.mithril.client import MithrilClient
from autopilot.providers.mithril.pacing import Family

PATH = "/v2/instances/pricing/history"
ENDED_LATELY = timedelta(days=1)
"""A bid that ended so long before the days that are asked for has nothing on their bill."""
DEAREST_CENTS = 1_000_000
"""An hour of one machine, in cents: more is no price."""

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*"
_ID = r"[A-Za-z0-9_-]{1,64}"
EVENT = AnswerShape(
    "billed period",
    {
        **read("price_cents", NUMBER, money=True),
        **read("start_time", TEXT, money=True, form=_TIME),
        **read("end_time", TEXT, NULL, money=True, form=_TIME),
    },
)
MACHINE = AnswerShape(
    "bill of a machine",
    {
        **read("events", LIST, inside=EVENT),
        **read("bid_fid", TEXT, NULL, optional=True, form=_ID),
        **ignore("instance_fid", TEXT),
        **ignore("reservation_fid", TEXT, NULL, optional=True),
    },
)
BILL = AnswerShape(
    "bill", {**read("instances", LIST, inside=MACHINE), **read("next_cursor", TEXT, NULL, optional=True)}
)
NAMED_BIDS = AnswerShape(
    "list of bids to bill", {**read("data", LIST), **read("next_cursor", TEXT, NULL, optional=True)}
)


@dataclass(frozen=True, slots=True)
class BilledPeriod:
    """``price``: $/h of one machine."""

    price: Decimal
    since: datetime
    until: datetime


async def read_charges(
    client: MithrilClient, bids_path: str, wish: Mapping[str, str], since: date, until: date, now: datetime
) -> tuple[Charge, ...]:
    """What our bids were billed on these days. A period without an end goes on: it is billed until ``now``.

    ``wish``: what every list takes. Raises ``MarketUnknown``.
    """
    found: list[Charge] = []
    for row in await client.rows(Family.LIST, bids_path, NAMED_BIDS, wish):
        bid_id, name, ended_at = _bid(row)
        if not name.startswith(LABEL_PREFIX) or (ended_at and ended_at + ENDED_LATELY < start_of_day(since)):
            continue
        machines = await _machines(client, {**wish, "bid_fid": bid_id})
        periods = [period for machine in machines for period in _periods(machine, bid_id, now)]
        found += _charges(bid_id, name, periods, since, until)
    return tuple(found)


def _bid(raw: object) -> tuple[str, str, datetime | None]:
    """Its id, its name, and when it ended. Raises ``MarketUnknown``."""
    row = values.mapping(raw)
    bid_id = wire.bid_id(row)
    if bid_id is None:
        raise MarketUnknown("the list has a bid without its fid")
    return bid_id, values.label(row.get("name")), values.timestamp(row.get("deactivated_at"))


async def _machines(client: MithrilClient, wish: Mapping[str, str]) -> list[Any]:
    """A bid that has never won has no bill. Raises ``MarketUnknown``."""
    try:
        return await client.rows(Family.LIST, PATH, BILL, wish, names=("instances",))
    except MarketUnknown as error:
        if error.code is RefusalCode.NOT_FOUND:
            return []
        raise


def _periods(raw: object, bid_id: str, now: datetime) -> Iterator[BilledPeriod]:
    """Raises ``MarketUnknown``: a bill of which a part cannot be read is too low."""
    row = values.mapping(raw)
    events = row.get("events")
    if not isinstance(events, list) or row.get("bid_fid", bid_id) not in (bid_id, None):
        raise MarketUnknown(f"{PATH}: a machine of bid {bid_id} has no readable bill")
    for event in map(values.mapping, events):
        cents, since = values.integer(event.get("price_cents")), values.timestamp(event.get("start_time"))
        end = event.get("end_time")
        until = now if end is None else values.timestamp(end)
        if cents is None or not 0 <= cents <= DEAREST_CENTS or since is None or until is None:
            raise MarketUnknown(f"{PATH}: a period of bid {bid_id} lacks its price or its times")
        if since < until:
            yield BilledPeriod(Decimal(cents) / 100, since, until)


def _charges(bid_id: str, name: str, periods: Iterable[BilledPeriod], first: date, last: date) -> Iterator[Charge]:
    """One for each day."""
    amounts: dict[date, Decimal] = {}
    billed: dict[date, list[tuple[datetime, datetime]]] = {}
    for period in periods:
        for day, since, until in split_by_day(period.since, period.until):
            if first <= day <= last:
                amounts[day] = amounts.get(day, ZERO) + accrue(period.price, until - since)
                billed.setdefault(day, []).append((since, until))
    for day, amount in sorted(amounts.items()):
        if amount:
            yield Charge(bid_id, day, CostKind.COMPUTE, amount, name, tuple(sorted(billed[day])))
