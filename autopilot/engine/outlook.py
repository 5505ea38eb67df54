"""What each job's decisions know beyond the moment: lives of machines, the belief about spot, tables that are ready.

Tables are made in threads, so the loop goes on; until a job's table is ready its decisions go without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Belief, Lives, LivesKey, Outlook, PhaseModel, Shape
from autopilot.domain.params import Params
from autopilot.domain.stop_causes import LOSSES
from autopilot.engine.auctions import Auctions
from autopilot.engine.tables import Tables
from autopilot.policy.eligibility import Eligibility
from autopilot.ports.store import Store
from autopilot.pricing.availability.phases import first_belief, next_belief
from autopilot.pricing.availability.shape import shape_of, still_serves
from autopilot.pricing.availability.value import MOST_TABLES, cost_to_go
from autopilot.pricing.hazard import hazard
from autopilot.pricing.rule.bidding import first_bid
from autopilot.pricing.rule.cost import Candidate
from autopilot.pricing.rule.ranking import rank

LIVES_FROM = timedelta(days=60)
LIVES_EVERY = timedelta(minutes=15)
SHAPE_EVERY = timedelta(minutes=2)
LEARN_WAIT = timedelta(minutes=2)
"""What is on record is learnt within seconds: a job with slack waits so long for it before its first machine."""


_ENDED = (InstanceStatus.STOPPED, InstanceStatus.OFFLINE)


class Outlooks:
    """One per engine. ``of`` is asked once a tick for each job; everything else happens beside the tick."""

    def __init__(
        self, store: Store, phases: PhaseModel, params: Params, watched: Collection[tuple[str, int]] = ()
    ) -> None:
        """``watched``: (GPU, count) whose floors are recorded before the first job."""
        self._watched = frozenset(watched)
        self._learning_since: dict[str, datetime] = {}
        self._store = store
        self._phases = phases
        self._params = params
        self._lives: dict[LivesKey, Lives] = {}
        self._lives_at: datetime | None = None
        self._beliefs: dict[str, tuple[Belief, datetime]] = {}
        self._shaped_at: dict[str, datetime] = {}
        self._tables: Tables[Shape] = Tables(cost_to_go, still_serves, MOST_TABLES - 2)
        self._auctions = Auctions(store, params)

    def of(self, job: Job, market: Market, now: datetime) -> Outlook:
        outlook = Outlook(lives=self._lives)
        if not job.status.wants_capacity:
            return outlook
        is_due = job.spec.deadline is not None and job.remaining_work is not None
        belief = self._update_belief(job, market, now) if is_due else ()
        since = self._shaped_at.get(job.id)
        may_wait = self._may_wait(job, now)
        # A job may come while the markets are being searched: what it could not ask for then, it asks for next.
        if since is None or now - since >= SHAPE_EVERY or (may_wait and self._auctions.wants_asking(job)):
            self._shaped_at[job.id] = now
            self._shape(job, replace(market, outlook=outlook), now)
        return replace(
            outlook,
            shape=self._tables.of(job.id),
            belief=belief,
            bidders=self._auctions.of(job),
            recorded_h=self._auctions.recorded_h(job),
            is_learning=may_wait and self._auctions.is_learning(job),
        )

    async def of_plan(self, job: Job, market: Market, now: datetime) -> Outlook:
        """For a job that is planned: what its bids would be made by."""
        found = best_of_each(job, market, now, self._params)
        bidders, is_learning = await self._auctions.read_for(job, found, market, now)
        return Outlook(bidders=bidders, is_learning=is_learning)

    def _may_wait(self, job: Job, now: datetime) -> bool:
        """Whether its first machine can wait for bids to be learnt: what it bids on is watched, and it is new."""
        if job.main is not None or not self._watched.issuperset(job.spec.query.gpus):
            return False
        return now - self._learning_since.setdefault(job.id, now) < LEARN_WAIT

    def hazard_of(self, lease: Lease) -> float:
        """Preemptions per hour to be expected of the lease's machine."""
        if not lease.is_spot:
            return 0.0
        outlook = Outlook(lives=self._lives)
        return hazard(outlook, lease.provider, lease.gpu, lease.host_id, lease.machine_id, self._params)

    def forget(self, open_jobs: Iterable[str]) -> None:
        """Keep nothing of jobs that are over."""
        kept = frozenset(open_jobs)
        for job_id in self._shaped_at.keys() | self._beliefs.keys():
            if job_id not in kept:
                self._beliefs.pop(job_id, None)
                self._learning_since.pop(job_id, None)
                self._shaped_at.pop(job_id, None)
        self._tables.forget(kept)
        self._auctions.forget(kept)

    async def refresh(self, now: datetime) -> None:
        """Learn from the ledger how floors moved and how long machines lasted, now and then."""
        self._auctions.learn(now)
        if self._lives_at is not None and now - self._lives_at < LIVES_EVERY:
            return
        self._lives_at = now
        async with self._store.snapshot() as uow:
            leases = await uow.leases.list_spot(now - LIVES_FROM)
        self._lives = lives_of(leases, now)

    async def close(self) -> None:
        """Wait for the tables that are being made: a thread cannot be cancelled."""
        await asyncio.gather(self._tables.close(), self._auctions.close())

    def _update_belief(self, job: Job, market: Market, now: datetime) -> Belief:
        before = self._beliefs.get(job.id)
        if before is not None and now - before[1] < timedelta(seconds=1):
            return before[0]
        is_on = self._is_spot_on(job, market, now)
        if before is None:
            belief = first_belief(self._phases, is_on)
        else:
            last, seen_at = before
            elapsed_s = round((now - seen_at).total_seconds())
            belief = next_belief(self._phases, last, elapsed_s, is_on)
        self._beliefs[job.id] = (belief, now)
        return belief

    def _is_spot_on(self, job: Job, market: Market, now: datetime) -> bool:
        """Whether the job runs on a spot machine, or could bid on one now."""
        main = job.main
        if main is not None and main.is_spot and main.observed.running_since is not None:
            return True
        check = Eligibility(job, market, now, self._params)
        has_spot = {name for name, view in market.providers.items() if view.capabilities.spot}
        return any(  # mostly one of the first
            offer.provider in has_spot and check.holds(offer) and first_bid(job.spec, offer, self._params) is not None
            for offer in market.offers
        )

    def _shape(self, job: Job, market: Market, now: datetime) -> None:
        found = best_of_each(job, market, now, self._params)
        self._auctions.ask(job, found, market)
        wanted = shape_of(job, found, market.outlook, now, self._phases, self._params)
        if wanted is not None:
            self._tables.want(job.id, wanted)


def best_of_each(job: Job, market: Market, now: datetime, params: Params) -> list[Candidate]:
    """The cheapest to the end of each market and capacity type, in order. Tables are made for these: no others need be
    priced."""
    found = []
    names = {offer.provider for offer in market.offers}
    for name in names:
        offers = market.offers if len(names) == 1 else tuple(each for each in market.offers if each.provider == name)
        alone = replace(market, offers=offers)
        ranked = rank(job, alone, Eligibility(job, alone, now, params).holds, params)
        found += [best for kind in CapacityType if (best := ranked.best(kind)) is not None]
    return sorted(found, key=lambda candidate: candidate.sort_key)


def lives_of(leases: Iterable[Lease], now: datetime) -> dict[LivesKey, Lives]:
    """How long spot machines ran, by kind, host and machine: each stretch of running is one life."""
    lives: dict[LivesKey, Lives] = {}
    for lease in leases:
        for hours, lost in _stretches(lease, now):
            for kind, name in (("gpu", lease.gpu), ("host", lease.host_id), ("machine", lease.machine_id)):
                key = (lease.provider, kind, name)
                lives[key] = lives.get(key, Lives()).with_run(hours, lost=lost)
    return lives


def _stretches(lease: Lease, now: datetime) -> Iterable[tuple[float, bool]]:
    """Hours of each stretch of running, and whether a loss ended it."""
    started: datetime | None = None
    for span, following in zip(lease.spans, (*lease.spans[1:], None), strict=False):
        if span.status is not InstanceStatus.RUNNING:
            continue
        started = started or span.started_at
        if following is not None:
            if following.status is InstanceStatus.RUNNING:
                continue  # only its price changed
            is_named = following.status is InstanceStatus.STOPPED and following.cause is not None
            was_lost = following.cause in LOSSES if is_named else following.status in _ENDED
        else:
            was_lost = span.ended_at is not None and lease.reason in LOSSES
        ended = span.ended_at or now
        yield (ended - started).total_seconds() / 3600, was_lost
        started = None
