"""Leases as jobs of a real Slurm on loopback: what they touch, what ends them, what is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import NO_EVIDENCE, name_cause
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, Provider, RefusalCode, Refused
from autopilot.providers import registry
from tests.builders import a_lease
from tests.contract.harness import QuickClock
from tests.patience import eventually
from tests.slurm_cluster import SlurmCluster, needs_slurm, slurm_cluster

pytestmark = [needs_slurm, pytest.mark.slow]
QUERY = OfferQuery((("RTX 4090", 1),), Decimal(20), Decimal(1), verified_only=False, datacenter_only=False)
ALL = "--gres=gpu:rtx4090:4"
SLEEP = "exec sleep 86400"
LABEL = "ap1.test.01LEASE"
UNTIL_NOTICE = """\
env >"$AUTOPILOT_ROOT/environment"
while [ ! -e "$AUTOPILOT_ROOT/notice" ]; do sleep 0.1; done
cp "$AUTOPILOT_ROOT/notice" "$AUTOPILOT_ROOT/seen"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path) as made:
        yield made


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


def connect(cluster: SlurmCluster, clock: QuickClock, **more: object) -> Provider:
    return registry.connect("slurm", cluster.settings("low", **more), clock)


def request(offer: Offer, onstart: str = SLEEP, label: str = LABEL) -> CreateRequest:
    assert offer.on_demand_price is not None
    return CreateRequest(
        label=label,
        offer_id=offer.offer_id,
        machine_id=offer.machine_id,
        capacity_type=CapacityType.ON_DEMAND,
        bid=offer.on_demand_price,
        image="some/image:1",
        disk_gb=Decimal(1),
        env={"GREETING": "it's $HOME"},
        onstart=onstart,
    )


async def rent(provider: Provider, onstart: str = SLEEP) -> str:
    (offer,) = await provider.offers(QUERY)
    made = await provider.create(request(offer, onstart))
    assert isinstance(made, Done), made
    return made.value.instance_id


async def shown(provider: Provider) -> Instance:
    (instance,) = await provider.instances()
    return instance


async def reach(provider: Provider, status: InstanceStatus) -> Instance:
    async def look() -> Instance | None:
        found = await shown(provider)
        return found if found.status is status else None

    found: Instance = await eventually(look, status, every_s=0.2)
    return found


def lease_of(cluster: SlurmCluster) -> Path:
    return cluster.root / "shared" / "leases" / LABEL


async def test_nothing_but_jobs_with_the_mark_is_seen_or_cancelled(
    cluster: SlurmCluster, clock: QuickClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "x")
    same_name = cluster.submit("firm", f"--job-name={LABEL}")
    odd = cluster.submit("firm", "--job-name=a\nb|c", f"--comment=autopilot {LABEL}\n|E")
    provider = connect(cluster, clock)
    assert await provider.instances() == ()
    instance_id = await rent(provider, UNTIL_NOTICE)
    assert await rent(provider) == instance_id, "the same label is the same job"
    assert len(cluster.jobs()) == 3
    beside = lease_of(cluster).parent / "mine"
    beside.mkdir()
    for job_id in (same_name, odd, "99"):
        outcome = await provider.destroy(job_id)
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.NOT_FOUND
        assert isinstance(await provider.stop(job_id), Refused)
    running = await reach(provider, InstanceStatus.RUNNING)
    assert (running.label, running.bid, running.machine_id) == (LABEL, Decimal(0), "low")
    environment = lease_of(cluster) / "root" / "environment"
    await eventually(environment.exists, "the job's start")
    assert "SECRET_OF_THE_DAEMON" not in environment.read_text()
    assert "GREETING=it's $HOME" in environment.read_text()
    assert await provider.destroy(instance_id) == Done(None)
    await eventually(lambda: len(cluster.jobs()) == 2, "the end of the job", every_s=0.2)
    assert await provider.instances() == ()
    assert [cluster.state(each) for each in (same_name, odd)] == ["RUNNING", "RUNNING"]
    assert [each.name for each in lease_of(cluster).parent.iterdir()] == ["mine"]


async def test_a_preempted_job_is_told_saves_and_waits_for_its_turn(cluster: SlurmCluster, clock: QuickClock) -> None:
    provider = connect(cluster, clock)
    instance_id = await rent(provider, UNTIL_NOTICE)
    await reach(provider, InstanceStatus.RUNNING)
    await eventually((lease_of(cluster) / "root" / "environment").exists, "the job's start")
    other = cluster.submit("high", ALL)
    stopped = await reach(provider, InstanceStatus.STOPPED)
    assert (stopped.instance_id, stopped.stopped_by, stopped.intended_running) == (instance_id, Stopper.BIDDER, True)
    assert stopped.message.startswith("preempted and requeued: ")
    assert name_cause(a_lease(), stopped, NO_EVIDENCE, clock.now()) is Reason.DISPLACED
    told = json.loads((lease_of(cluster) / "root" / "seen").read_text())
    assert (told["kind"], told["soft"], told["grace_s"]) == ("preempt", False, 48.0)
    await eventually(lambda: cluster.state(other) == "RUNNING", "the other job has the GPUs", every_s=0.2)
    cluster.run("scancel", other)
    assert await provider.start(instance_id) == Done(None)
    await reach(provider, InstanceStatus.RUNNING)


async def test_a_job_is_told_before_its_time_limit(cluster: SlurmCluster, clock: QuickClock) -> None:
    provider = connect(cluster, clock, time="00:02:00")
    await rent(provider, UNTIL_NOTICE)
    await reach(provider, InstanceStatus.RUNNING)
    stopped = await reach(provider, InstanceStatus.STOPPED)
    assert (stopped.message, stopped.stopped_by) == ("its time limit is reached", None)
    assert stopped.ends_at is not None
    assert name_cause(a_lease(), stopped, NO_EVIDENCE, stopped.ends_at) is Reason.EXPIRING
    assert json.loads((lease_of(cluster) / "root" / "seen").read_text())["grace_s"] == 96.0


async def test_what_the_user_cancels_or_holds_is_told_apart(cluster: SlurmCluster, clock: QuickClock) -> None:
    provider = connect(cluster, clock)
    instance_id = await rent(provider)
    await reach(provider, InstanceStatus.RUNNING)
    cluster.run("scontrol", "requeuehold", instance_id)
    held = await reach(provider, InstanceStatus.STOPPED)
    assert (held.stopped_by, held.intended_running) == (Stopper.USER, False)
    cluster.run("scancel", instance_id)

    async def is_cancelled() -> bool:
        return "cancelled" in (await shown(provider)).message

    await eventually(is_cancelled, "the cancelled job", every_s=0.2)
    gone = await shown(provider)
    assert (gone.status, gone.stopped_by) == (InstanceStatus.STOPPED, Stopper.USER)
    assert name_cause(a_lease(), gone, NO_EVIDENCE, clock.now()) is Reason.CONSOLE
    assert await provider.destroy(instance_id) == Done(None)
    assert await provider.instances() == ()


async def test_a_node_that_fails_and_a_controller_that_is_away(cluster: SlurmCluster, clock: QuickClock) -> None:
    provider = connect(cluster, clock)
    (offer,) = await provider.offers(QUERY)
    instance_id = await rent(provider)
    await eventually((lease_of(cluster) / "begun").exists, "the job's start")
    node = cluster.run("sinfo", "-h", "-o", "%n").strip()
    cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=tested")
    stopped = await reach(provider, InstanceStatus.STOPPED)
    assert stopped.instance_id == instance_id
    assert "requeued" in stopped.message
    clock.advance(3600)
    assert await provider.offers(QUERY) == (), "no node of the partition is up"
    cluster.stop("slurmctld")
    with pytest.raises(MarketUnknown):
        await provider.instances()
    refused = await provider.create(request(offer, label="ap1.test.01OTHER"))
    assert isinstance(refused, Refused)
    cluster.start("slurmctld")
    cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert (await shown(provider)).instance_id == instance_id


async def test_a_job_that_sbatch_refuses_leaves_nothing(cluster: SlurmCluster, clock: QuickClock) -> None:
    provider = connect(cluster, clock, extra=["--constraint=none-has-this"])
    (offer,) = await provider.offers(QUERY)
    refused = await provider.create(request(offer))
    assert isinstance(refused, Refused), refused
    assert refused.message == "Invalid feature specification"
    assert not list(lease_of(cluster).parent.iterdir())
    gone = await connect(cluster, clock).create(replace(request(offer), offer_id="high/1"))
    assert isinstance(gone, Refused)
    assert gone.code is RefusalCode.OFFER_GONE
