"""On a market without bills its price record replaces them: it shows what unobserved hours have cost.

They were booked at the limit. If the market's price is known for them, a ledger entry corrects them downwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

import structlog

from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease, Span
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import ZERO, accrue, to_nano
from autopilot.domain.offer import OfferQuery
from autopilot.domain.prices import FINE_SPAN, FINE_STEP, PRICES_EVERY, PriceObservation
from autopilot.domain.time import split_by_day
from autopilot.engine.accrue import entry
from autopilot.ports.provider import MarketUnknown, Provider

log = structlog.get_logger(__name__)

WAIT_REAL_S = 60.0

Record = Mapping[datetime, tuple[datetime, Decimal]]
"""From when to when the machine's kind had which price, $/h of the machine."""


def unwatched_spans(lease: Lease) -> tuple[Span, ...]:
    """The unobserved spans of a lease that is over, in which it is assumed to have computed at the limit."""
    return tuple(span for span in lease.spans if not span.is_observed and span.billed_rate and span.ended_at)


async def read_record(provider: Provider, lease: Lease) -> Record | None:
    """The record of its unwatched hours; None: the market cannot be asked now."""
    spans = unwatched_spans(lease)
    if not spans or provider.capabilities.bills_at_bid:
        return {}
    until = max(span.ended_at for span in spans if span.ended_at)
    since = max(min(span.started_at for span in spans) - FINE_STEP, until - FINE_SPAN + FINE_STEP)
    query = OfferQuery(
        gpus=((lease.gpu, lease.num_gpus),),
        min_vram_gb=ZERO,
        disk_gb=ZERO,
        verified_only=False,
        datacenter_only=False,
    )
    try:
        async with asyncio.timeout(WAIT_REAL_S):
            seen = await provider.past_prices(query, since, until + FINE_STEP)
    except (MarketUnknown, TimeoutError) as problem:
        log.warning("record.unavailable", provider=provider.name, reason=str(problem) or "no answer in time")
        return None
    return _by_time(lease, seen)


def _by_time(lease: Lease, seen: Sequence[PriceObservation]) -> Record:
    found: dict[datetime, tuple[datetime, Decimal]] = {}
    for each in seen:
        price = each.clearing_price if each.clearing_price is not None else each.floor
        is_its = each.machine_id == lease.machine_id and each.num_gpus == lease.num_gpus
        if is_its and price is not None and price > ZERO:  # a price of nothing is no price
            found[each.observed_at] = each.observed_at + PRICES_EVERY * each.samples, price
    return found


def corrections(lease: Lease, record: Record, now: datetime) -> tuple[LedgerEntry, ...]:
    """What brings its unwatched hours to the record: an hour that is not in it stays as it was booked."""
    less: dict[date, Decimal] = {}
    for span in unwatched_spans(lease):
        for since, until, price in _overlaps(span, record):
            for day, start, end in split_by_day(since, until):
                saved = accrue(span.billed_rate, end - start) - accrue(min(price, span.billed_rate), end - start)
                less[day] = less.get(day, ZERO) + saved
    return tuple(
        entry(EntryType.ADJUST, lease, CostKind.COMPUTE, day, -amount, now, mark=f"record:{to_nano(amount)}")
        for day, amount in sorted(less.items())
        if amount
    )


def _overlaps(span: Span, record: Record) -> Iterator[tuple[datetime, datetime, Decimal]]:
    assert span.ended_at is not None, "the lease is over"
    reached = span.started_at
    for since, (until, price) in sorted(record.items()):
        start, end = max(since, reached), min(until, span.ended_at)
        if end - start > timedelta(0):
            yield start, end, price
            reached = end
