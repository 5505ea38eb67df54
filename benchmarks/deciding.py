"""``decide`` by itself: one running job against 500 offers of an auction with floors on record. No I/O at all."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import fleet
from bench import JOB
from figures import Figure

from autopilot.config.job_file import parse_job
from autopilot.domain import events as e
from autopilot.domain.agent_state import AgentState
from autopilot.domain.evolve import evolve
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Billing, Lease, LeaseState, Slot
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from autopilot.pricing.auction.shadows import expected_bidders
from autopilot.providers.vastai.adapter import VastaiProvider

REPEATS = 50
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def measure() -> list[Figure]:
    job, market, params = _running_job(), _market(), Params()
    samples = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        decide(job, market, NOW, params)
        samples.append((time.perf_counter() - began) * 1000)
    return [Figure(f"`decide` for one running job, {fleet.MACHINES} offers", samples, "ms")]


def _market() -> Market:
    offers = tuple(
        Offer(
            provider="vastai",
            offer_id=str(spec.machine_id),
            machine_id=str(spec.machine_id),
            host_id=str(spec.host_id),
            gpu=spec.gpu_name,
            num_gpus=1,
            vram_gb=Decimal(24),
            floor=spec.floor,
            on_demand_price=spec.on_demand,
            storage_price=spec.storage_cost,
            upload_price=spec.inet_up_cost,
            download_price=spec.inet_down_cost,
            download_mbps=Decimal(1000),
            reliability=Decimal("0.99"),
            verified=True,
            datacenter=False,
            disk_gb=Decimal(500),
            location=spec.geolocation,
            ends_at=None,
        )
        for spec in fleet.machines(1, NOW)
    )
    views = {"vastai": ProviderView(VastaiProvider.capabilities, known=True, credit=Decimal(100))}
    bidders = expected_bidders(float(fleet.machines(1, NOW)[0].floor), pays_bid=True)
    return Market(views, offers, NOW, outlook=Outlook(bidders=bidders))


def _running_job() -> Job:
    """A job that has worked for an hour on a spot machine that is not among the offers."""
    began = NOW - timedelta(hours=1)
    spec = parse_job(JOB.format(number=1, total=1, gpu=fleet.GPUS[0]), source="benchmark", now=began)
    lease = Lease(
        id="lease",
        job_id="job",
        slot=Slot.MAIN,
        state=LeaseState.INTENT,
        provider="vastai",
        label="label",
        capacity_type=CapacityType.SPOT,
        offer_id="1",
        machine_id="1",
        host_id="1",
        gpu="RTX 4090",
        num_gpus=1,
        disk_gb=Decimal(20),
        bid=Decimal("0.25"),
        storage_rate=Decimal("0.004"),
        on_demand_price=Decimal("0.42"),
        intended_at=began,
        not_after=NOW + timedelta(days=2),
        reason=Reason.CHEAPEST,
        billing=Billing(Decimal("0.1")),
    )
    instance = Instance(
        provider="vastai",
        instance_id="1",
        label="label",
        machine_id="1",
        host_id="1",
        capacity_type=CapacityType.SPOT,
        status=InstanceStatus.RUNNING,
        intended_running=True,
        bid=Decimal("0.25"),
        storage_rate=Decimal("0.004"),
        gpu="RTX 4090",
        num_gpus=1,
        ends_at=None,
        message="",
    )
    job = Job("job", spec, JobStatus.PENDING, Reason.SUBMITTED, began)
    for event in (
        e.LeaseIntended(lease, began),
        e.LeaseAcquired("lease", "1", began),
        e.LeaseObserved("lease", instance, began),
        e.HeartbeatSeen(
            "lease",
            boot=1,
            seq=1,
            agent_state=AgentState.RUNNING,
            step=1,
            progress=None,
            last_checkpoint_number=None,
            log_count=0,
            saved=False,
            at=NOW,
        ),
    ):
        job = evolve(job, event)
    assert job.status is JobStatus.RUNNING, "the decision that is measured is the one for a job at work"
    return job
