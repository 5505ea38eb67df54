"""Lost answers, broken bodies, limits and keys: nothing is sent twice, nothing is taken for what it is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.pacing import Family
from tests.integration.vastai.vastai_bench import KEY, QUERY, Bench, eventually

UNREADABLE = ["effect_then_500", "effect_then_reset", "html", "empty", "bad_json"]
SHORT_S = 2.0
"""Long enough for the request to arrive, whose answer never comes."""


async def labels(provider: VastaiProvider) -> list[str]:
    return [instance.label for instance in await provider.instances()]


async def test_a_create_whose_answer_never_comes_is_unknown_and_sent_once(bench: Bench) -> None:
    offer = await bench.cheapest()
    provider = bench.connect(timeout_s=SHORT_S)
    await bench.fault("create", "effect_then_timeout")
    outcome = await provider.create(bench.request(offer, "ap1.test.lost"))
    assert isinstance(outcome, Unknown)
    assert await bench.requests("create") == 1
    assert await bench.creates_seen("ap1.test.lost") == 1
    assert await labels(bench.provider) == ["ap1.test.lost"]
    await provider.close()


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_create_with_an_unreadable_answer_is_unknown_and_sent_once(bench: Bench, kind: str) -> None:
    await bench.fault("create", kind)
    outcome = await bench.provider.create(bench.request(await bench.cheapest(), "ap1.test.lost"))
    assert isinstance(outcome, Unknown)
    assert await bench.requests("create") == 1
    assert await labels(bench.provider) == ["ap1.test.lost"]


@pytest.mark.parametrize("kind", ["http_500", "http_502", "http_503", "http_504", "reset", "redirect"])
async def test_a_create_that_failed_on_the_way_is_unknown_and_not_repeated(bench: Bench, kind: str) -> None:
    await bench.fault("create", kind)
    outcome = await bench.provider.create(bench.request(await bench.cheapest()))
    assert isinstance(outcome, Unknown)
    assert await bench.requests("create") == 1
    assert await labels(bench.provider) == []


@pytest.mark.parametrize("more", [{}, {"detail": True}, {"retry_after": 9}])
async def test_a_create_that_came_too_early_is_refused(bench: Bench, more: dict[str, Any]) -> None:
    offer = await bench.cheapest()
    await bench.fault("create", "http_429", **more)
    outcome = await bench.provider.create(bench.request(offer))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.retry_after_s) == (RefusalCode.RATE_LIMITED, more.get("retry_after", 4.5))
    before = bench.clock.monotonic()
    assert isinstance(await bench.provider.create(bench.request(offer)), Done)
    assert bench.clock.monotonic() - before > 12


async def test_a_cancelled_create_runs_to_its_end(bench: Bench) -> None:
    await bench.fault("create", "effect_then_timeout", hang_s=0.2)
    creating = asyncio.create_task(bench.provider.create(bench.request(await bench.cheapest(), "ap1.test.cancelled")))

    async def sent() -> bool | None:
        return True if await bench.requests("create") else None

    await eventually(sent)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await bench.provider.close()
    assert await bench.creates_seen("ap1.test.cancelled") == 1


async def test_a_create_cancelled_before_its_turn_is_never_sent(bench: Bench) -> None:
    request = bench.request(await bench.cheapest(), "ap1.test.never")
    async with bench.provider._client.lane(Family.CREATE):
        waiting = asyncio.create_task(bench.provider.create(request))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await bench.provider.close()
    assert await bench.requests("create") == 0


@pytest.mark.parametrize("kind", [*UNREADABLE, "http_503", "reset", "redirect"])
async def test_changes_with_an_open_fate_are_unknown(bench: Bench, kind: str) -> None:
    instance_id = await bench.rent()
    provider = bench.provider
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "bid": lambda: provider.change_bid(instance_id, bench.request_rate),
        "state": lambda: provider.stop(instance_id),
        "destroy": lambda: provider.destroy(instance_id),
    }
    for family, change in changes.items():
        sent = await bench.requests(family)
        await bench.fault(family, kind)
        assert isinstance(await change(), Unknown), family
        assert await bench.requests(family) == sent + 1


async def test_a_bid_with_an_open_fate_is_sent_again_when_asked_again(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("bid", "http_503")
    assert isinstance(await bench.provider.change_bid(instance_id, bench.request_rate), Unknown)
    assert isinstance(await bench.provider.change_bid(instance_id, bench.request_rate), Done)
    assert await bench.requests("bid") == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http_500", "http_503", "reset", "html", "empty", "bad_json"])
async def test_reads_are_repeated_and_then_given_up(bench: Bench, kind: str) -> None:
    await bench.fault("list", kind, times=2)
    assert await bench.provider.instances() == ()
    assert await bench.requests("list") == 3
    await bench.fault("list", kind, times=3)
    with pytest.raises(MarketUnknown) as raised:
        await bench.provider.instances()
    assert raised.value.code is None
    assert await bench.requests("list") == 6


async def test_a_read_that_came_too_early_is_not_sent_again_at_once(bench: Bench) -> None:
    await bench.fault("list", "http_429")
    with pytest.raises(MarketUnknown) as raised:
        await bench.provider.instances()
    assert raised.value.code is RefusalCode.RATE_LIMITED
    assert await bench.requests("list") == 1
    before = bench.clock.monotonic()
    assert await bench.provider.instances() == ()
    assert bench.clock.monotonic() - before > 10


@pytest.mark.parametrize("kind", ["redirect", "success_false"])
async def test_reads_that_will_not_change_are_not_repeated(bench: Bench, kind: str) -> None:
    await bench.fault("list", kind)
    with pytest.raises(MarketUnknown):
        await bench.provider.instances()
    assert await bench.requests("list") == 1


async def test_a_long_wait_is_not_sat_out(bench: Bench) -> None:
    await bench.fault("user", "http_429", retry_after=3000)
    with pytest.raises(MarketUnknown) as raised:
        await bench.provider.account()
    assert raised.value.code is RefusalCode.RATE_LIMITED
    assert await bench.requests("user") == 1


async def test_a_read_that_hangs_is_given_up_after_one_timeout(bench: Bench) -> None:
    provider = bench.connect(timeout_s=SHORT_S)
    await bench.fault("list", "effect_then_timeout", times=None)
    with pytest.raises(MarketUnknown):
        await provider.instances()
    assert await bench.requests("list") == 1, "a read that hung is not repeated"
    await provider.close()


async def test_only_a_plain_null_means_that_there_is_no_instance(bench: Bench) -> None:
    instance_id = await bench.rent()
    for kind in ("html", "http_503", "success_false", "redirect"):
        await bench.fault("show", kind, times=3)
        with pytest.raises(MarketUnknown):
            await bench.provider.instance(instance_id)
        await bench.control("DELETE", "faults")
    assert await bench.provider.instance("99999999") is None
    with pytest.raises(MarketUnknown):
        await bench.provider.instance("../../users/current")


@pytest.mark.parametrize("key", ["wrong-key", "another.wrong-key"])
async def test_a_wrong_key_is_named_so_everywhere(bench: Bench, key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    offer = await bench.cheapest()
    provider = bench.connect(api_key=key)
    today = bench.clock.now().date()
    for read in (
        provider.instances(),
        provider.instance("1"),
        provider.offers(QUERY),
        provider.account(),
        provider.charges(today, today),
    ):
        with pytest.raises(MarketUnknown) as raised:
            await read
        assert raised.value.code is RefusalCode.NO_RIGHTS
        assert key not in str(raised.value)
    for change in (
        provider.create(bench.request(offer)),
        provider.change_bid("1", bench.request_rate),
        provider.start("1"),
        provider.stop("1"),
        provider.destroy("1"),
    ):
        outcome = await change
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.NO_RIGHTS
        assert key not in outcome.message
    assert key not in caplog.text
    await provider.close()


async def test_an_instance_key_has_no_rights_to_the_account(bench: Bench) -> None:
    instance_id = int(await bench.rent())
    provider = bench.connect(api_key=bench.sandbox.market.instances[instance_id].api_key)
    with pytest.raises(MarketUnknown) as raised:
        await provider.instances()
    assert raised.value.code is RefusalCode.NO_RIGHTS
    await provider.close()


async def test_the_key_is_in_no_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for name in (None, "urllib3", "asyncio"):  # where a daemon's own set-up may have made them quiet
        caplog.set_level(logging.DEBUG, logger=name)
    await bench.fault("list", "http_500")
    await bench.rent()
    await bench.provider.instances()
    assert caplog.records
    assert KEY not in caplog.text


class TestSmallQuota:
    @pytest.fixture
    def sandbox_options(self) -> dict[str, Any]:
        return {"search_quota_rows": 3}

    async def test_the_markets_own_quota_closes_the_search(self, bench: Bench) -> None:
        with pytest.raises(MarketUnknown) as raised:
            await bench.provider.offers(QUERY)
        assert raised.value.code is RefusalCode.RATE_LIMITED
        asked = await bench.requests("search")
        with pytest.raises(MarketUnknown) as raised:
            await bench.provider.offers(QUERY)
        assert raised.value.code is RefusalCode.RATE_LIMITED
        assert await bench.requests("search") == asked


async def test_our_own_row_budget_stretches_and_then_closes_the_search(bench: Bench) -> None:
    provider = bench.connect(search_rows_per_day=100, search_limit=40, offers_max_age_s=0.1)
    for _ in range(20):
        await provider.offers(QUERY)
        await bench.clock.sleep(0.2)
    assert 4 < await bench.requests("search") < 20
    with pytest.raises(MarketUnknown) as raised:
        await provider.offers(replace(QUERY, gpus=(("RTX 3090", 1), ("H100 SXM", 1))))
    assert raised.value.code is RefusalCode.RATE_LIMITED
    await provider.close()
