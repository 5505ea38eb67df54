"""Reads what machines have cost: the market's own record of its spot prices, of the last thirty days."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from nebius.api.nebius.billing.v1alpha1 import (
    ListSpotPriceSeriesRequest,
    ListSpotPriceSeriesResponse,
    SpotPriceServiceClient,
)

from autopilot.domain.offer import OfferQuery
from autopilot.domain.prices import FINE_STEP, PRICES_EVERY, PriceObservation, past_step
from autopilot.providers.nebius import mapping, wire
from autopilot.providers.nebius.client import NebiusClient
from autopilot.providers.nebius.pacing import Family
from autopilot.providers.nebius.search import AskedPool, OfferSearch

SERIES_A_PAGE = 20
"""A week of quarter hours each: a page stays well below what one message may hold."""
MOST_SKUS = 100
"""Limit for one request. Source: the vendor's SDK."""

_Filters, _Aggregation = ListSpotPriceSeriesRequest.Filters, ListSpotPriceSeriesRequest.Aggregation


async def read_series(
    search: OfferSearch, client: NebiusClient, query: OfferQuery, since: datetime, until: datetime
) -> tuple[PriceObservation, ...]:
    """Raises ``MarketUnknown``."""
    pools = await search.pools(query)
    skus = list(dict.fromkeys(pool.price.sku_id for pool in pools if pool.price.sku_id))[:MOST_SKUS]
    if not skus:
        return ()
    step = past_step(since, until)
    fine, hourly = _Aggregation.Granularity.GRANULARITY_MINUTE_15, _Aggregation.Granularity.GRANULARITY_HOUR_1
    filters = _Filters(sku_ids=skus, start_time=since, end_time=until)
    method = _Aggregation.Method.METHOD_AVG_PRICE
    aggregation = _Aggregation(granularity=fine if step == FINE_STEP else hourly, method=method)
    series = await client.rows(
        Family.PRICE,
        SpotPriceServiceClient,
        lambda token: ListSpotPriceSeriesRequest(
            filters=filters, aggregation=aggregation, page_size=SERIES_A_PAGE, page_token=token
        ),
        ListSpotPriceSeriesResponse,
        method="list_series",
        most_pages=2 * MOST_SKUS // SERIES_A_PAGE,
    )
    by_sku = {each.sku_id: wire.series_points(each) for each in series if each.sku_id in skus}
    return tuple(
        _observation(pool, price, ended_at - step, step // PRICES_EVERY)
        for pool in pools
        for ended_at, price in by_sku.get(pool.price.sku_id, {}).items()
        if since <= ended_at - step < until
    )


def _observation(pool: AskedPool, price: Decimal, at: datetime, samples: int) -> PriceObservation:
    """``price``: $/h of a GPU."""
    return PriceObservation(
        provider=mapping.PROVIDER,
        machine_id=mapping.pool_id(pool.price.region, pool.price.platform, pool.preset.preset),
        gpu=pool.gpu,
        num_gpus=pool.preset.num_gpus,
        floor=mapping.least_cap(price) * pool.preset.num_gpus,
        on_demand_price=None,
        observed_at=at,
        samples=samples,
    )
