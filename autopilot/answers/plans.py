"""Offers, and what a job would cost."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Number, Seconds


@record(frozen=True, kw_only=True)
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


@record(frozen=True, kw_only=True)
class RankedOffer(Offer):
    setup_s: Seconds | None
    cost_per_work_h: Money | None
    """The cost of an hour of useful work there, with set-up, disk, traffic and expected interruptions."""


@record(frozen=True, kw_only=True)
class PlannedOffer(Offer):
    cost: Money


@record(frozen=True, kw_only=True)
class Forecast(Described):
    """Over the simulated markets. Dollars are those spent from ``at`` on."""

    at: Instant
    spent: Money
    """When, in that share of markets."""
    mean: Money
    p10: Money
    p50: Money
    p90: Money
    done_p10: Instant | None
    """When it is done in a tenth of the markets in which it finishes; null: it finishes in none."""
    done_p50: Instant | None
    done_p90: Instant | None
    on_time: float | None
    finished: float
    parked: float
    preemptions: float


@record(frozen=True, kw_only=True)
class PlannedWidth(Described):
    """An array on this many machines at once."""

    width: int
    expected_cost: Money
    end: Instant
    on_time: float | None
    """How likely it is to end before the deadline."""


@record(frozen=True, kw_only=True)
class ArrayPlan(Described):
    count: int
    needed: int
    parallel: int
    width: int
    """Tasks at once under present conditions."""
    bound: str
    """What limits it: ``parallel``, ``tasks``, ``price``, ``budget``, ``no_offer``."""
    task_cost: Money | None
    task_s: Seconds | None
    """From the rental of a machine to its end."""
    end: Instant | None
    on_time: float | None
    payable: int | None
    """How many tasks the budget pays for."""
    curve: list[PlannedWidth]
    """What other widths would cost."""


@record(frozen=True, kw_only=True)
class Plan(Described):
    offers: list[PlannedOffer]
    expected_cost: Money | None
    on_demand_cost: Money | None
    list_price_cost: Money | None
    list_price: str | None
    budget: Money | None
    deadline: Instant | None
    forecast: Forecast | None
    """For an array: the forecast of one of its tasks."""
    array: ArrayPlan | None
    verdict: str | None
    min_probability: float
    refusal: str | None
    ways_out: list[str]
    notes: list[str]
