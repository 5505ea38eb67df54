"""What GPUs have cost on their markets."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Seconds


@record(frozen=True, kw_only=True)
class PriceStep(Described):
    at: Instant
    low: Money | None
    mean: Money | None
    high: Money | None
    on_demand: Money | None
    machines: int


@record(frozen=True, kw_only=True)
class MarketPrices(Described):
    provider: str
    gpu: str
    observations: int
    machines: int
    low: Money | None
    mean: Money | None
    high: Money | None
    on_demand: Money | None
    last_low: Money | None
    last_seen_at: Instant
    steps: list[PriceStep]


@record(frozen=True, kw_only=True)
class Prices(Described):
    gpu: str
    since: Instant
    until: Instant
    step_s: Seconds
    unit: str
    markets: list[MarketPrices]
    """One for each market and model."""
