from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from autopilot.clock import ManualClock
from autopilot.providers.pacing import Lane
from autopilot.providers.vastai.budget import RowBudget
from autopilot.providers.vastai.pacing import INTERVAL_S, Family, lanes


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_lane_keeps_its_distance_from_the_end_of_the_last_request() -> None:
    clock = ManualClock()
    lane = Lane(6.0, clock)
    starts: list[float] = []

    async def request() -> None:
        async with lane:
            starts.append(clock.monotonic())
            await clock.sleep(2)

    tasks = [asyncio.create_task(request()) for _ in range(3)]
    for _ in range(30):
        await settle()
        clock.advance(1)
    await asyncio.gather(*tasks)
    assert starts == [0, 8, 16]


async def test_a_cancelled_wait_gives_its_turn_away() -> None:
    clock = ManualClock()
    lane = Lane(6.0, clock)
    async with lane:
        pass
    waiting = asyncio.create_task(lane.__aenter__())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    clock.advance(6)
    async with lane:
        pass


async def test_a_penalty_holds_the_lane() -> None:
    clock = ManualClock()
    lane = Lane(1.0, clock)
    async with lane:
        lane.hold(20)
    entering = asyncio.create_task(lane.__aenter__())
    for _ in range(19):
        await settle()
        clock.advance(1)
    await settle()
    assert not entering.done()
    clock.advance(1)
    await settle()
    assert entering.done()


async def test_every_family_has_a_lane() -> None:
    assert set(lanes(ManualClock())) == set(Family) == set(INTERVAL_S)


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_rows_are_counted_per_utc_day() -> None:
    budget = RowBudget(100, NOON)
    budget.spend(90, NOON)
    assert budget.allows(10, NOON)
    assert not budget.allows(11, NOON)
    assert budget.allows(100, NOON + timedelta(hours=12))


def test_refreshes_are_spread_once_half_the_rows_are_gone() -> None:
    budget = RowBudget(1000, NOON)
    budget.spend(500, NOON)
    assert budget.sustainable_age_s(50, NOON) == 0
    budget.spend(300, NOON)
    assert budget.sustainable_age_s(50, NOON) == 12 * 3600 * 50 / 200
    budget.spend(200, NOON)
    assert budget.sustainable_age_s(50, NOON) == 12 * 3600 * 50


def test_a_refusal_closes_the_search_until_midnight_at_the_latest() -> None:
    budget = RowBudget(1000, NOON)
    budget.close_until(NOON, 60)
    assert not budget.allows(1, NOON + timedelta(seconds=59))
    assert budget.allows(1, NOON + timedelta(seconds=60))
    budget.close_until(NOON, None)
    assert not budget.allows(1, NOON + timedelta(hours=11, minutes=59))
    assert budget.allows(1, NOON + timedelta(hours=12))


@pytest.mark.parametrize("retry_after_s", [1e9, 9e11])
def test_an_absurd_wait_ends_at_midnight(retry_after_s: float) -> None:
    budget = RowBudget(1000, NOON)
    budget.close_until(NOON, retry_after_s)
    assert not budget.allows(1, NOON + timedelta(hours=11))
    assert budget.allows(1, NOON + timedelta(hours=12))
