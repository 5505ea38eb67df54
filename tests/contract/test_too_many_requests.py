"""A market that says that it is asked too much is asked less, by all callers together. What ends a bill is sent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest

from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused
from autopilot_lab.sandbox import faults
from autopilot_lab.sandbox.mithril import injected_faults as mithril_faults
from autopilot_lab.sandbox.nebius import injected_faults as nebius_faults
from autopilot_lab.sandbox.runpod import injected_faults as runpod_faults
from tests.contract.harness import Harness, QuickClock
from tests.contract.mithril_harness import mithril_harness
from tests.contract.nebius_harness import nebius_harness
from tests.contract.provider_contract import LOOK_EVERY_S, absent, eventually, request, running
from tests.contract.runpod_harness import runpod_harness
from tests.contract.vastai_harness import vastai_harness

HALF_AN_HOUR_S = 1800.0
MINUTES_S = 300.0
"""The longest that a market is left alone."""


class WithControl(Harness, Protocol):
    clock: QuickClock

    async def control(self, name: str, **wish: Any) -> Any: ...


def _vastai(root: Path, clock: QuickClock) -> AbstractAsyncContextManager[WithControl]:
    return vastai_harness(root, clock, CapacityType.SPOT)


def _runpod(root: Path, clock: QuickClock) -> AbstractAsyncContextManager[WithControl]:
    return runpod_harness(root, clock, CapacityType.SPOT)


Market = tuple[Callable[[Path, QuickClock], AbstractAsyncContextManager[WithControl]], Iterable[str], str]
MARKETS: dict[str, Market] = {
    "vastai": (_vastai, faults.FAMILIES, "http_429"),
    "runpod": (_runpod, runpod_faults.FAMILIES, "http_429"),
    "mithril": (mithril_harness, mithril_faults.FAMILIES, "http_429"),
    "nebius": (nebius_harness, nebius_faults.FAMILIES - {"token"}, "rate_limited"),
}


class Limited:
    """One market, of which all answers may be that it is asked too much."""

    def __init__(self, harness: WithControl, families: Iterable[str], kind: str) -> None:
        self.harness = harness
        self._families, self._kind = tuple(families), kind

    async def limit(self, *, times: int | None = None) -> None:
        for family in self._families:
            await self.harness.control("fault", on=family, kind=self._kind, times=times)

    async def calls(self) -> int:
        counted: dict[str, int] = await self.harness.control("requests")
        return sum(counted.values())

    async def half_an_hour(self) -> int:
        """What a daemon asks meanwhile: the machines each tick, the prices as often as it decides."""
        before, until = await self.calls(), self.harness.clock.monotonic() + HALF_AN_HOUR_S
        while self.harness.clock.monotonic() < until:
            for read in self.reads():
                with contextlib.suppress(MarketUnknown):
                    await read()
            await self.harness.advance(LOOK_EVERY_S)
        return await self.calls() - before

    def reads(self) -> list[Callable[[], Awaitable[object]]]:
        provider = self.harness.provider
        return [provider.instances, provider.account, lambda: provider.offers(self.harness.query)]


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


@pytest.fixture(params=MARKETS)
async def market(request: pytest.FixtureRequest, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Limited]:
    made, families, kind = MARKETS[request.param]
    async with made(tmp_path, clock) as harness:
        yield Limited(harness, families, kind)


@pytest.mark.slow
async def test_under_a_limit_the_market_is_asked_less_and_not_more(market: Limited) -> None:
    usual = await market.half_an_hour()
    await market.limit()
    under_a_limit = await market.half_an_hour()
    assert under_a_limit < usual / 4
    assert under_a_limit > 0, "without requests the end of the limit stays unknown"


async def test_a_read_that_is_limited_is_not_sent_again_and_its_neighbours_wait(market: Limited) -> None:
    await market.harness.provider.offers(market.harness.query)
    await market.limit()
    before = await market.calls()
    with pytest.raises(MarketUnknown) as raised:
        await market.harness.provider.instances()
    assert raised.value.code is RefusalCode.RATE_LIMITED
    assert await market.calls() - before == 1


async def test_what_would_wait_for_minutes_is_refused_unsent(market: Limited) -> None:
    harness = market.harness
    asked = request(harness, await harness.make_offer_available())
    await market.limit()
    for _ in range(3):
        outcome = await harness.provider.create(asked)
        assert isinstance(outcome, Refused), outcome
        assert outcome.code is RefusalCode.RATE_LIMITED
    before = await market.calls()
    outcome = await harness.provider.create(asked)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.RATE_LIMITED
    assert await market.calls() == before


async def test_once_the_limit_is_over_the_market_is_known_again(market: Limited, clock: QuickClock) -> None:
    await market.limit(times=1)
    for _ in range(100):
        try:
            await market.harness.provider.instances()
        except MarketUnknown:
            await market.harness.advance(LOOK_EVERY_S)
        else:
            break
    else:
        raise AssertionError("it stays unknown")
    assert clock.monotonic() < 4 * MINUTES_S
    before = clock.monotonic()
    await market.harness.provider.instances()
    assert clock.monotonic() - before < 2 * LOOK_EVERY_S


async def test_a_destroy_is_sent_however_long_the_market_is_left_alone(market: Limited, clock: QuickClock) -> None:
    harness = market.harness
    instance_id = await running(harness)
    await market.limit()
    for _ in range(40):
        with pytest.raises(MarketUnknown):
            await harness.provider.instances()
        await harness.advance(LOOK_EVERY_S)
    before, begun = await market.calls(), clock.monotonic()
    outcome = await harness.provider.destroy(instance_id)
    assert not isinstance(outcome, Done)
    assert await market.calls() > before
    assert clock.monotonic() - begun <= 130, "a minute for the destroy, and one for what it reads"


@pytest.mark.slow
async def test_a_destroy_gets_through_once_it_may(market: Limited) -> None:
    harness = market.harness
    instance_id = await running(harness)
    await market.limit(times=2)
    for _ in range(30):
        if isinstance(await harness.provider.destroy(instance_id), Done):
            break
    else:
        raise AssertionError("it was never sent")

    async def gone() -> bool | None:
        try:
            return await absent(harness, instance_id)
        except MarketUnknown:
            return None

    await eventually(harness, gone)
