"""Reads what machines have cost: the market's own record of its prices."""

from __future__ import annotations

from datetime import datetime

from autopilot.domain.offer import OfferQuery
from autopilot.domain.prices import PRICES_EVERY, PriceObservation, past_step
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.mithril import mapping, shapes, wire
from autopilot.providers.mithril.client import MithrilClient
from autopilot.providers.mithril.pacing import Family
from autopilot.providers.mithril.search import AskedPool, OfferSearch

PATH = "/v2/pricing/history"
MOST_POOLS = 20
"""Of one search: each takes a request."""


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
        "num_samples": str(min((until - since) // step, wire.MOST_SAMPLES)),
        "start_time": since.isoformat(),
        "end_time": until.isoformat(),
    }
    try:
        body = await client.get(Family.PRICE, PATH, shapes.HISTORY, wish)
    except MarketUnknown as error:
        if error.code is RefusalCode.NOT_FOUND:
            return []
        raise
    prices = wire.past_prices(body)
    if prices is None:
        raise MarketUnknown(f"{PATH}: the answer holds no prices")
    by_step = {(at - since) // step: price for at, price in sorted(prices.items()) if since <= at < until}
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
        for number, price in by_step.items()
    ]
