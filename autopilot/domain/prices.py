"""Prices as they were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

PRICES_EVERY = timedelta(minutes=5)
"""Prices are recorded so often."""
FINE_STEP, HOUR = timedelta(minutes=15), timedelta(hours=1)
FINE_SPAN = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PriceObservation:
    """What an offer cost at one moment, or over a while: an hour, or a step of the market's own record. Over a while
    ``floor``, ``on_demand_price`` and ``clearing_price`` are means over its ``samples``, ``floor_low`` and
    ``floor_high`` the extremes, and the rest is as last seen. All prices are for the whole machine's chunk; None: the
    market does not say.
    """

    provider: str
    machine_id: str
    gpu: str
    num_gpus: int
    floor: Decimal | None
    """$/h."""
    on_demand_price: Decimal | None
    """$/h."""
    observed_at: datetime
    """The beginning of that while where ``samples`` is more than one."""
    host_id: str | None = None
    storage_price: Decimal | None = None
    """$/GB-month."""
    upload_price: Decimal | None = None
    """$/GB."""
    download_price: Decimal | None = None
    """$/GB."""
    reliability: Decimal | None = None
    """0..1."""
    verified: bool | None = None
    ends_at: datetime | None = None
    floor_low: Decimal | None = None
    floor_high: Decimal | None = None
    samples: int = 1
    """It covers as many times ``PRICES_EVERY``."""
    clearing_price: Decimal | None = None
    """$/h that spot machines paid, where the market tells that apart from the floor."""


def past_step(since: datetime, until: datetime) -> timedelta:
    """In what steps a market's own record of such a span is asked for: the last week finely, what is older by hours."""
    return FINE_STEP if until - since <= FINE_SPAN else HOUR


@dataclass(frozen=True, slots=True)
class PriceSum:
    """Observations of one market's machines of one size in one step of a period. Prices are as in an observation."""

    provider: str
    num_gpus: int
    step: int
    """From 0."""
    low: Decimal | None
    high: Decimal | None
    on_demand_price: Decimal | None
    """The least."""
    total: Decimal
    """Sum of all floors, each as often as it was sampled."""
    floors: int
    """How many that were."""
    samples: int
    machines: int
    last_at: datetime


def step_width(since: datetime, until: datetime, steps: int) -> timedelta:
    """Width of equal steps, in whole microseconds; the last may be shorter."""
    return -((since - until) // steps)
