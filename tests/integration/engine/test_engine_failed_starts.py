"""RunPod's pods that end before they ever ran: whose fault that is, and what is done about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.hosts import HostRecord
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.ports.provider import Provider
from autopilot.providers.runpod import plugin
from tests.integration.engine.engine_world import World, a_world


class RunpodWorld(World):
    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": "runpod-sandbox-key", "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, kind=RunpodWorld) as made:
        await made.tick()
        yield made


@pytest.mark.slow
async def test_an_image_that_cannot_be_pulled_ends_the_job(world: World) -> None:
    for create in ("podRentInterruptable", "v2.create"):
        await world.emu("POST", "runpod/fault", on=create, kind="boot_failed", times=None)
    await world.submit()
    job = await world.until(lambda job: job.launches == 2, "another machine")
    first, second = await world.leases()
    assert (first.reason, first.observed.pause_cause) == (Reason.STUCK_LOADING, Reason.STUCK_LOADING)
    assert [start.fault for start in job.failed_starts] == [""]
    assert first.machine_id != second.machine_id
    for _ in range(100):
        await world.tick(apart_s=900)
    job = await world.job()
    assert (job.status, job.reason) == (JobStatus.FAILED, Reason.NEVER_STARTED), await world.story()
    loading = world.engine.config.params.loading
    assert loading.most_dead_hosts <= job.launches <= loading.most_failed_starts, "hosts come again"
    assert {lease.is_over for lease in await world.leases()} == {True}


async def test_an_outbid_while_it_loads_is_not_held_against_the_image(world: World) -> None:
    await world.submit()
    await world.until(lambda job: job.main is not None and job.main.instance_id is not None, "a machine")
    (lease,) = await world.leases()
    await world.emu("POST", "runpod/rival", pod_id=lease.instance_id, bid=str(lease.bid + Decimal("0.1")))
    await world.tick()
    (lease, *_) = await world.leases()
    assert lease.observed.pause_cause is Reason.OUTBID
    assert not lease.has_run
    assert (await world.job()).failed_starts == ()


async def test_pods_on_hosts_that_are_known_to_fail_are_left_at_once_and_the_ninth_is_waited_for(world: World) -> None:
    hosts = [HostRecord("runpod", each, "", "", world.clock.now(), 1.0, 1.0) for each in world.sandbox.runpod.machines]
    async with world.store.transaction() as uow:
        await uow.hosts.save(hosts)
    await world.submit()
    most = world.engine.config.params.loading.most_left_at_once
    job = await world.until(lambda job: job.launches == most + 1, "the one that is waited for", most=200, apart_s=60)
    *left, last = await world.leases()
    assert {lease.reason for lease in left} == {Reason.FAILED_BEFORE}
    assert all(lease.end_asked_at - lease.intended_at <= timedelta(minutes=2) for lease in left)
    assert (job.fruitless, last.is_wanted) == (0, True)
    for _ in range(4):
        await world.tick(apart_s=60)
    assert (await world.leases())[-1].is_wanted, await world.story()
    async with world.store.snapshot() as uow:
        known = {record.machine_id: record.failed for record in await uow.hosts.list()}
    assert sum(known.get(lease.machine_id, 0) for lease in left) >= most, "how often the pool places machines there"
