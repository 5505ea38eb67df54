"""What simulated bidders have seen of the recorded floors on a market, handed to decisions.

The record of the last days is played through beside the tick, bit by bit, and from then on what is new of it. Until
that is done, and where too little is recorded, bids follow the rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, inf, isinf

import structlog

from autopilot.domain.floors import Bidders
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import Capabilities, CapacityType
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import LOSSES
from autopilot.ports.store import Store, StoreUnavailable
from autopilot.pricing.auction.recorded import on_grid
from autopilot.pricing.auction.shadows import MARKUPS, SHADOWING, UNPAID_MARKUPS, FloorLook, Shadows
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate, best

log = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
LEARN_FROM = timedelta(days=7)
READ_WITHIN_S = 10.0
"""What one answer to a plan may take; a week of a few hundred machines takes seconds to read. Source: assumed."""
READ_AT_ONCE = timedelta(hours=6)
LEAST_RECORDED = timedelta(hours=4)
"""From then on bids that are learnt cost less than those of the rule (docs/research/2026-11-bids-and-rules.md)."""
OWN_FROM = timedelta(days=1)
"""So far back our own machines are learnt from when a record is read for the first time: older hours hardly count."""
UNOBSERVED_LOSSES = LOSSES - {Reason.OUTBID}
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
        self._reading: dict[AuctionKind, asyncio.Task[_Record | None]] = {}

    def of(self, job: Job) -> Bidders | None:
        """None: too little is recorded, or it has not been read yet."""
        return _bidders_of(self._record_for(job))

    async def read_for(
        self, job: Job, candidates: Sequence[Candidate], market: Market, now: datetime
    ) -> tuple[Bidders | None, bool]:
        """The same for a job that is only planned, and whether what is on record is still being read for it: for that
        ``READ_WITHIN_S`` are waited."""
        kind = kind_of(job, candidates, market, self._params)
        if kind is None:
            return None, False
        kind = self._like(kind)
        record = self._records.get(kind)
        if record is None or not record.is_read:
            self._begin_reading(kind, now)
            reading = self._reading[kind]
            done, _ = await asyncio.wait([reading], timeout=READ_WITHIN_S)
            if not done:
                return None, True
            record = reading.result()
        return _bidders_of(record), False

    def _like(self, kind: AuctionKind) -> AuctionKind:
        """The one that is on record already, if it serves as well."""
        return next((known for known in self._records if _is_near(known, kind)), kind)

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

    def ask(self, job: Job, candidates: Sequence[Candidate], market: Market) -> None:
        """For what this job needs, by what it may rent now."""
        before = self._asked.get(job.id)
        kind = kind_of(job, candidates, market, self._params)
        if kind is None and best(candidates, CapacityType.SPOT) is not None:
            self._asked.pop(job.id, None)  # its spot machines are no longer those of one auction
        elif kind is not None and (before is None or not _is_near(before, kind)):
            self._asked[job.id] = self._like(kind)

    def learn(self, now: datetime) -> None:
        """Begin to read what is new on record."""
        for kind in set(self._asked.values()):
            record = self._records.get(kind)
            is_due = record is None or now - record.read_until >= PRICES_EVERY
            if is_due:
                self._begin_reading(kind, now)

    def _begin_reading(self, kind: AuctionKind, now: datetime) -> None:
        if kind not in self._reading:
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

    async def _read(self, kind: AuctionKind, now: datetime) -> _Record | None:
        """None: it cannot be read now."""
        markups = MARKUPS if kind.pays_bid else UNPAID_MARKUPS
        try:
            record = self._records.setdefault(kind, _Record(Shadows(SHADOWING, markups), now - LEARN_FROM))
            while now - record.read_until >= PRICES_EVERY:
                until = min(record.read_until + READ_AT_ONCE, now)
                async with self._store.snapshot() as uow:
                    seen = await uow.prices.list_by_gpu(kind.gpu, record.read_until, until, provider=kind.provider)
                    is_late = now - until < OWN_FROM
                    leases = await uow.leases.list_spot(until - LEARN_FROM) if is_late else ()
                span, record.read_until = (record.read_until, until), until
                of_kind = [each for each in seen if each.num_gpus == kind.num_gpus]
                record.recorded += play_record(record.shadows, kind, of_kind, until)
                add_own(record.shadows, kind, leases, *span)
            if not record.is_read:
                log.info("floors.learnt", provider=kind.provider, gpu=kind.gpu, recorded_h=record.recorded / HOUR)
            record.is_read = True
            return record
        except StoreUnavailable as problem:
            log.info("floors.not_learnt", provider=kind.provider, gpu=kind.gpu, reason=str(problem))
        except Exception:
            log.exception("floors.failed", consequence="bids follow the rule")
        finally:
            del self._reading[kind]
        return None


def _bidders_of(record: _Record | None) -> Bidders | None:
    """None: too little is recorded, or it has not been read yet."""
    if record is None or not record.is_read or record.recorded < LEAST_RECORDED:
        return None
    return record.shadows.bidders


def play_record(shadows: Shadows, kind: AuctionKind, seen: Sequence[PriceObservation], until: datetime) -> timedelta:
    """Let the bidders see what one market showed until then, oldest first. Returns the time of which anything is known.

    What was seen last holds beyond ``until``; that is seen with what comes next.
    """
    grid = on_grid(seen, PRICES_EVERY)
    steps = ceil((until - seen[0].observed_at) / PRICES_EVERY) if seen else 0
    looks = 0
    for step, is_recorded in enumerate(grid.recorded[:steps]):
        rows = zip(grid.machines, grid.shown, strict=True)
        floors = {machine: row[step] for (_, machine), row in rows if not isinf(row[step]) and row[step] > 0.0}
        if is_recorded and floors:
            shadows.look(FloorLook(floors, PRICES_EVERY / HOUR, kind.limit, kind.pays_bid))
            looks += 1
    return looks * PRICES_EVERY


def add_own(shadows: Shadows, kind: AuctionKind, leases: Iterable[Lease], since: datetime, until: datetime) -> None:
    """Let the bidders know what our own machines of that kind went through meanwhile.

    Who was outbid is seen in the floors. What else took a machine (an on-demand renter, its host) is seen by no other
    bidder, and would have taken it at any bid.
    """
    for lease in leases:
        if (lease.provider, lease.gpu, lease.num_gpus) != (kind.provider, kind.gpu, kind.num_gpus):
            continue
        shadows.add_own(_hours_run(lease, since, until))
        for _ in range(_unobserved_losses(lease, since, until)):
            shadows.add_own(0.0, inf)


def _hours_run(lease: Lease, since: datetime, until: datetime) -> float:
    runs = (span for span in lease.spans if span.status is InstanceStatus.RUNNING)
    return sum(max((min(run.ended_at or until, until) - max(run.started_at, since)) / HOUR, 0.0) for run in runs)


def _unobserved_losses(lease: Lease, since: datetime, until: datetime) -> int:
    last = lease.spans[-1] if lease.spans else None
    stops = [(span.started_at, span.cause) for span in lease.spans if span.status is InstanceStatus.STOPPED]
    if last is not None and last.status is InstanceStatus.RUNNING and last.ended_at is not None:
        stops.append((last.ended_at, lease.reason))
    return sum(since <= at < until and cause in UNOBSERVED_LOSSES for at, cause in stops)


def _is_near(one: AuctionKind, other: AuctionKind) -> bool:
    same = (one.provider, one.gpu, one.num_gpus, one.pays_bid) == (
        other.provider,
        other.gpu,
        other.num_gpus,
        other.pays_bid,
    )
    return same and abs(one.limit - other.limit) <= NEAR * other.limit


def kind_of(job: Job, candidates: Sequence[Candidate], market: Market, params: Params) -> AuctionKind | None:
    """None if bids follow the rule: of several markets or kinds of GPU, or of one that holds no such auction."""
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    if spot is None:
        return None
    offer, able = spot.offer, market.providers[spot.offer.provider].capabilities
    markets = {choice.offer.provider for choice in candidates if choice.capacity_type is CapacityType.SPOT}
    is_one_kind = len(markets) == 1 and len(job.spec.gpus) == 1
    asked = offer.on_demand_price if on_demand is None else on_demand.offer.on_demand_price
    highest = ceiling(job.spec, asked, params)
    if not is_one_kind or not is_auction(able) or highest is None:
        return None
    limit = float(highest + params.bids.unit)
    return AuctionKind(offer.provider, offer.gpu, offer.num_gpus, able.bills_at_bid, limit)


def is_auction(able: Capabilities) -> bool:
    """Whether a machine that is outbid is paused there, and a higher bid brings it back."""
    return able.reports_floor and able.can_rebid and able.pauses_when_outbid
