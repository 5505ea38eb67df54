"""Watched floors and the day's rows: an equal share for each, a bounded one for all, and nothing of the last rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.offer import OfferQuery
from autopilot.ports.provider import MarketUnknown
from autopilot.providers.vastai.budget import RowBudget
from autopilot.providers.vastai.watched import ROWS, WatchedFloors
from autopilot.providers.vastai.wire import OfferRow, offer_rows
from tests.unit.providers.vastai_samples import body

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
PER_DAY = 16_000
TICK_S = 15.0
TICKS_A_DAY = 5760


def query(gpu: str) -> OfferQuery:
    return OfferQuery(((gpu, 1),), Decimal(0), Decimal(20), verified_only=True, datacenter_only=False, floors_only=True)


class Market:
    """Shows a full page to each search, and counts the rows as the adapter does."""

    def __init__(self, rows_per_day: int = PER_DAY) -> None:
        self.clock = ManualClock(MIDNIGHT)
        self.budget = RowBudget(rows_per_day, MIDNIGHT)
        self.asked: list[tuple[str, float]] = []
        self.fails = False
        self.watched = WatchedFloors(self.budget, self.clock, self._ask)

    async def _ask(self, asked: OfferQuery) -> tuple[OfferRow, ...]:
        self.asked.append((asked.gpus[0][0], self.clock.monotonic()))
        if self.fails:
            raise MarketUnknown("no answer")
        self.budget.spend(ROWS, self.clock.now(), watching=True)
        return offer_rows(body("offer_bid")["offers"])[0]

    async def live(self, gpus: list[str], ticks: int) -> int:
        """The daemon's ticks: how many answers had floors in them."""
        answers = 0
        for _ in range(ticks):
            for gpu in gpus:
                answers += bool(await self.watched.rows(query(gpu)))
            self.clock.advance(TICK_S)
        return answers


async def test_one_gpu_is_seen_every_five_minutes_all_day() -> None:
    market = Market()
    answers = await market.live(["RTX 4090"], TICKS_A_DAY)
    assert len(market.asked) == 288
    assert answers == TICKS_A_DAY, "what is seen is told until the next search"


@pytest.mark.slow
@pytest.mark.parametrize("many", [3, 10])
async def test_several_share_a_quarter_of_the_days_rows_evenly_and_spread_out(many: int) -> None:
    market = Market()
    await market.live([f"GPU {number}" for number in range(many)], TICKS_A_DAY)
    searches = Counter(gpu for gpu, _ in market.asked)
    assert 0.23 * PER_DAY < ROWS * sum(searches.values()) <= 0.25 * PER_DAY
    assert max(searches.values()) - min(searches.values()) <= 2
    assert len({at for _, at in market.asked}) == len(market.asked), "never two in one tick"


@pytest.mark.slow
async def test_what_was_seen_long_ago_is_not_told_as_if_it_were_now() -> None:
    market = Market()
    answers = await market.live([f"GPU {number}" for number in range(10)], TICKS_A_DAY)
    assert answers == pytest.approx(len(market.asked) * 300 / TICK_S, rel=0.02)


async def test_the_last_rows_of_a_day_are_for_jobs_alone() -> None:
    market = Market()
    market.budget.spend(round(0.875 * PER_DAY) - ROWS, MIDNIGHT)
    await market.live(["RTX 4090"], 100)
    assert len(market.asked) == 1
    assert market.budget.allows(round(0.125 * PER_DAY), market.clock.now())
    market.clock.advance(86_400)
    await market.live(["RTX 4090"], 1)
    assert len(market.asked) == 2, "a new day"


async def test_a_gpu_that_jobs_search_for_an_hour_leaves_its_share_to_the_others() -> None:
    market = Market()
    gpus = [f"GPU {number}" for number in range(10)]
    await market.live(gpus, 240)
    before = len(market.asked)
    await market.live(gpus[:2], 960)
    each = (len(market.asked) - before) / 2
    assert each > 1.5 * 4 * 3600 / (10 * ROWS * 86_400 / (0.25 * PER_DAY))


async def test_a_search_that_fails_waits_for_its_next_turn() -> None:
    market = Market()
    market.fails = True
    with pytest.raises(MarketUnknown):
        await market.watched.rows(query("RTX 4090"))
    for _ in range(10):
        market.clock.advance(TICK_S)
        assert await market.watched.rows(query("RTX 4090")) == ()
    assert len(market.asked) == 1
