"""What recorded floors say of bids on a market, handed to decisions once it has been learnt and its tables are made.

Reading, learning and the tables take seconds: all of it happens beside the tick, the last two in threads. Until it is
there, and where too little is recorded, bids follow the rule.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil, isinf, nan

import structlog

from autopilot.domain.floors import AuctionShape, FloorOutlook
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.offer import Capabilities, CapacityType
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.engine.tables import Tables
from autopilot.ports.store import Store, StoreUnavailable
from autopilot.pricing.auction.floors import FloorFit, estimate
from autopilot.pricing.auction.recorded import on_grid
from autopilot.pricing.auction.tables import auction_tables
from autopilot.pricing.pressure import measure_pressure
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate, best

log = structlog.get_logger(__name__)

LEARN_FROM = timedelta(days=7)
LEARN_EVERY = timedelta(hours=8)
LOOK_AGAIN = timedelta(hours=1)
"""After there was too little to learn from."""
READ_AT_ONCE = timedelta(hours=6)
LEAST_RECORDED = timedelta(hours=4)
"""From then on bids that are learnt cost less than those of the rule (docs/research/2026-11-bids-and-rules.md)."""
STEPS = 288
"""A table's steps for the work are no more than that: it stays below about 35 MB."""
LONGEST_WORK_S = 6 * STEPS * PRICES_EVERY.total_seconds()
WORK_STEP_S = 4 * 3600.0
"""The work is rounded up to this, so that one table serves for hours and for jobs alike."""
MOST_TABLES = 4
"""At once, those that are being made included; the bids of other jobs follow the rule."""
NEAR = 0.05
"""Share of the on-demand price by which prices may differ from those that a table was made for."""
NEAR_S = 120.0


@dataclass(frozen=True, slots=True)
class AuctionKind:
    """What is auctioned: one kind of GPU, so many of them, on one market, in steps of so many seconds."""

    provider: str
    gpu: str
    num_gpus: int
    step_s: float


@dataclass(frozen=True, slots=True)
class _Learnt:
    floors: FloorOutlook | None
    """None: too little was recorded."""
    at: datetime
    recorded: timedelta | None = None
    """None: it has not been read yet."""


class Auctions:
    """One per engine. ``of`` is asked now and then for each job; ``learn`` once a tick."""

    def __init__(self, store: Store, params: Params) -> None:
        self._store = store
        self._params = params
        self._asked: dict[str, tuple[AuctionKind, float]] = {}
        """By job; with the on-demand price, $/h."""
        self._learnt: dict[AuctionKind, _Learnt] = {}
        self._learning: dict[AuctionKind, asyncio.Task[None]] = {}
        self._tables: Tables[AuctionShape] = Tables(auction_tables, serves, MOST_TABLES)

    def of(self, job: Job) -> AuctionShape | None:
        """What was made for the job, if its tables are ready."""
        return self._tables.of(job.id)

    def recorded_h(self, job: Job) -> float | None:
        """Hours of floors on record of what the job bids on; None: not known."""
        learnt = self._learnt_for(job)
        return None if learnt is None or learnt.recorded is None else learnt.recorded / timedelta(hours=1)

    def is_learning(self, job: Job) -> bool:
        """Whether what the job asked for is being read, learnt or made, and it has nothing of it yet."""
        if job.id not in self._asked or self.of(job) is not None:
            return False
        learnt = self._learnt_for(job)
        if learnt is None or learnt.recorded is None:
            return True
        return learnt.floors is not None

    def wants_asking(self, job: Job) -> bool:
        """Whether the job has asked for nothing, or floors are learnt for which it has asked for no table yet."""
        if job.id not in self._asked:
            return True
        learnt = self._learnt_for(job)
        return learnt is not None and learnt.floors is not None and not self._tables.knows(job.id)

    def _learnt_for(self, job: Job) -> _Learnt | None:
        asked = self._asked.get(job.id)
        return None if asked is None else self._learnt.get(asked[0])

    def shape(self, job: Job, candidates: Sequence[Candidate], market: Market, now: datetime) -> None:
        """Ask for what this job needs, by what it may rent now."""
        auction = auction_of(job, candidates, market, now, self._params)
        if auction is None:
            return
        kind = auction.kind
        self._asked[job.id] = kind, float(auction.on_demand.expected_price)
        learnt = self._learnt.get(kind)
        if learnt is not None and learnt.floors is not None:
            self._tables.want(job.id, auction_shape(job, learnt.floors, auction, self._params))

    def learn(self, now: datetime) -> None:
        """Begin to learn what was asked for and is not known, or has grown old."""
        for kind, on_demand_price in set(self._asked.values()):
            learnt = self._learnt.get(kind)
            had_too_little = learnt is not None and learnt.floors is None
            every = LOOK_AGAIN if had_too_little else LEARN_EVERY
            is_due = learnt is None or now - learnt.at >= every
            if is_due and kind not in self._learning:
                self._learnt[kind] = replace(learnt, at=now) if learnt else _Learnt(None, now)
                self._learning[kind] = asyncio.create_task(self._learn(kind, on_demand_price, now))

    def forget(self, open_jobs: Collection[str]) -> None:
        """Keep nothing of jobs that are over."""
        for job_id in self._asked.keys() - set(open_jobs):
            del self._asked[job_id]
        kinds = {kind for kind, _ in self._asked.values()}
        for kind in self._learnt.keys() - kinds:
            del self._learnt[kind]
        self._tables.forget(open_jobs)

    async def close(self) -> None:
        """Wait for what is being made: a thread cannot be cancelled."""
        await asyncio.gather(*self._learning.values(), self._tables.close(), return_exceptions=True)

    async def _learn(self, kind: AuctionKind, on_demand_price: float, now: datetime) -> None:
        try:
            record = FloorRecord(now - LEARN_FROM, now, timedelta(seconds=kind.step_s))
            since = record.since
            while since < now:
                until = min(since + READ_AT_ONCE, now)
                async with self._store.snapshot() as uow:
                    seen = await uow.prices.list_by_gpu(kind.gpu, since, until, provider=kind.provider)
                record.add([each for each in seen if each.num_gpus == kind.num_gpus])
                since = until
            before = self._learnt.get(kind)
            self._learnt[kind] = _Learnt(before.floors if before else None, now, record.recorded)
            if record.recorded < LEAST_RECORDED:
                return
            floors = await asyncio.to_thread(estimate, record.floors, kind.step_s, on_demand_price, FloorFit())
            self._learnt[kind] = _Learnt(floors, now, record.recorded)
            log.info("floors.learnt", provider=kind.provider, gpu=kind.gpu, machines=len(record.floors))
        except (StoreUnavailable, ValueError) as problem:
            # ValueError: no machine was seen with a floor twice in a row.
            log.info("floors.not_learnt", provider=kind.provider, gpu=kind.gpu, reason=str(problem))
        except Exception:
            log.exception("floors.failed", consequence="bids follow the rule")
        finally:
            del self._learning[kind]


@dataclass(frozen=True, slots=True)
class JobAuction:
    """What one job may rent where spot machines are auctioned."""

    spot: Candidate
    on_demand: Candidate
    able: Capabilities
    ceiling: Decimal
    """$/h: no bid is above it."""
    longest_work_s: float

    @property
    def kind(self) -> AuctionKind:
        offer, tick_s = self.spot.offer, PRICES_EVERY.total_seconds()
        ticks_a_step = max(ceil(self.longest_work_s / STEPS / tick_s), 1)
        return AuctionKind(offer.provider, offer.gpu, offer.num_gpus, ticks_a_step * tick_s)


def auction_of(
    job: Job, candidates: Sequence[Candidate], market: Market, now: datetime, params: Params
) -> JobAuction | None:
    """None if bids follow the rule: nothing presses, work too long, or a market that holds no such auction."""
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    pressure = measure_pressure(job, now, params)
    if spot is None or on_demand is None or pressure.slack is None or pressure.is_past:
        return None
    markets = {choice.offer.provider for choice in candidates if choice.capacity_type is CapacityType.SPOT}
    is_one_kind = len(markets) == 1 and len(job.spec.gpus) == 1
    if not is_one_kind or not job.spec.fall_back or pressure.upper_work_s > LONGEST_WORK_S:
        return None
    able = market.providers[spot.offer.provider].capabilities
    highest = ceiling(job.spec, on_demand.offer.on_demand_price, params)
    # The tables are of machines that are paused when they are outbid, and that a higher bid brings back.
    can_auction = able.reports_floor and able.can_rebid and able.pauses_when_outbid
    if not can_auction or highest is None:
        return None
    work_s = ceil(pressure.upper_work_s / WORK_STEP_S) * WORK_STEP_S
    return JobAuction(spot, on_demand, able, highest, work_s)


def auction_shape(job: Job, floors: FloorOutlook, auction: JobAuction, params: Params) -> AuctionShape:
    able, setup_s = auction.able, auction.spot.setup.total_seconds()
    return AuctionShape(
        floors,
        longest_work_s=auction.longest_work_s,
        on_demand_price=float(auction.on_demand.expected_price),
        storage_rate=float(auction.spot.offer.storage_rate(job.spec.disk_gb)),
        ceiling=float(auction.ceiling),
        bills_at_bid=able.bills_at_bid,
        migrate_s=setup_s,
        # Without its disk a machine that comes back is set up like a new one.
        resume_s=params.timing.resume_s if able.keeps_disk_when_stopped else setup_s,
        checkpoint_s=job.spec.checkpoint_interval.total_seconds(),
        reserve_s=auction_reserve_s(auction.kind, params),
        shows_running=able.shows_held_floors,
        lost_per_h=params.auction.preemptions_per_h,
    )


def auction_reserve_s(kind: AuctionKind, params: Params) -> float:
    """Seconds that are kept free before the deadline when on-demand capacity is fallen back to."""
    return kind.step_s + params.deadline.on_demand_margin_s + params.budget.detect_s + params.timing.tick_lag_s


class FloorRecord:
    """Floors by machine at equal steps, put together bit by bit: days of prices take more room than is to spare."""

    def __init__(self, since: datetime, until: datetime, step: timedelta) -> None:
        self.since = since
        self.floors: dict[str, array[float]] = {}
        """$/h, oldest first; NaN where none was seen."""
        self._step = step
        self._steps = (until - since) // step
        self._seen = bytearray(self._steps)

    @property
    def recorded(self) -> timedelta:
        """The time of which anything is known."""
        return sum(self._seen) * self._step

    def add(self, seen: Sequence[PriceObservation]) -> None:
        """What one market showed of one kind of GPU, oldest first and later than what was added before."""
        if not seen:
            return
        grid = on_grid(seen, self._step)
        first = (seen[0].observed_at - self.since) // self._step
        end = min(first + len(grid.recorded), self._steps)
        for step in range(first, end):
            self._seen[step] |= grid.recorded[step - first]
        for (_, machine), shown in zip(grid.machines, grid.shown, strict=True):
            floors = [nan if isinf(floor) else floor for floor in shown[: end - first]]
            row = self.floors.setdefault(machine, array("d", [nan]) * self._steps)
            row[first:end] = array("d", floors)


def serves(shape: AuctionShape, wanted: AuctionShape) -> bool:
    """Whether tables made for ``shape`` will do where ``wanted`` would be made."""
    near = NEAR * wanted.on_demand_price
    return (
        shape.floors is wanted.floors
        and shape.longest_work_s >= wanted.longest_work_s
        and shape.bills_at_bid == wanted.bills_at_bid
        and shape.checkpoint_s == wanted.checkpoint_s
        and shape.resume_s == wanted.resume_s
        and shape.reserve_s == wanted.reserve_s
        and abs(shape.on_demand_price - wanted.on_demand_price) <= near
        and abs(shape.storage_rate - wanted.storage_rate) <= near
        and 0 <= wanted.ceiling - shape.ceiling <= near
        and abs(shape.migrate_s - wanted.migrate_s) <= NEAR_S
    )
