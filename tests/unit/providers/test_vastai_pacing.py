from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from autopilot.clock import ManualClock
from autopilot.providers.pacing import FIRST_QUIET_S, LONGEST_QUIET_S, Lane, Quiet, urgently
from autopilot.providers.reading import LONGEST_HOLD_S
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
    clock = ManualClock()
    assert set(lanes(clock, Quiet(clock, INTERVAL_S))) == set(Family) == set(INTERVAL_S)


def refused_in_a_row(quiet: Quiet[str], clock: ManualClock, family: str, times: int) -> list[float]:
    """How long each holds, where the next request is sent as soon as it may be."""
    held = []
    for _ in range(times):
        quiet.refuse(family)
        held.append(quiet.left_s(family))
        clock.advance(held[-1])
    return held


def test_each_refusal_in_a_row_doubles_the_pause_up_to_minutes_and_answers_shorten_it() -> None:
    clock = ManualClock()
    quiet = Quiet(clock, {"list": 0, "price": 0})
    assert refused_in_a_row(quiet, clock, "list", 6) == [15, 30, 60, 120, 240, 300]
    quiet.succeed("list")
    assert quiet.left_s("list") == 0
    quiet.refuse("list")
    assert quiet.left_s("list") == LONGEST_QUIET_S
    clock.advance(LONGEST_QUIET_S)
    for _ in range(10):
        quiet.succeed("list")
    assert refused_in_a_row(quiet, clock, "list", 1) == [FIRST_QUIET_S]


def test_all_families_of_an_account_keep_still_and_one_that_has_answers_holds_none_up_for_long() -> None:
    clock = ManualClock()
    quiet = Quiet(clock, {"list": 0, "price": 0})
    for _ in range(4):
        quiet.refuse("price")
        assert quiet.left_s("list") == FIRST_QUIET_S
        clock.advance(quiet.left_s("list"))
        quiet.succeed("list")
        clock.advance(quiet.left_s("price"))
    quiet.refuse("price")
    assert quiet.left_s("price") == 240


def test_a_market_that_counts_each_endpoint_by_itself_holds_none_for_another() -> None:
    quiet = Quiet(ManualClock(), {"list": 0, "price": 0}, is_shared=False)
    quiet.refuse("price", 40)
    assert (quiet.left_s("price"), quiet.left_s("list")) == (40, 0)


def test_what_is_asked_for_is_kept_to_within_bounds_and_what_is_urgent_waits_a_minute() -> None:
    quiet = Quiet(ManualClock(), {"list": 0})
    quiet.refuse("list", 1e9)
    assert quiet.left_s("list") == LONGEST_QUIET_S
    with urgently():
        assert quiet.left_s("list") == LONGEST_HOLD_S


def test_requests_on_their_way_together_are_one_refusal() -> None:
    clock = ManualClock()
    quiet = Quiet(clock, {"list": 0})
    for _ in range(3):
        quiet.refuse("list")
    assert quiet.left_s("list") == FIRST_QUIET_S


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
