"""The agent in pods of the sandbox's RunPod, rented by the adapter: processes that the market starts and ends."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.agent.artifact import agent_key, agent_sha256
from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.clock import ScaledClock
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.order_shapes import Work
from autopilot.ports.provider import CreateRequest, Done, Provider
from autopilot.providers.runpod import plugin
from autopilot_lab.sandbox.runpod import provider as runpod_market
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.integration.agent.agent_world import CALM, DAY, JOB, SPEED, Lease, World, processes_beneath, training
from tests.patience import PATIENCE_S, eventually

QUERY = OfferQuery((("RTX 3090", 1),), Decimal(0), Decimal(20), verified_only=True, datacenter_only=False)
BID = Decimal("0.25")
STEPS = 1500


def training_in_a_pod(gate: Path) -> Work:
    work = training(STEPS, 'mkdir -p "$AUTOPILOT_ROOT/opt/made" && echo "set up"', gate)
    return dataclasses.replace(work, run=f'test -d "$AUTOPILOT_ROOT/opt/made" && env | grep -c _API_KEY; {work.run}')


PRECIOUS = Work(
    run="echo precious > state; trap 'echo told >> state; exit 0' TERM; sleep 1000 & wait", checkpoint_path="state"
)


@dataclass
class Market:
    sandbox: Sandbox
    provider: Provider
    http: aiohttp.ClientSession
    world: World

    async def control(self, method: str, name: str, **wish: Any) -> Any:
        async with self.http.request(method, f"{self.sandbox.url}/_emu/runpod/{name}", json=wish) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    def bootstrap(self, lease: Lease, sha256: str, speed: float = SPEED) -> str:
        store = self.world.store
        orders_url = store.sign_get(orders_key(JOB, lease.lease_id), DAY)
        return onstart(store.sign_get(agent_key(), DAY), sha256, orders_url, speed)

    async def rent(self, lease: Lease, script: str = "") -> str:
        """The id of a spot pod that becomes the agent of that lease, or runs that script."""
        await self.provider.instances()
        (offer,) = [each for each in await self.provider.offers(QUERY) if not each.datacenter]
        request = CreateRequest(
            label=f"ap1.test.{lease.lease_id}",
            offer_id=offer.offer_id,
            machine_id=offer.machine_id,
            capacity_type=CapacityType.SPOT,
            bid=BID,
            image="autopilot/demo:1",
            disk_gb=Decimal(20),
            env={},
            onstart=script or self.bootstrap(lease, agent_sha256()),
        )
        outcome = await self.provider.create(request)
        assert isinstance(outcome, Done), outcome
        lease.instance_id = outcome.value.instance_id
        return lease.instance_id

    async def reached(self, pod_id: str, status: InstanceStatus) -> None:
        async def look() -> bool:
            instance = await self.provider.instance(pod_id)
            return instance is not None and instance.status is status

        await eventually(look, f"pod {status}")

    def root(self, pod_id: str) -> Path:
        return self.sandbox.config.state_dir / "pods" / pod_id / "root"

    async def is_empty(self) -> bool:
        """Whether no pod is left."""
        found = (await self.control("GET", "instances"))["instances"]
        return all(pod["terminated_at"] is not None for pod in found)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pod of the market is killed for being slow."""
    monkeypatch.setattr(runpod_market, "_TERM_REAL_S", PATIENCE_S)


@pytest.fixture
async def market(tmp_path: Path, world: World) -> AsyncIterator[Market]:
    clock = ScaledClock(datetime.now(UTC), SPEED)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(running_sandbox(SandboxConfig(tmp_path / "sandbox"), clock))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        provider = plugin.connect({"base_url": sandbox.url, "api_key": "runpod-sandbox-key"}, clock)
        stack.push_async_callback(provider.close)
        yield Market(sandbox, provider, http, world)


@pytest.mark.slow
async def test_evicted_and_resumed_it_goes_on_and_never_runs_a_finished_job_again(
    market: Market, uninterrupted: Callable[[int], str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lease = await market.world.lease("a", training_in_a_pod(gate))
    pod_id = await market.rent(lease)
    before = await lease.until(
        "a checkpoint", lambda beat: beat.last_checkpoint is not None and beat.state == "running"
    )
    await market.control("POST", "rival", pod_id=pod_id, bid="0.28")
    await market.reached(pod_id, InstanceStatus.STOPPED)
    await eventually(lambda: not (market.root(pod_id) / "opt/made").exists(), "the container's disk is gone")

    gate.touch()
    assert isinstance(await market.provider.change_bid(pod_id, Decimal("0.3")), Done)
    after = await lease.until("another boot", lambda beat: beat.boot == before.boot + 1)
    assert after.orders_seq_seen >= before.orders_seq_seen
    exit_record = await eventually(lease.exit, "exit record")
    assert exit_record.exit_code == 0
    await eventually(lambda: f"model sha256 {uninterrupted(STEPS)}" in lease.log(), "the whole log")
    log = lease.log()
    assert log.count("set up\n") == 2
    assert "restored checkpoint" in log
    assert "\n0\n" in log  # the job sees none of the market's keys

    await lease.until("finished", lambda beat: beat.state == "finished")
    starts = log.count("training from step")
    for pid in processes_beneath(market.root(pod_id)):
        os.kill(pid, signal.SIGKILL)  # the container ends, and the market starts it again
    await lease.until("a restarted container", lambda beat: beat.boot == after.boot + 1 and beat.state == "finished")
    assert lease.log().count("training from step") == starts


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
async def test_told_to_go_it_saves_in_time(market: Market) -> None:
    lease = await market.world.lease("a", PRECIOUS, checkpoint_interval_s=10_000)
    pod_id = await market.rent(lease)
    await lease.until("running", lambda beat: beat.state == "running")
    await market.control("POST", "on_demand_arrival", pod_id=pod_id)

    async def saved() -> object:
        return await verified_manifest(market.world.store, AgentUnpacker(), JOB, "a", 0)

    await eventually(saved, "the last checkpoint")
    parts = (market.world.store.root / "jobs" / JOB / "a" / "ckpt/0").glob("part-*")
    assert b"precious\ntold\n" in [part.read_bytes() for part in parts]


async def test_without_a_permit_the_pod_saves_and_destroys_itself(market: Market) -> None:
    lease = await market.world.lease("a", PRECIOUS, checkpoint_interval_s=10_000)
    await market.rent(lease, market.bootstrap(lease, agent_sha256(), CALM))
    await lease.until("running", lambda beat: beat.state == "running")
    await lease.let_go(permit_ttl_s=10)
    await eventually(market.is_empty, "self-destroy")
    assert await verified_manifest(market.world.store, AgentUnpacker(), JOB, "a", 0) is not None


@pytest.mark.slow
async def test_where_rest_refuses_the_pods_key_it_goes_by_graphql(market: Market) -> None:
    await market.control("POST", "fault", on="v2.delete", kind="http_403", times=None)
    lease = await market.world.lease("a", PRECIOUS, role="wait")
    await market.rent(lease)
    await lease.until("waiting", lambda beat: beat.state == "waiting")
    await lease.let_go()
    await eventually(market.is_empty, "self-destroy")


@pytest.mark.slow
@pytest.mark.parametrize("rest_refuses", [False, True])
async def test_a_pod_that_cannot_get_the_agent_destroys_itself(market: Market, rest_refuses: bool) -> None:
    if rest_refuses:
        await market.control("POST", "fault", on="v2.delete", kind="http_403", times=None)
    lease = await market.world.lease("a", PRECIOUS)
    pod_id = await market.rent(lease, script="exec sleep 1000")
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AUTOPILOT_ROOT": str(market.world.tmp_path / "elsewhere"),
        "AUTOPILOT_PROVIDER_URL": market.sandbox.url,
        "AUTOPILOT_STATE": "/workspace/.autopilot",
        "RUNPOD_POD_ID": pod_id,
        "RUNPOD_API_KEY": market.sandbox.runpod.pods[pod_id].api_key,
    }
    bootstrap = await asyncio.create_subprocess_exec("sh", "-c", market.bootstrap(lease, "0" * 64, 900), env=env)
    try:
        await eventually(market.is_empty, "self-destroy")
    finally:
        bootstrap.kill()
        await bootstrap.wait()
    assert (market.world.tmp_path / "elsewhere/workspace/.autopilot").is_dir()
