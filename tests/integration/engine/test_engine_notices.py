"""What an engine on a market brings people notice of, and how often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.engine.conditions import AGAIN_AFTER
from autopilot.ids import UlidIds
from autopilot.notices.kinds import NAMES
from autopilot.notices.outbox import Announcer, AnnouncingStore, Subscription
from autopilot.ports.store import PendingNotice, Store
from tests.integration.engine.engine_world import JOB, OURS, TICK_S, D, World, a_world

ALL = {"ops": Subscription(frozenset(NAMES)), "team": Subscription(is_default=False)}
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "3h"')


@pytest.fixture
async def announced(tmp_path: Path) -> AsyncIterator[World]:
    def wrap(store: Store) -> Store:
        return AnnouncingStore(store, Announcer(ALL, UlidIds(world.clock), str), lambda: None)

    async with a_world(tmp_path, lambda store: store) as world:
        world.wrap = wrap
        await world.restart()
        await world.tick()
        yield world


async def notices(world: World, sink: str = "ops") -> list[PendingNotice]:
    async with world.store.snapshot() as uow:
        return list(await uow.notices.list_due(sink, world.clock.now(), limit=1000))


async def kinds(world: World, sink: str = "ops") -> list[str]:
    return [notice.kind for notice in await notices(world, sink)]


async def ticks_for(world: World, span: timedelta, apart_s: float = TICK_S) -> None:
    await world.tick(int(span.total_seconds() / apart_s), apart_s)


async def test_a_job_that_succeeds(announced: World) -> None:
    await announced.running()
    job = await announced.until_over()
    (notice,) = await notices(announced)
    assert (notice.kind, notice.job_id) == ("job_succeeded", job.id)
    assert "cost $0.0" in notice.text
    assert "of its budget of $9.00" in notice.text
    assert "autopilot pull train" in notice.text


async def test_a_job_that_names_its_sink_is_heard_of_there_alone(announced: World) -> None:
    await announced.running('notify = ["team"]\n' + JOB)
    await announced.until_over()
    assert (await kinds(announced), await kinds(announced, "team")) == ([], ["job_succeeded"])


async def test_a_job_that_wants_no_notice_has_none(announced: World) -> None:
    await announced.running("notify = []\n" + JOB)
    await announced.until_over()
    assert (await kinds(announced), await kinds(announced, "team")) == ([], [])


async def test_a_job_that_fails_for_good(announced: World) -> None:
    announced.agents.exit_code = 3
    await announced.running()
    await announced.until_over(JobStatus.FAILED)
    (notice,) = await notices(announced)
    assert notice.title == "Job train has failed"
    assert "exit code 3 (command failed); 3 of 3 attempts have failed" in notice.text


@pytest.mark.slow
async def test_a_budget_that_nears_its_end_and_is_used_up(announced: World) -> None:
    announced.agents.total_steps = 10_800
    await announced.running(LONG_JOB.replace('"$9"', '"$0.50"'), accept_any=True)
    while (await announced.job()).status.wants_capacity:
        await announced.tick(apart_s=60)
    await announced.until_settled()
    heard = await notices(announced)
    assert [notice.kind for notice in heard] == ["budget_low", "budget_used_up"]
    assert "$0.50" in heard[1].text
    assert "is enough to resume" in heard[1].text


@pytest.mark.slow
async def test_a_budget_of_which_four_fifths_are_spent_is_said_once(announced: World) -> None:
    announced.agents.total_steps = 100_000
    await announced.running(LONG_JOB.replace('"$9"', '"$3"'), accept_any=True)
    while (await announced.job()).spent < D("2.4"):
        await announced.tick(apart_s=600)
    await announced.tick(2)
    await announced.restart()
    await announced.tick(3)
    (notice,) = [each for each in await notices(announced) if each.kind == "budget_low"]
    assert notice.title.startswith("Job train has spent 8")
    assert "of $3.00" in notice.text


@pytest.mark.slow
async def test_a_market_that_stays_unread_is_said_once_and_again_after_it_was_read(announced: World) -> None:
    announced.agents.total_steps = 100_000
    await announced.running(LONG_JOB)
    await announced.fault("list", "http_503", times=None)
    await ticks_for(announced, timedelta(minutes=4))
    assert await kinds(announced) == []
    await ticks_for(announced, timedelta(minutes=2))
    (notice,) = await notices(announced)
    assert notice.title == "vastai cannot be read"
    assert "1 of our machines is there and may be billing" in notice.text
    await announced.restart()
    await ticks_for(announced, timedelta(minutes=10))
    assert await kinds(announced) == ["market_unread"], "a restart has said it once more"
    await announced.clear_faults()
    await announced.tick(2)
    await announced.fault("list", "http_503", times=None)
    await ticks_for(announced, timedelta(minutes=10))
    assert await kinds(announced) == ["market_unread"], "so soon after the first"
    await ticks_for(announced, AGAIN_AFTER, apart_s=300)
    assert await kinds(announced) == ["market_unread"] * 2


async def test_a_market_that_is_unread_over_a_restart_and_for_long_is_said_once(announced: World) -> None:
    await announced.fault("list", "http_503", times=None)
    await ticks_for(announced, timedelta(minutes=7))
    await announced.restart()
    await ticks_for(announced, 2 * AGAIN_AFTER, apart_s=300)
    assert await kinds(announced) == ["market_unread"]


async def test_a_deadline_that_is_out_of_reach_is_said_once(announced: World) -> None:
    await announced.fault("list", "http_503", times=None)
    await announced.submit(JOB + '[deadline]\nwithin = "30m"\n', accept_any=True)
    await announced.tick(3)
    assert await kinds(announced) == []
    await ticks_for(announced, timedelta(minutes=25))
    (notice,) = [each for each in await notices(announced) if each.kind == "job_late"]
    assert notice.title == "Job train will miss its deadline"
    assert "needs 10 min more even on the fastest GPU" in notice.text


async def test_credit_that_ends_within_a_day(announced: World) -> None:
    announced.agents.total_steps = 100_000
    lease = await announced.running(LONG_JOB)
    await announced.tick(5)
    assert await kinds(announced) == []
    announced.market.set_credit(20 * lease.burn_upper)
    await announced.tick(8)
    (notice,) = await notices(announced)
    assert notice.title == "Credit on vastai runs out within a day"
    assert "it lasts 19 h" in notice.text or "it lasts 20 h" in notice.text


async def test_a_machine_that_no_job_wants(announced: World) -> None:
    announced.agents.total_steps = 100_000
    await announced.running(LONG_JOB)
    unknown = await announced.rent_by_hand(f"{OURS}{UlidIds(announced.clock).new()}")
    announced.clock.advance(300)
    await announced.tick(6)
    (notice,) = await notices(announced)
    assert notice.kind == "orphan_found"
    assert f"Machine {unknown.id} on vastai runs for up to $" in notice.text


async def test_a_ledger_that_knows_none_of_our_machines(announced: World) -> None:
    await announced.rent_by_hand(f"{OURS}{UlidIds(announced.clock).new()}")
    await announced.tick(3)
    (notice,) = await notices(announced)
    assert notice.title == "Machines on vastai are unknown to the ledger"
    await announced.tick(8, apart_s=300)
    assert await kinds(announced) == ["market_quarantined", "orphan_found"]
