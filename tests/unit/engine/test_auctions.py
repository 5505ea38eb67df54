"""What is learnt from recorded floors, and when it is not: too short, too few, a ledger that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from autopilot.domain.floors import AuctionShape
from autopilot.domain.job import GpuChoice, Job
from autopilot.domain.market import Market
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY
from autopilot.engine.auctions import LEARN_EVERY, LOOK_AGAIN, Auctions, FloorRecord, serves
from autopilot.engine.history import observation
from autopilot.policy.eligibility import eligible
from autopilot.ports.store import StoreUnavailable
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, START, D, a_job, a_market, a_spec, an_offer

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


async def shape(auctions: Auctions, job: Job, market: Market = MARKET, now: datetime = START) -> AuctionShape | None:
    """Asked for, learnt, asked for again, made."""
    found = price_candidates(job, market, eligible(job, market, now, P), P)
    for _ in range(2):
        auctions.shape(job, found, market, now)
        auctions.learn(now)
        await auctions.close()
    return auctions.of(job)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_days_of_floors_become_the_shape_of_a_table(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    made = await shape(Auctions(store, P), a_job_due())
    assert made is not None
    assert made.floors.step_s == PRICES_EVERY.total_seconds()
    assert made.on_demand_price == 0.5
    assert made.ceiling == 0.449, "below the highest bid that the job allows"
    assert made.longest_work_s >= 8 * 3600


async def test_long_work_goes_in_longer_steps(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    made = await shape(Auctions(store, P), a_job_due(60, work_estimate=40 * HOUR))
    assert made is not None
    assert made.floors.step_s == 2 * PRICES_EVERY.total_seconds()


@pytest.mark.parametrize(
    ("lasting", "every"),
    [(timedelta(hours=3.5), PRICES_EVERY), (timedelta(days=2), timedelta(hours=4))],
    ids=["too short", "with too many gaps"],
)
async def test_where_too_little_is_recorded_bids_follow_the_rule(
    store: MemoryStore, lasting: timedelta, every: timedelta
) -> None:
    await recorded(store, lasting, every=every)
    assert await shape(Auctions(store, P), a_job_due()) is None


@pytest.mark.parametrize(
    "job",
    [
        a_job(spec=a_spec(work_estimate=8 * HOUR)),
        a_job_due(gpus=(GpuChoice("RTX 4090", 1), GpuChoice("RTX 3090", 1))),
        a_job_due(fall_back=False),
        a_job_due(400, work_estimate=300 * HOUR),
    ],
    ids=["no deadline", "two kinds of GPU", "never on demand", "work of many days"],
)
async def test_jobs_that_no_auction_is_reckoned_for(store: MemoryStore, job: Job) -> None:
    await recorded(store, timedelta(days=2))
    assert await shape(Auctions(store, P), job) is None


async def test_learnt_values_are_refreshed_and_serve_meanwhile(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due(30)
    before = await shape(auctions, job)
    auctions.learn(START + LEARN_EVERY)
    assert auctions.of(job) is before
    await auctions.close()
    after = await shape(auctions, job, now=START + LEARN_EVERY)
    assert after is not None
    assert before is not None
    assert after.floors is not before.floors


async def test_too_little_is_looked_at_again_after_an_hour(store: MemoryStore) -> None:
    auctions, job = Auctions(store, P), a_job_due()
    assert await shape(auctions, job) is None
    await recorded(store, timedelta(days=2))
    assert await shape(auctions, job, now=START + LOOK_AGAIN / 2) is None
    assert await shape(auctions, job, now=START + LOOK_AGAIN) is not None


async def test_a_ledger_that_cannot_be_read_leaves_the_rule() -> None:
    class Unreadable(MemoryStore):
        @asynccontextmanager
        async def snapshot(self) -> AsyncIterator[Any]:
            raise StoreUnavailable("the disk is gone")
            yield

    assert await shape(Auctions(Unreadable(), P), a_job_due()) is None


async def test_jobs_that_are_over_are_forgotten(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    auctions, job = Auctions(store, P), a_job_due()
    assert await shape(auctions, job) is not None
    auctions.forget(())
    assert auctions.of(job) is None


def test_a_record_is_put_together_bit_by_bit() -> None:
    until = START + 2 * HOUR
    record = FloorRecord(START, until, PRICES_EVERY)
    seen = [observation(OFFERS[0], START + number * PRICES_EVERY) for number in range(24)]
    for first in range(0, 24, 7):
        record.add(seen[first : first + 7])
    assert record.recorded == 2 * HOUR
    assert record.floors == {"a": record.floors["a"]}
    assert list(record.floors["a"]) == [0.2] * 24


async def test_tables_serve_while_prices_stay_near(store: MemoryStore) -> None:
    await recorded(store, timedelta(days=2))
    made = await shape(Auctions(store, P), a_job_due())
    assert made is not None
    assert serves(made, replace(made, on_demand_price=0.51, migrate_s=made.migrate_s + 60))
    assert not serves(made, replace(made, on_demand_price=0.6))
    assert not serves(made, replace(made, longest_work_s=made.longest_work_s + 1))
    assert not serves(made, replace(made, floors=replace(made.floors)))
