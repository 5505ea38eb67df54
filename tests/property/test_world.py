"""The pure core against a market in which anything goes wrong: it never breaks its own rules, and it cleans up."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from autopilot.domain import events as e
from autopilot.domain.evolve import evolve
from autopilot.domain.job import JobStatus, SpotPolicy
from autopilot.domain.lease import Role
from autopilot.domain.reasons import Reason
from tests.builders import HOUR, START, D, a_spec
from tests.property.world import TICK, World
from tests.variants import first_of

TICKS = 120


def a_world(seed: int) -> World:
    rng = random.Random(seed)
    spec = a_spec(
        work_estimate=rng.choice([None, 2 * HOUR, 10 * HOUR]),
        deadline=rng.choice([None, START + 3 * HOUR, START + 24 * HOUR]),
        budget=rng.choice([None, D("0.30"), D(2), D(50)]),
        spot_policy=rng.choice(list(SpotPolicy)),
        max_bid=rng.choice([None, D("0.300")]),
        max_attempts=rng.choice([1, 1000]),
    )
    return World(rng, rng.choice([0.0, 0.01, 0.05, 0.2]), spec)


@pytest.mark.parametrize("seed", first_of(range(100), 40))
def test_under_all_faults_the_rules_hold_and_nothing_is_left_behind(seed: int) -> None:
    world = a_world(seed)
    for _ in range(TICKS):
        world.tick()
        assert len(world.machines) <= world.created, "machines out of nowhere"
    world.trouble = 0
    if world.job.status.wants_capacity or world.job.status is JobStatus.PARKED:
        world.job = evolve(world.job, e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, world.now))
    for _ in range(60):
        world.tick()
    assert world.machines == {}, "a machine was left at the market"
    assert world.job.status.is_final
    assert world.job.leases == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_in_a_calm_market_the_job_is_at_work_and_stays(seed: int) -> None:
    world = a_world(seed)
    world.trouble = 0
    world.spec = a_spec(work_estimate=None)
    world.__post_init__()
    for _ in range(40):
        world.tick()
    main = world.job.main
    assert main is not None
    assert (world.job.status, main.orders.role, world.created) == (JobStatus.RUNNING, Role.RUN, 1)
    assert world.job.work_done >= 20 * TICK


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_after_the_trouble_is_over_the_job_works_again(seed: int) -> None:
    world = a_world(seed)
    world.trouble = 0.1
    world.spec = a_spec(work_estimate=None, max_attempts=1000)
    world.__post_init__()
    for _ in range(TICKS):
        world.tick()
    world.trouble = 0
    since = world.now
    while world.job.status is not JobStatus.RUNNING:
        world.tick()
        assert world.now - since < timedelta(hours=2), f"{world.job.status}: {world.job.reason}"


@pytest.mark.slow
def test_the_world_is_as_hostile_as_it_claims() -> None:
    """Every kind of trouble really happened to somebody; else the tests above prove little."""
    happened: set[str] = set()
    for seed in range(12):
        world = a_world(seed)
        world.trouble = 0.1
        world.spec = a_spec(max_attempts=1000, spot_policy=list(SpotPolicy)[seed % 3])
        world.__post_init__()
        for _ in range(TICKS):
            world.tick()
        happened |= world.seen.keys()
    assert happened == {
        "outbid",
        "host lost",
        "vanished",
        "vanished at all",
        "market unknown",
        "agent silent",
        "command failed",
        "create refused",
        "create refused with a contract",
        "create without effect or answer",
        "create answered by silence",
        "wrong terms",
        "bid refused",
        "bid answered by silence",
        "destroy not accepted",
        "destroy ignored",
    }
