"""Why a machine stopped, as each market shows it: what is bid against it, what counts as a loss, and who starts it."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot.engine.outlook import lives_of
from autopilot.ports.provider import Provider
from autopilot.providers.runpod import plugin
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Cause, Container
from tests.integration.engine.engine_agents import ORDERS, Agent, Agents
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.mithril_world import JOB as MITHRIL_JOB
from tests.integration.engine.mithril_world import MithrilWorld
from tests.integration.engine.nebius_world import JOB as NEBIUS_JOB
from tests.integration.engine.nebius_world import NebiusWorld

D = Decimal
LONG = JOB.replace('estimate = "10m"', 'estimate = "5h"')
PERMIT_S = 900


class PodAgents(Agents):
    """One for each pod that runs."""

    def __init__(self, agents: Agents, market: PodMarket) -> None:
        super().__init__(agents._store, agents._market)
        self._pods = market
        self._by_pod: dict[str, Agent] = {}

    async def act(self, now: datetime) -> None:
        for pod in self._pods.live():
            encoded = re.search(r"echo (\S+) ", pod.order.args)
            told = ORDERS.search(base64.b64decode(encoded[1]).decode()) if encoded else None
            if pod.container is Container.RUNNING and told is not None:
                home = told["job_id"]
                agent = self._by_pod.setdefault(pod.id, Agent(self._store, home, told["lease_id"], home_id=home))
                await agent.act(pod.boots, self, now)


class RunpodWorld(World):
    async def start(self) -> None:
        if not isinstance(self.agents, PodAgents):  # they outlive the daemon
            self.agents = PodAgents(self.agents, self.sandbox.runpod)
        await super().start()

    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": "runpod-sandbox-key", "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)


@pytest.fixture
async def runpod(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, kind=RunpodWorld) as made:
        await made.tick()
        yield made


@pytest.fixture
async def mithril(tmp_path: Path) -> AsyncIterator[MithrilWorld]:
    async with a_world(tmp_path, kind=MithrilWorld) as made:
        assert isinstance(made, MithrilWorld)
        yield made


@pytest.fixture
async def nebius(tmp_path: Path) -> AsyncIterator[NebiusWorld]:
    async with a_world(tmp_path, kind=NebiusWorld, nebius_port=0) as made:
        assert isinstance(made, NebiusWorld)
        yield made


async def at_work(world: World, text: str = LONG) -> Lease:
    world.agents.total_steps = 100_000
    await world.running(text)
    return await world.until_checkpoint()


async def until_paused(world: World) -> Lease:
    job = await world.until(lambda job: job.main is not None and job.main.state is LeaseState.PAUSED, "it is stopped")
    assert job.main is not None
    return job.main


async def sleep_past_the_permit(world: World, lease: Lease) -> None:
    """The daemon sleeps, and its machine stops itself. Its last word does not arrive."""
    renewed_at = (await world.lease(lease.id)).permit.renewed_at
    assert renewed_at is not None
    world.clock.advance((renewed_at - world.clock.now()).total_seconds() + PERMIT_S + 90)
    world.sandbox.synchronise()
    world.market.stop(int(lease.instance_id or 0))
    world.clock.advance(600)


def losses(leases: tuple[Lease, ...], world: World) -> float:
    """As the odds count them."""
    return sum(lives.total.losses for lives in lives_of(leases, world.clock.now()).values())


# --- vast.ai, which shows all stops alike, and has notices of outbids


@pytest.mark.slow
async def test_a_machine_that_stopped_itself_at_the_end_of_its_permit_is_started_at_its_bid(world: World) -> None:
    lease = await at_work(world)
    for _ in range(3):
        await sleep_past_the_permit(world, lease)
        paused = await until_paused(world)
        assert paused.observed.pause_cause is Reason.PERMIT
        back = await world.until_running()
        assert (back.id, back.bid) == (lease.id, lease.bid)
        await world.until_checkpoint()
    assert world.sent("bid.changed") == [], "no rival was there"
    assert losses(await world.leases(), world) == 0


async def test_a_stop_without_a_rival_is_answered_by_a_start_and_counts_as_no_loss(world: World) -> None:
    """As from the console: the market shows no difference."""
    lease = await at_work(world)
    await world.emu("POST", "stop", instance_id=int(lease.instance_id or 0))
    paused = await until_paused(world)
    assert paused.observed.pause_cause is Reason.UNKNOWN
    back = await world.until_running()
    assert (back.id, back.bid) == (lease.id, lease.bid)
    assert world.sent("bid.changed") == []
    assert losses(await world.leases(), world) == 0


async def test_a_rival_of_whom_no_notice_tells_is_not_bid_against(world: World) -> None:
    lease = await at_work(world)
    await world.fault("inbox", "http_500", times=None)
    world.rival(lease, "1.05")
    assert (await until_paused(world)).observed.pause_cause is Reason.UNKNOWN
    await world.until(lambda job: job.launches == 2, "another machine")
    assert world.sent("bid.changed") == []
    left = await world.lease(lease.id)
    assert left.reason is Reason.UNKNOWN
    assert not world.engine._lost_bids._lost, "nothing shows that the bid lost"
    assert losses(await world.leases(), world) == 0


async def test_a_floor_that_has_passed_the_bid_proves_an_outbid_without_a_notice(world: World) -> None:
    lease = await at_work(world)
    await world.fault("inbox", "http_500", times=None)
    world.raise_other_floors(lease, "2")
    machine = world.market.machines[int(lease.machine_id)]
    world.market.set_floor(machine.spec.machine_id, (lease.bid * D("1.1")).quantize(D("0.0001")))
    await until_paused(world)
    back = await world.until_running()
    assert back.id == lease.id
    assert lease.bid * D("1.1") < back.bid <= lease.bid * D("1.22")
    assert losses(await world.leases(), world) > 0


async def test_a_notice_of_an_earlier_outbid_says_nothing_of_a_later_stop(world: World) -> None:
    lease = await at_work(world)
    world.raise_other_floors(lease, "2")
    await world.tick(8)
    world.rival(lease, "1.05")
    await until_paused(world)
    raised = await world.until_running()
    await world.tick(4)
    await world.restart()  # what it knew of the notice is gone
    await world.tick()
    await world.emu("POST", "stop", instance_id=int(lease.instance_id or 0))
    assert (await until_paused(world)).observed.pause_cause is Reason.UNKNOWN
    back = await world.until_running()
    assert back.bid == raised.bid


async def test_a_machine_that_an_on_demand_renter_has_was_displaced(world: World) -> None:
    lease = await at_work(world)
    world.market.add_on_demand(int(lease.machine_id), world.instance(lease).gpu_ids)
    await world.until(lambda job: job.launches == 2, "another machine")
    assert (await world.lease(lease.id)).reason is Reason.DISPLACED
    assert world.sent("bid.changed") == [], "no bid outranks one"


# --- RunPod, which says who stopped a pod


@pytest.mark.slow
async def test_a_pod_that_its_user_stopped_is_left_alone_and_the_job_parked_after_a_while(runpod: World) -> None:
    lease = await at_work(runpod)
    await runpod.emu("POST", "runpod/stop", pod_id=lease.instance_id)
    paused = await until_paused(runpod)
    assert paused.observed.pause_cause is Reason.CONSOLE
    await runpod.tick(50)
    job = await runpod.job()
    assert (job.status, job.reason, job.launches) == (JobStatus.PAUSED, Reason.CONSOLE, 1), "not within minutes"
    await runpod.tick(20)
    job = await runpod.job()
    assert (job.status, job.reason, job.launches) == (JobStatus.PARKED, Reason.CONSOLE, 1)
    assert (await runpod.lease(lease.id)).is_over, "its disk bills no more"
    assert losses(await runpod.leases(), runpod) == 0
    await runpod.jobs.resume("train")
    await runpod.until(lambda job: job.launches == 2, "another pod")


async def test_a_pod_that_its_user_starts_again_goes_on(runpod: World) -> None:
    lease = await at_work(runpod)
    await runpod.emu("POST", "runpod/stop", pod_id=lease.instance_id)
    await until_paused(runpod)
    await runpod.tick(10)
    provider = runpod.connect()
    await provider.start(lease.instance_id or "")
    await provider.close()
    back = await runpod.until_running()
    assert back.id == lease.id


async def test_a_pod_whose_host_says_nothing_is_started_at_its_bid(runpod: World) -> None:
    lease = await at_work(runpod)
    pod = runpod.sandbox.runpod.pods[lease.instance_id or ""]
    runpod.sandbox.runpod.stop(pod, Cause.BOOT_FAILED)  # by its host, as the market words it
    assert (await until_paused(runpod)).observed.pause_cause is Reason.UNKNOWN
    back = await runpod.until_running()
    assert (back.id, back.bid) == (lease.id, lease.bid)


async def test_a_pod_whose_permit_had_run_out_was_stopped_by_itself(runpod: World) -> None:
    """The market says "by user" of its own key as well."""
    lease = await at_work(runpod)
    renewed_at = (await runpod.lease(lease.id)).permit.renewed_at
    assert renewed_at is not None
    runpod.clock.advance((renewed_at - runpod.clock.now()).total_seconds() + PERMIT_S + 90)
    runpod.sandbox.synchronise()
    await runpod.emu("POST", "runpod/stop", pod_id=lease.instance_id)
    assert (await until_paused(runpod)).observed.pause_cause is Reason.PERMIT
    back = await runpod.until_running()
    assert (back.id, back.bid) == (lease.id, lease.bid)


# --- Mithril, where a bid is paused by its user alone


@pytest.mark.slow
async def test_a_bid_that_its_user_paused_is_left_alone(mithril: MithrilWorld) -> None:
    lease = await at_work(mithril, MITHRIL_JOB)
    await mithril.emu("POST", "mithril/pause", bid_id=lease.instance_id)
    assert (await until_paused(mithril)).observed.pause_cause is Reason.CONSOLE
    await mithril.tick(50)
    assert (await mithril.job()).status is JobStatus.PAUSED
    await mithril.tick(20)
    job = await mithril.job()
    assert (job.status, job.reason, job.launches) == (JobStatus.PARKED, Reason.CONSOLE, 1)
    assert mithril.open_bids() == []


# --- Nebius, where no field tells a loss from a stop


@pytest.mark.slow
async def test_a_machine_that_is_stopped_below_its_cap_is_started_under_it(nebius: NebiusWorld) -> None:
    lease = await at_work(nebius, NEBIUS_JOB)
    policy = nebius.vm(lease).policy_id
    await nebius.emu("POST", "nebius/stop", vm_id=lease.instance_id)
    assert (await until_paused(nebius)).observed.pause_cause is Reason.UNKNOWN
    back = await nebius.until_running()
    assert (back.id, back.bid, nebius.vm(back).policy_id) == (lease.id, lease.bid, policy)
    assert losses(await nebius.leases(), nebius) == 0


@pytest.mark.slow
async def test_a_machine_whose_cap_is_passed_is_outbid(nebius: NebiusWorld) -> None:
    lease = await at_work(nebius, NEBIUS_JOB)
    nebius.set_price(lease, D("5.20"))
    paused = await until_paused(nebius)
    assert paused.observed.pause_cause is Reason.OUTBID
    assert paused.spans[-1].status is InstanceStatus.STOPPED
    assert paused.spans[-1].cause is Reason.OUTBID
