"""What decisions know beyond the moment: lives from the ledger, beliefs, and tables that are made beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Span
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Lives, ObservedTime, PhaseModel
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.outlook import LIVES_EVERY, SHAPE_EVERY, Outlooks, lives_of
from autopilot.policy.decide import decide
from autopilot.pricing.availability.phases import first_belief, next_belief
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_intent, an_offer, at

P = Params()
MODEL = PhaseModel((True, False), ((0.95, 0.05), (0.3, 0.7)), 600.0)
SPOT = an_offer("spare", floor=D("0.2"), on_demand_price=None)
DEDICATED = an_offer("dedicated", floor=None, on_demand_price=D(1))
ON, OFF = a_market(SPOT, DEDICATED), a_market(DEDICATED)


def job_due(hours: float = 20, *leases: Lease, id: str = "job-1", **changes: Any) -> Job:
    values = {"work_estimate": 8 * HOUR, "deadline": START + hours * HOUR, "max_bid": D("0.9")}
    return replace(a_job(*leases, spec=a_spec(**(values | changes))), id=id)


@pytest.fixture
async def outlooks() -> AsyncIterator[Outlooks]:
    made = Outlooks(MemoryStore(), MODEL, P)
    yield made
    await made.close()


async def test_the_first_decisions_go_without_a_table_and_later_ones_with_it(outlooks: Outlooks) -> None:
    first = outlooks.of(job_due(), ON, START)
    assert first.shape is None
    assert first.belief == first_belief(MODEL, True)
    without = decide(job_due(), replace(ON, outlook=first), START, P)
    assert next(dict(note.numbers)["cost"] for note in without.notes if note.topic == "option") is None, "waiting"
    await outlooks.close()
    second = outlooks.of(job_due(), ON, at(20))
    assert second.shape is not None
    assert second.shape.phases is MODEL
    with_table = decide(job_due(), replace(ON, outlook=second), at(20), P)
    assert all(dict(note.numbers)["cost"] is not None for note in with_table.notes if note.topic == "option")


async def test_the_loop_goes_on_while_a_table_is_made(outlooks: Outlooks) -> None:
    outlooks.of(job_due(due_id := 21.0), ON, START)
    made = asyncio.create_task(outlooks.close())
    turns = 0
    while not made.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10, "the table was made on the loop"
    assert outlooks.of(job_due(due_id), ON, at(1)).shape is not None


async def test_one_table_serves_jobs_that_ask_for_about_the_same(outlooks: Outlooks) -> None:
    outlooks.of(job_due(), ON, START)
    await outlooks.close()
    other = outlooks.of(job_due(19.5, id="job-2"), ON, at(1))
    assert other.shape is not None, "it already exists"
    assert other.shape is outlooks.of(job_due(), ON, at(2)).shape


async def test_a_table_is_kept_while_a_larger_one_is_made(outlooks: Outlooks) -> None:
    outlooks.of(job_due(12), ON, START)
    await outlooks.close()
    small = outlooks.of(job_due(12), ON, at(1)).shape
    assert small is not None
    later = at(SHAPE_EVERY.total_seconds() + 2)
    outlooks.of(job_due(30), ON, later)
    await outlooks.close()
    large = outlooks.of(job_due(30), ON, later + timedelta(seconds=20)).shape
    after_the_next_look = outlooks.of(job_due(30), ON, later + SHAPE_EVERY).shape
    assert large in (small, after_the_next_look)
    assert after_the_next_look is not None
    assert after_the_next_look.longest_s >= 29 * 3600 > small.longest_s


@pytest.mark.parametrize(
    "job",
    [
        job_due(deadline=None),
        job_due(deadline=None, work_estimate=None),
        replace(job_due(), status=JobStatus.PARKED),
        replace(job_due(), status=JobStatus.SUCCEEDED),
    ],
    ids=["no deadline", "no estimate", "parked", "done"],
)
async def test_nothing_is_made_for_a_job_that_needs_none(outlooks: Outlooks, job: Job) -> None:
    outlooks.of(job, ON, START)
    await outlooks.close()
    found = outlooks.of(job, ON, at(3600))
    assert (found.shape, found.belief) == (None, ())


async def test_a_market_that_lacks_a_kind_of_offer_makes_no_table_but_is_believed_off(outlooks: Outlooks) -> None:
    outlooks.of(job_due(), OFF, START)
    await outlooks.close()
    found = outlooks.of(job_due(), OFF, at(600))
    assert found.shape is None
    assert found.belief == next_belief(MODEL, first_belief(MODEL, False), 600, False)


async def test_the_table_outlives_the_offers_that_it_was_made_from(outlooks: Outlooks) -> None:
    outlooks.of(job_due(), ON, START)
    await outlooks.close()
    assert outlooks.of(job_due(), OFF, at(300)).shape is not None


@pytest.mark.parametrize(
    ("lease", "is_on"),
    [
        (a_lease(), True),
        (a_lease(running_since=None, status=InstanceStatus.PROVISIONING), False),
        (a_lease(capacity_type=CapacityType.ON_DEMAND), False),
    ],
    ids=["on spot", "not yet running", "on demand"],
)
async def test_a_spot_machine_of_one_s_own_shows_that_spot_can_be_had(
    outlooks: Outlooks, lease: Lease, is_on: bool
) -> None:
    assert outlooks.of(job_due(20, lease), OFF, START).belief == first_belief(MODEL, is_on)


async def test_a_belief_follows_what_is_seen_and_twice_within_a_second_is_once(outlooks: Outlooks) -> None:
    job, steps = job_due(), [(600, True), (1200, False), (1500, False), (3000, True)]
    expected = outlooks.of(job, ON, START).belief
    before = 0
    for now, is_on in steps:
        expected = next_belief(MODEL, expected, now - before, is_on)
        before = now
        assert outlooks.of(job, ON if is_on else OFF, at(now)).belief == expected
        assert outlooks.of(job, ON if is_on else OFF, at(now + 0.5)).belief == expected


async def test_jobs_are_believed_each_for_itself(outlooks: Outlooks) -> None:
    one, other = job_due(), job_due(id="job-2", max_bid=D("0.1"))
    assert outlooks.of(one, ON, START).belief == first_belief(MODEL, True)
    assert outlooks.of(other, ON, START).belief == first_belief(MODEL, False), "its bids cannot win"


async def test_what_is_over_is_forgotten(outlooks: Outlooks) -> None:
    outlooks.of(job_due(), ON, START)
    outlooks.of(job_due(18, id="job-2"), ON, START)
    await outlooks.close()
    outlooks.forget(["job-2"])
    kept = outlooks.of(job_due(18, id="job-2"), OFF, at(600))
    assert kept.belief == next_belief(MODEL, first_belief(MODEL, True), 600, False)
    fresh = outlooks.of(job_due(), OFF, at(600))
    assert fresh.belief == first_belief(MODEL, False), "a new job of that name starts afresh"
    outlooks.forget([])
    assert outlooks.of(job_due(18, id="job-2"), OFF, at(1200)).shape is None, "its table went with it"


# Lives.


def a_life(*spans: tuple[InstanceStatus, float, float | None], **changes: Any) -> Lease:
    """Spans as (status, from, to), in hours."""
    made = tuple(
        Span(status, D("0.3"), D("0.004"), START + a * HOUR, None if b is None else START + b * HOUR)
        for status, a, b in spans
    )
    return replace(a_lease(**changes), spans=made)


RUNNING, STOPPED, OFFLINE, LOADING = (
    InstanceStatus.RUNNING,
    InstanceStatus.STOPPED,
    InstanceStatus.OFFLINE,
    InstanceStatus.PROVISIONING,
)
NOW = START + 10 * HOUR


def total(lease: Lease) -> ObservedTime:
    return lives_of([lease], NOW).get(("vastai", "machine", lease.machine_id), Lives()).total


GONE = {"state": LeaseState.GONE}


@pytest.mark.parametrize(
    ("lease", "hours", "losses"),
    [
        (a_life((RUNNING, 0, None)), 10, 0),
        (a_life((RUNNING, 0, 4), **GONE, reason=Reason.CHEAPER_ELSEWHERE), 4, 0),
        (a_life((RUNNING, 0, 4), **GONE, reason=Reason.USER_CANCELLED), 4, 0),
        (a_life((RUNNING, 0, 4), **GONE, reason=Reason.OUTBID), 4, 1),
        (a_life((RUNNING, 0, 4), **GONE, reason=Reason.HOST_LOST), 4, 1),
        (a_life((RUNNING, 0, 4), **GONE, reason=Reason.VANISHED), 4, 1),
        (a_life((RUNNING, 0, 4), (STOPPED, 4, None)), 4, 1),
        (a_life((RUNNING, 0, 4), (OFFLINE, 4, 5), (RUNNING, 5, None)), 9, 1),
        (a_life((RUNNING, 0, 2), (STOPPED, 2, 3), (RUNNING, 3, 7), (STOPPED, 7, None)), 6, 2),
        (a_life((LOADING, 0, 1), (RUNNING, 1, 4), **GONE, reason=Reason.RETRY), 3, 0),
        (a_life((RUNNING, 0, 2), (RUNNING, 2, 5), (RUNNING, 5, None)), 10, 0),
        (a_life((RUNNING, 0, 2), (RUNNING, 2, 5), (STOPPED, 5, None)), 5, 1),
        (a_life((LOADING, 0, 3), **GONE, reason=Reason.HOST_LOST), 0, 0),
        (an_intent(), 0, 0),
    ],
    ids=[
        "goes on",
        "left for another",
        "released",
        "outbid",
        "host lost",
        "vanished",
        "paused",
        "offline and back",
        "paused twice",
        "loaded first",
        "price changed",
        "price changed, then paused",
        "never ran",
        "never rented",
    ],
)
def test_each_stretch_of_running_is_a_life(lease: Lease, hours: float, losses: float) -> None:
    observed = total(lease)
    assert observed.hours == pytest.approx(hours)
    assert observed.losses == losses


def test_a_run_whose_price_changed_is_one_life_not_two() -> None:
    lease = a_life((RUNNING, 0, 2), (RUNNING, 2, 9), (STOPPED, 9, None))
    lives = lives_of([lease], NOW)["vastai", "gpu", lease.gpu]
    assert [exposure.losses for exposure in lives.by_age] == [0, 0, 0, 1, 0], "it died at nine hours"


def test_lives_are_kept_by_kind_host_and_machine() -> None:
    one = a_life((RUNNING, 0, 1), (STOPPED, 1, None), machine_id="m1", host_id="h1")
    other = a_life((RUNNING, 0, 3), (STOPPED, 3, None), machine_id="m2", host_id="h1")
    lives = lives_of([one, other], NOW)
    totals = {key: (lives[key].total.hours, lives[key].total.losses) for key in lives}
    assert totals == {
        ("vastai", "gpu", "RTX 4090"): (4, 2),
        ("vastai", "host", "h1"): (4, 2),
        ("vastai", "machine", "m1"): (1, 1),
        ("vastai", "machine", "m2"): (3, 1),
    }


async def test_lives_are_read_from_the_ledger_now_and_then() -> None:
    store = MemoryStore()
    outlooks = Outlooks(store, MODEL, P)
    await outlooks.refresh(START)
    assert outlooks.of(job_due(), ON, START).lives == {}
    lease = a_life((RUNNING, 0, 0.1), (STOPPED, 0.1, None))
    async with store.transaction() as work:
        await work.jobs.save(job_due(20, lease))
    await outlooks.refresh(START + LIVES_EVERY / 2)
    assert outlooks.of(job_due(), ON, START).lives == {}
    await outlooks.refresh(START + LIVES_EVERY)
    lives = outlooks.of(job_due(), ON, START).lives
    assert lives["vastai", "machine", lease.machine_id].total.losses == 1
    await outlooks.close()


async def test_a_lease_s_hazard_follows_what_was_seen_of_its_machine() -> None:
    store = MemoryStore()
    outlooks = Outlooks(store, MODEL, P)
    lease = a_life((RUNNING, 0, 0.1), (STOPPED, 0.1, None))
    elsewhere = replace(lease, gpu="H100", host_id="h9", machine_id="m9")
    assert outlooks.hazard_of(lease) == P.hazard.preemptions_per_h
    assert outlooks.hazard_of(replace(lease, capacity_type=CapacityType.ON_DEMAND)) == 0
    async with store.transaction() as work:
        await work.jobs.save(job_due(20, lease))
    await outlooks.refresh(START)
    assert outlooks.hazard_of(lease) > P.hazard.preemptions_per_h
    assert outlooks.hazard_of(elsewhere) == P.hazard.preemptions_per_h
    await outlooks.close()
