"""The bid that won, as the market's inbox tells it. What the inbox does not say, or says badly, is not known."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from tests.integration.vastai.vastai_bench import Bench, eventually


async def outbid(bench: Bench) -> str:
    instance_id = await bench.rent()
    (rented,) = await bench.provider.instances()
    assert await bench.requests("inbox") == 0, "no machine is out"
    await bench.control("POST", "rival", instance_id=int(instance_id), bid=rented.bid + Decimal("0.05"))
    return instance_id


async def stopped(bench: Bench) -> Instance:
    async def look() -> Instance | None:
        (listed,) = await bench.provider.instances()
        return listed if listed.status is InstanceStatus.STOPPED else None

    return await eventually(look)


async def test_an_outbid_machine_says_what_would_bring_it_back(bench: Bench) -> None:
    await outbid(bench)
    listed = await stopped(bench)
    assert listed.price_to_win is not None
    assert Decimal("0.05") < listed.price_to_win - listed.bid <= Decimal("0.052")
    assert listed.stopped_by is Stopper.BIDDER
    assert listed.stop_said_at is not None, "a later stop is not told by it"


async def test_a_machine_that_its_user_stops_says_nothing(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.provider.instances()
    await bench.control("POST", "stop", instance_id=int(instance_id))
    listed = await stopped(bench)
    assert (listed.stopped_by, listed.price_to_win) == (None, None)


@pytest.mark.parametrize("kind", ["http_500", "empty", "html", "http_429"])
async def test_without_the_inbox_the_list_counts(bench: Bench, kind: str) -> None:
    await bench.control("POST", "fault", on="inbox", kind=kind, times=50)
    await outbid(bench)
    assert (await stopped(bench)).price_to_win is None
    assert await bench.requests("inbox") > 0


async def test_an_old_notice_is_no_news(bench: Bench) -> None:
    await outbid(bench)
    await stopped(bench)
    await bench.clock.sleep(3700)
    (listed,) = await bench.connect().instances()
    assert listed.price_to_win is None
