"""What is learnt from recorded floors, and when it is not: too short, too few, a ledger that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from autopilot.domain.floors import Bidders
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import GpuChoice, Job
from autopilot.domain.lease import Span
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY
from autopilot.domain.reasons import Reason
from autopilot.engine.auctions import AuctionKind, Auctions, add_own
from autopilot.engine.history import observation
from autopilot.planning.prospects import prospects
from autopilot.policy.eligibility import eligible
from autopilot.ports.store import StoreUnavailable
from autopilot.pricing.auction.shadows import MARKUPS, FloorLook, Shadows
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer

P = Params()
OFFERS = tuple(an_offer(name, floor=D("0.2"), on_demand_price=D("0.5")) for name in ("a", "b"))
MARKET = a_market(*OFFERS)


def a_job_due(hours: float = 12.0, **changes: Any) -> Job:
    values = {"work_estimate": 8 * HOUR, "deadline": START + hours * HOUR, "max_bid": D("0.45")}
    return a_job(spec=a_spec(**(values | changes)))


async def recorded(store: MemoryStore, lasting: timedelta, *, every: timedelta = PRICES_EVERY) -> None:
    async with store.transaction() as uow:
        for number in range(lasting // every):
            at = START - lasting + number * every
            for offer in OFFERS:
                floor = D("0.2") if number % 5 else D("0.3")
                await uow.prices.add([observation(replace(offer, floor=floor), at)])


async def ask(auctions: Auctions, job: Job, market: Market = MARKET, now: datetime = START) -> Bidders | None:
    """Asked for, and read."""
    auctions.ask(job, price_candidates(job, market, eligible(job, market, now, P), P), market)
    auctions.learn(now)
    await auctions.close()
    return auctions.of(job)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_days_of_floors_become_the_sums_of_bidders(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    made = await ask(Auctions(store, P), a_job_due())
    assert made is not None
    first, *_, last = made.tallies
    assert first.held > 20
    assert first.losses > 0, "the floor rises every 25 minutes"
    assert last.markup == MARKUPS[-1]
    assert made.storm.held < first.held


@pytest.mark.parametrize(
    ("lasting", "every"),
    [(timedelta(hours=3.5), PRICES_EVERY), (timedelta(days=2), timedelta(hours=4))],
    ids=["too short", "with too many gaps"],
)
async def test_where_too_little_is_recorded_bids_follow_the_rule(
    store: MemoryStore, lasting: timedelta, every: timedelta
) -> None:
    await recorded(store, lasting, every=every)
    assert await ask(Auctions(store, P), a_job_due()) is None


async def test_of_several_kinds_of_gpu_bids_follow_the_rule(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    assert await ask(Auctions(store, P), a_job_due(gpus=(GpuChoice("RTX 4090", 1), GpuChoice("RTX 3090", 1)))) is None


@pytest.mark.parametrize(
    "job",
    [a_job(spec=a_spec(work_estimate=8 * HOUR)), a_job(), a_job_due(fall_back=False)],
    ids=["no deadline", "no estimate", "never on demand"],
)
async def test_jobs_that_nothing_is_guaranteed_to_bid_by_the_record_as_well(store: MemoryStore, job: Job) -> None:
    await recorded(store, timedelta(days=2))
    assert await ask(Auctions(store, P), job) is not None


async def test_a_job_whose_machines_are_of_several_markets_bids_by_the_rule_from_then_on(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due()
    assert await ask(auctions, job) is not None
    candidates = price_candidates(job, MARKET, eligible(job, MARKET, START, P), P)
    elsewhere = [replace(each, offer=replace(each.offer, provider="other")) for each in candidates[:1]]
    auctions.ask(job, [*candidates, *elsewhere], MARKET)
    assert auctions.of(job) is None


async def test_what_is_planned_is_read_for_as_well(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due()
    candidates = price_candidates(job, MARKET, eligible(job, MARKET, START, P), P)
    planned, is_learning = await auctions.read_for(job, candidates, MARKET, START)
    assert planned is not None
    assert not is_learning
    assert planned == await ask(Auctions(store, P), job)


async def test_a_plan_does_not_wait_for_long_and_says_that_it_is_made_without_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_read = asyncio.Event()

    class Slow(MemoryStore):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[Any]:
            await may_read.wait()
            async with super().snapshot() as uow:
                yield uow

    monkeypatch.setattr("autopilot.engine.auctions.READ_WITHIN_S", 0.0)
    auctions, job = Auctions(Slow(), P), a_job_due()
    candidates = price_candidates(job, MARKET, eligible(job, MARKET, START, P), P)
    assert await auctions.read_for(job, candidates, MARKET, START) == (None, True)
    market = replace(MARKET, outlook=Outlook(is_learning=True))
    assert any("still being read" in note for note in prospects(job, candidates, market, START, P, 0.0).notes)
    may_read.set()
    await auctions.close()


class TestOwnMachines:
    KIND = AuctionKind("vastai", "RTX 4090", 1, pays_bid=True, limit=0.45)

    def _seen(self, *spans: Span, **changes: Any) -> Shadows:
        shadows = Shadows()
        shadows.look(FloorLook({"a": 0.2}, 10.0, 0.45))
        add_own(shadows, self.KIND, [replace(a_lease(), spans=spans, **changes)], START, START + 4 * HOUR)
        return shadows

    def test_their_hours_count_as_held(self) -> None:
        run = Span(InstanceStatus.RUNNING, D("0.2"), ZERO, START - HOUR, START + 3 * HOUR)
        (first, *_) = self._seen(run).bidders.tallies
        assert first.held == pytest.approx(13.0)
        assert first.dollars / first.held == pytest.approx(0.2 * first.markup)

    @pytest.mark.parametrize(("cause", "losses"), [(Reason.DISPLACED, 1), (Reason.OUTBID, 0), (None, 0)])
    def test_what_no_bid_would_have_kept_is_a_loss_of_each(self, cause: Reason | None, losses: int) -> None:
        run = Span(InstanceStatus.RUNNING, D("0.2"), ZERO, START, START + HOUR)
        stop = Span(InstanceStatus.STOPPED, ZERO, ZERO, START + HOUR, None, cause=cause)
        assert {tally.losses for tally in self._seen(run, stop).bidders.tallies} == {losses}

    def test_a_machine_that_is_gone_is_one_as_well(self) -> None:
        run = Span(InstanceStatus.RUNNING, D("0.2"), ZERO, START, START + HOUR)
        assert {tally.losses for tally in self._seen(run, reason=Reason.HOST_LOST).bidders.tallies} == {1}

    def test_those_of_another_kind_are_not_counted(self) -> None:
        run = Span(InstanceStatus.RUNNING, D("0.2"), ZERO, START, START + HOUR)
        assert self._seen(run, gpu="RTX 3090").bidders.tallies[0].held == 10.0


async def test_what_is_new_on_record_is_read_as_well(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due(30)
    before = await ask(auctions, job)
    later = START + 2 * PRICES_EVERY
    async with store.transaction() as uow:
        await uow.prices.add([observation(replace(each, floor=D("0.4")), START + PRICES_EVERY) for each in OFFERS])
    after = await ask(auctions, job, now=later)
    assert before is not None
    assert after is not None
    assert after.tallies[0].losses > before.tallies[0].losses
    assert await ask(auctions, job, now=later) == after, "nothing is read twice"


async def test_what_is_read_bit_by_bit_counts_as_much_as_what_is_read_at_once(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=1))
    slow, job = Auctions(store, P), a_job_due()
    for number in range(48, -1, -1):
        bit_by_bit = await ask(slow, job, now=START - number * PRICES_EVERY)
    at_once = await ask(Auctions(store, P), job)
    assert bit_by_bit is not None
    assert at_once is not None
    assert [each.held for each in bit_by_bit.tallies] == pytest.approx(
        [each.held for each in at_once.tallies], rel=0.02
    )
    assert slow.recorded_h(job) == pytest.approx(24, abs=0.5)


async def test_of_a_job_that_is_being_read_for_it_is_said(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due()
    assert auctions.wants_asking(job)
    auctions.ask(job, price_candidates(job, MARKET, eligible(job, MARKET, START, P), P), MARKET)
    assert auctions.is_learning(job)
    auctions.learn(START)
    await auctions.close()
    assert not auctions.is_learning(job)
    assert auctions.recorded_h(job) == pytest.approx(48, abs=1)


async def test_a_ledger_that_cannot_be_read_leaves_the_rule() -> None:
    class Unreadable(MemoryStore):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[Any]:
            raise StoreUnavailable("the disk is gone")
            yield

    assert await ask(Auctions(Unreadable(), P), a_job_due()) is None


async def test_jobs_that_are_over_are_forgotten(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due()
    assert await ask(auctions, job) is not None
    auctions.forget(())
    assert auctions.of(job) is None
