"""Old prices put together: one observation per machine and hour, with mean and extremes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.money import ZERO, floor_nano
from autopilot.domain.prices import PriceObservation

HOUR = timedelta(hours=1)
THINNED_UNTIL = "prices_thinned_until"
"""The note that says up to when prices are put together by the hour."""


def hour_of(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


def by_the_hour(seen: Iterable[PriceObservation]) -> tuple[PriceObservation, ...]:
    """One observation per machine, size and hour of the given ones, which come oldest first."""
    groups: dict[tuple[str, str, int, datetime], list[PriceObservation]] = defaultdict(list)
    for each in seen:
        groups[each.provider, each.machine_id, each.num_gpus, hour_of(each.observed_at)].append(each)
    return tuple(_put_together(hour, group) for (*_, hour), group in groups.items())


def _put_together(hour: datetime, group: Sequence[PriceObservation]) -> PriceObservation:
    lows = [low for each in group if (low := each.floor_low if each.floor_low is not None else each.floor) is not None]
    highs = [h for each in group if (h := each.floor_high if each.floor_high is not None else each.floor) is not None]
    return replace(
        group[-1],
        observed_at=hour,
        floor=_mean([(each.floor, each.samples) for each in group]),
        on_demand_price=_mean([(each.on_demand_price, each.samples) for each in group]),
        floor_low=min(lows, default=None),
        floor_high=max(highs, default=None),
        clearing_price=_mean([(each.clearing_price, each.samples) for each in group]),
        samples=sum(each.samples for each in group),
    )


def _mean(weighted: Sequence[tuple[Decimal | None, int]]) -> Decimal | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    if not known:
        return None
    return floor_nano(sum((value * weight for value, weight in known), ZERO) / sum(w for _, w in known))
