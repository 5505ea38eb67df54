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
    """What an hour of useful work costs there, with set-up, disk, traffic and expected interruptions."""


class PlannedOffer(Offer):
    cost: Money


class Forecast(Answer):
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


class PlannedWidth(Answer):
    """An array on so many machines at once."""

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


class Plan(Answer):
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


class OffersBody(Asked):
    """A job file, or a GPU and a disk."""

    toml: str | None = None
    source: str = ""
    gpu: str = ""
    """``RTX 4090:1``."""
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
    """The last tick could read it."""
    credit: Money | None
    read_at: Instant | None
    """When it was last read in full."""
    reason: str
    hint: str
    """What mends it, where that is the user's to do: the market refuses its key. Else empty."""
    spot: bool
    on_demand: bool
    spot_note: str
    unwatched: str
    """What a machine there goes on billing that nobody watches, and that there is no bill, in words; else empty."""
    certificate: Certificate


class Status(Answer):
    version: str
    pid: int
    now: Instant
    speed: float
    install_id: str
    last_tick_at: Instant | None
    failing_since: Instant | None
    """Since then no tick has ended well; null: the last one did."""
    failure: str
    """Why the newest tick failed; empty where it did not."""
    clock_behind_s: int | None
    """By how much its clock is slow by the markets' answers, negative where it is fast. Nothing is rented then.
    Null: it is right by them, or none has told the time."""
    jobs_open: int
    behind_store: list[str] = Field(default_factory=list)
    """Jobs of whose machines the store knows more than the ledger, which was put back from an older copy."""
    unsettled_leases: int
    unbilled_leases: int
    providers: list[Market]


class Offers(Answer):
    offers: list[RankedOffer]
    markets: list[Market]
    notes: list[str]
