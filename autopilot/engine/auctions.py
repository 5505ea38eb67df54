"""What simulated bidders have seen of the recorded floors on a market, handed to decisions.

The record of the last days is played through beside the tick, bit by bit, and from then on what is new of it. Until
that is done, and where too little is recorded, bids follow the rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isinf

import structlog

from autopilot.domain.floors import Bidders
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.offer import Capabilities, CapacityType
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.ports.store import Store, StoreUnavailable
from autopilot.pricing.auction.recorded import on_grid
from autopilot.pricing.auction.shadows import MARKUPS, SHADOWING, UNPAID_MARKUPS, FloorLook, Shadows
from autopilot.pricing.pressure import measure_pressure
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate, best

log = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
LEARN_FROM = timedelta(days=7)
READ_AT_ONCE = timedelta(hours=6)
LEAST_RECORDED = timedelta(hours=4)
"""From then on bids that are learnt cost less than those of the rule (docs/research/2026-11-bids-and-rules.md)."""
NEAR = 0.05
"""Share by which a limit may differ from that of bidders that serve as well."""


@dataclass(frozen=True, slots=True)
class AuctionKind:
    """What is auctioned: one kind of GPU, so many of them, on one market."""

    provider: str
    gpu: str
    num_gpus: int
    pays_bid: bool
    limit: float
    """$/h: no bid is as high, by the on-demand price when it was asked for first."""


@dataclass(slots=True)
class _Record:
    """What is on record of one kind, as far as it has been read."""

    shadows: Shadows
    read_until: datetime
    recorded: timedelta = timedelta(0)
    is_read: bool = False
    """Whether all of it was, once."""


class Auctions:
    """One per engine. ``of`` is asked now and then for each job; ``learn`` once a tick."""

    def __init__(self, store: Store, params: Params) -> None:
        self._store = store
        self._params = params
        self._asked: dict[str, AuctionKind] = {}
        """By job."""
        self._records: dict[AuctionKind, _Record] = {}
        self._reading: dict[AuctionKind, asyncio.Task[None]] = {}

    def of(self, job: Job) -> Bidders | None:
        """None: too little is recorded, or it has not been read yet."""
        record = self._record_for(job)
        if record is None or not record.is_read or record.recorded < LEAST_RECORDED:
            return None
        return record.shadows.bidders

    def recorded_h(self, job: Job) -> float | None:
        """Hours of floors on record of what the job bids on; None: not known."""
        record = self._record_for(job)
        return None if record is None or not record.is_read else record.recorded / timedelta(hours=1)

    def is_learning(self, job: Job) -> bool:
        """Whether what the job asked for is being read for the first time."""
        record = self._record_for(job)
        return job.id in self._asked and (record is None or not record.is_read)

    def wants_asking(self, job: Job) -> bool:
        return job.id not in self._asked

    def _record_for(self, job: Job) -> _Record | None:
        kind = self._asked.get(job.id)
        return None if kind is None else self._records.get(kind)

    def ask(self, job: Job, candidates: Sequence[Candidate], market: Market, now: datetime) -> None:
        """For what this job needs, by what it may rent now."""
        before = self._asked.get(job.id)
        kind = kind_of(job, candidates, market, now, self._params)
        if kind is not None and (before is None or not _is_near(before, kind)):
            self._asked[job.id] = next((known for known in self._records if _is_near(known, kind)), kind)

    def learn(self, now: datetime) -> None:
        """Begin to read what is new on record."""
        for kind in set(self._asked.values()):
            record = self._records.get(kind)
            is_due = record is None or now - record.read_until >= PRICES_EVERY
            if is_due and kind not in self._reading:
                self._reading[kind] = asyncio.create_task(self._read(kind, now))

    def forget(self, open_jobs: Collection[str]) -> None:
        """Keep nothing of jobs that are over."""
        for job_id in self._asked.keys() - set(open_jobs):
            del self._asked[job_id]
        for kind in self._records.keys() - set(self._asked.values()):
            del self._records[kind]

    async def close(self) -> None:
        """Wait for what is being read."""
        await asyncio.gather(*self._reading.values(), return_exceptions=True)

    async def _read(self, kind: AuctionKind, now: datetime) -> None:
        markups = MARKUPS if kind.pays_bid else UNPAID_MARKUPS
        try:
            record = self._records.setdefault(kind, _Record(Shadows(SHADOWING, markups), now - LEARN_FROM))
            while now - record.read_until >= PRICES_EVERY:
                until = min(record.read_until + READ_AT_ONCE, now)
                async with self._store.snapshot() as uow:
                    seen = await uow.prices.list_by_gpu(kind.gpu, record.read_until, until, provider=kind.provider)
                record.read_until = until
                record.recorded += play_record(record.shadows, kind, [s for s in seen if s.num_gpus == kind.num_gpus])
            if not record.is_read:
                log.info("floors.learnt", provider=kind.provider, gpu=kind.gpu, recorded_h=record.recorded / HOUR)
            record.is_read = True
        except StoreUnavailable as problem:
            log.info("floors.not_learnt", provider=kind.provider, gpu=kind.gpu, reason=str(problem))
        except Exception:
            log.exception("floors.failed", consequence="bids follow the rule")
        finally:
            del self._reading[kind]


def play_record(shadows: Shadows, kind: AuctionKind, seen: Sequence[PriceObservation]) -> timedelta:
    """Let the bidders see what one market showed, oldest first. Returns the time of which anything is known."""
    grid = on_grid(seen, PRICES_EVERY)
    looks = 0
    for step, is_recorded in enumerate(grid.recorded):
        rows = zip(grid.machines, grid.shown, strict=True)
        floors = {machine: row[step] for (_, machine), row in rows if not isinf(row[step]) and row[step] > 0.0}
        if is_recorded and floors:
            shadows.look(FloorLook(floors, PRICES_EVERY / HOUR, kind.limit, kind.pays_bid))
            looks += 1
    return looks * PRICES_EVERY


def _is_near(one: AuctionKind, other: AuctionKind) -> bool:
    same = (one.provider, one.gpu, one.num_gpus, one.pays_bid) == (
        other.provider,
        other.gpu,
        other.num_gpus,
        other.pays_bid,
    )
    return same and abs(one.limit - other.limit) <= NEAR * other.limit


def kind_of(
    job: Job, candidates: Sequence[Candidate], market: Market, now: datetime, params: Params
) -> AuctionKind | None:
    """None if bids follow the rule: nothing presses, or a market that holds no such auction."""
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    pressure = measure_pressure(job, now, params)
    if spot is None or on_demand is None or pressure.slack is None or pressure.is_past:
        return None
    markets = {choice.offer.provider for choice in candidates if choice.capacity_type is CapacityType.SPOT}
    is_one_kind = len(markets) == 1 and len(job.spec.gpus) == 1
    offer, able = spot.offer, market.providers[spot.offer.provider].capabilities
    highest = ceiling(job.spec, on_demand.offer.on_demand_price, params)
    if not is_one_kind or not job.spec.fall_back or not is_auction(able) or highest is None:
        return None
    limit = float(highest + params.bids.unit)
    return AuctionKind(offer.provider, offer.gpu, offer.num_gpus, able.bills_at_bid, limit)


def is_auction(able: Capabilities) -> bool:
    """Whether a machine that is outbid is paused there, and a higher bid brings it back."""
    return able.reports_floor and able.can_rebid and able.pauses_when_outbid
