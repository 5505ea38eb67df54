"""The sandbox answers as the market was recorded, through the whole life of a pod, over both interfaces."""

from __future__ import annotations

from datetime import timedelta

import pytest

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.registry import RegistryLogin
from autopilot.domain.time import utc_day
from autopilot.ports.provider import Done, Refused
from tests.integration.runpod.runpod_bench import QUERY, Bench


@pytest.mark.parametrize("mode", ["normal", "mutation_removed", "graphql_gone"])
async def test_no_answer_differs_from_the_recorded_ones(bench: Bench, mode: str) -> None:
    await bench.mode(mode)
    provider = bench.provider
    pod_id = await bench.rent()
    await bench.in_state(pod_id, InstanceStatus.RUNNING)
    await provider.instances()
    await provider.account()
    await provider.gpu_names()
    await provider.offers(QUERY)
    await provider.stop(pod_id)
    await bench.in_state(pod_id, InstanceStatus.STOPPED)
    await provider.start(pod_id)
    await bench.in_state(pod_id, InstanceStatus.RUNNING)
    assert isinstance(await provider.create(bench.request(await bench.cheapest(), disk_gb=QUERY.disk_gb)), Done)
    assert isinstance(await provider.change_bid(pod_id, QUERY.disk_gb), Refused)
    await bench.clock.sleep(900)
    assert await provider.destroy(pod_id) == Done(None)
    today = utc_day(bench.clock.now())
    assert await provider.charges(today - timedelta(days=1), today)
    assert isinstance(await provider.kept_logins.save("ap1.one", RegistryLogin("ghcr.io", "me", "secret")), Done)
    await provider.kept_logins.list()
    assert provider.drifts() == ()
