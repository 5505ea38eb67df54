"""Reads what machines have cost: the market's own record of its prices."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.offer import OfferQuery
from autopilot.domain.prices import PRICES_EVERY, PriceObservation, past_step
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.mithril import mapping, shapes, wire
from autopilot.providers.mithril.client import MithrilClient
from autopilot.providers.mithril.pacing import Family
from autopilot.providers.mithril.search import AskedPool, OfferSearch

PATH = "/v2/pricing/history"
MOST_POOLS = 20
"""Pools of one search: each takes a request."""


async def read_series(
    search: OfferSearch, client: MithrilClient, query: OfferQuery, since: datetime, until: datetime
) -> tuple[PriceObservation, ...]:
    """Raises ``MarketUnknown``."""
    found: list[PriceObservation] = []
    for pool in (await search.pools(query))[:MOST_POOLS]:
        found += await _read_pool(client, pool, since, until)
    return tuple(found)


async def _read_pool(
    client: MithrilClient, pool: AskedPool, since: datetime, until: datetime
) -> list[PriceObservation]:
    step = past_step(since, until)
    wish = {
        "instance_types": pool.kind.type_id,
        "region": pool.region,
        # All of them: fewer are thinned for drawing, which makes short peaks long.
        "num_samples": "-1",
        "start_time": since.isoformat(),
        "end_time": until.isoformat(),
    }
    try:
        body = await client.get(Family.PRICE, PATH, shapes.HISTORY, wish)
    except MarketUnknown as error:
        if error.code is RefusalCode.NOT_FOUND:
            return []
        raise
    record = wire.past_prices(body, pool.kind.type_id, pool.region)
    if record is None:
        raise MarketUnknown(f"{PATH}: the answer holds no prices")
    return [
        PriceObservation(
            provider=mapping.PROVIDER,
            machine_id=mapping.pool_id(pool.region, pool.kind.type_id),
            gpu=pool.gpu,
            num_gpus=pool.kind.num_gpus,
            floor=price,
            on_demand_price=None,
            observed_at=since + number * step,
            samples=step // PRICES_EVERY,
            clearing_price=price,
        )
        for number, price in _by_step(record, since, until, step).items()
    ]


def _by_step(record: wire.PriceRecord, since: datetime, until: datetime, step: timedelta) -> dict[int, Decimal]:
    """The price at the end of each step: it holds until the next."""
    points = sorted(record.prices.items())
    if not points:
        return {}
    ends_at = until if record.is_whole else min(until, points[-1][0] + timedelta(microseconds=1))
    found: dict[int, Decimal] = {}
    next_point, price = 0, None
    for number in range((ends_at - since + step - timedelta(microseconds=1)) // step):
        end = min(since + (number + 1) * step, until)
        while next_point < len(points) and points[next_point][0] < end:
            price = points[next_point][1]
            next_point += 1
        if price is not None:
            found[number] = price
    return found
