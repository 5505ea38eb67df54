"""Offers, and what a job would cost."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.answers.scalars import Described, Instant, Money, Number, Seconds


@dataclass(frozen=True, kw_only=True)
class Offer(Described):
    provider: str
    machine_id: str
    gpu: str
    num_gpus: int
    floor: Money | None
    """$/h: the lowest bid that wins now."""
    on_demand_price: Money | None
    storage_rate: Money
    reliability: Number
    location: str
    eligible: bool
    why_not: str | None
    capacity_type: str | None
    bid: Money | None


@dataclass(frozen=True, kw_only=True)
class RankedOffer(Offer):
    setup_s: Seconds | None
    cost_per_work_h: Money | None
    """What an hour of useful work costs there, with set-up, disk, traffic and expected interruptions."""


@dataclass(frozen=True, kw_only=True)
class PlannedOffer(Offer):
    cost: Money


@dataclass(frozen=True, kw_only=True)
class Forecast(Described):
    """Over the markets that were played through. Dollars are those spent from ``at`` on."""

    at: Instant
    spent: Money
    """By then."""
    mean: Money
    p10: Money
    p50: Money
    p90: Money
    done_p10: Instant | None
    """By then it is done in a tenth of the markets in which it ever is; null: it is in none."""
    done_p50: Instant | None
    done_p90: Instant | None
    on_time: float | None
    finished: float
    parked: float
    preemptions: float


@dataclass(frozen=True, kw_only=True)
class PlannedWidth(Described):
    """An array on so many machines at once."""

    width: int
    expected_cost: Money
    end: Instant
    on_time: float | None
    """How likely it is to end before the deadline."""


@dataclass(frozen=True, kw_only=True)
class ArrayPlan(Described):
    count: int
    needed: int
    parallel: int
    width: int
    """Tasks at once, as things are now."""
    bound: str
    """What keeps it from being more: ``parallel``, ``tasks``, ``price``, ``budget``, ``no_offer``."""
    task_cost: Money | None
    task_s: Seconds | None
    """From renting a machine to its end."""
    end: Instant | None
    on_time: float | None
    payable: int | None
    """Tasks that the budget will finish."""
    curve: list[PlannedWidth]
    """What other widths would come to."""


@dataclass(frozen=True, kw_only=True)
class Plan(Described):
    offers: list[PlannedOffer]
    expected_cost: Money | None
    on_demand_cost: Money | None
    list_price_cost: Money | None
    list_price: str | None
    budget: Money | None
    deadline: Instant | None
    forecast: Forecast | None
    """Of an array: of one of its tasks."""
    array: ArrayPlan | None
    verdict: str | None
    min_probability: float
    refusal: str | None
    ways_out: list[str]
    notes: list[str]
