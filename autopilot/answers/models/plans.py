"""Offers, and what a job would cost."""

from __future__ import annotations

from pydantic import Field

from autopilot.answers.models.base import Answer, Asked
from autopilot.answers.scalars import Instant, Money, Number, Seconds


class Offer(Answer):
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


class RankedOffer(Offer):
    setup_s: Seconds | None
    cost_per_work_h: Money | None
    """The cost of an hour of useful work there, with set-up, disk, traffic and expected interruptions."""


class PlannedOffer(Offer):
    cost: Money


class Forecast(Answer):
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


class PlannedWidth(Answer):
    """An array on this many machines at once."""

    width: int
    expected_cost: Money
    end: Instant
    on_time: float | None
    """How likely it is to end before the deadline."""


class ArrayPlan(Answer):
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


class Plan(Answer):
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


class OffersBody(Asked):
    """A job file, or a GPU and a disk."""

    toml: str | None = None
    source: str = ""
    gpu: str = ""
    """``RTX 4090:1``, or several as in a job file: ``4090 | A100 80GB:2``."""
    disk_gb: int = 20


class Certificate(Answer):
    lack: str | None
    """Why nothing new is rented there."""
    status: str | None
    """What the certificate lacks."""
    issued_at: Instant | None
    ends_at: Instant | None
    ended_because: str
    version: str | None
    account: str | None
    broken: list[str]
    uncertified: Money | None
    """Without one: what limits.uncertified allows there."""
    uncertified_left: Money | None
    """Of that, beyond all that is spent or committed there."""


class Market(Answer):
    name: str
    known: bool
    """Whether the last tick could read it."""
    credit: Money | None
    read_at: Instant | None
    """When it was last read in full."""
    reason: str
    hint: str
    """What the user can do about it: the market refuses its key. Else empty."""
    spot: bool
    on_demand: bool
    spot_note: str
    unwatched: str
    """In words: what an unattended machine there keeps costing, and whether the market issues no bill; else empty."""
    certificate: Certificate


class Status(Answer):
    version: str
    pid: int
    now: Instant
    speed: float
    install_id: str
    last_tick_at: Instant | None
    failing_since: Instant | None
    """Since when no tick has succeeded; null: the last one did."""
    failure: str
    """Why the newest tick failed; empty if it did not."""
    clock_behind_s: int | None
    """By how much its clock is slow compared with the markets' answers; negative: it is fast. Nothing is rented then.
    Null: it agrees with them, or none has sent the time."""
    jobs_open: int
    behind_store: list[str] = Field(default_factory=list)
    """Jobs for which the store is newer than the ledger, which was restored from an older copy."""
    unsettled_leases: int
    unbilled_leases: int
    providers: list[Market]


class Offers(Answer):
    offers: list[RankedOffer]
    markets: list[Market]
    notes: list[str]
