"""The sandbox answers as the market was recorded, through the whole life of a machine."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.time import utc_day
from autopilot.ports.provider import Done, Refused
from tests.integration.vastai.vastai_bench import Bench, eventually


async def test_no_answer_differs_from_the_recorded_ones(bench: Bench) -> None:
    provider = bench.provider
    instance_id = await bench.rent()
    running = await bench.running(instance_id)
    await bench.control("POST", "rival", instance_id=int(instance_id), bid=running.bid + Decimal("0.05"))

    async def outbid() -> Instance | None:
        (listed,) = await provider.instances()
        return listed if listed.status is InstanceStatus.STOPPED and listed.price_to_win else None

    out = await eventually(outbid)
    assert out.price_to_win is not None
    assert await provider.change_bid(instance_id, out.price_to_win) == Done(out.price_to_win)
    await bench.running(instance_id)
    assert await provider.stop(instance_id) == Done(None)
    await provider.start(instance_id)
    await provider.account()
    await provider.gpu_names()
    assert isinstance(await provider.change_bid("1", Decimal("0.2")), Refused)
    assert await provider.destroy(instance_id) == Done(None)
    assert await provider.instance(instance_id) is None
    today = utc_day(bench.clock.now())
    assert await provider.charges(today, today)
    assert provider.drifts() == ()
