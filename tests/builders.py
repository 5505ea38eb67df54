"""Jobs, leases, offers, instances and markets with sensible values, for tests that care about one or two of them.

``play`` feeds events to a job and checks after each that what must always hold does hold.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from autopilot.domain import events as e
from autopilot.domain.actions import Action
from autopilot.domain.agent_state import AgentState
from autopilot.domain.evolve import evolve
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Checkpoint, GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import StopEvidence
from autopilot.engine.actions import action_events
from autopilot.engine.hosts import Hosts
from autopilot.engine.observe import Reading
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, guard
from tests.leases import new_lease

D = Decimal
START = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def at(seconds: float) -> datetime:
    """That many seconds after ``START``."""
    return START + timedelta(seconds=seconds)


def a_spec(**changes: Any) -> JobSpec:
    values: dict[str, Any] = {
        "name": "train",
        "image": "python:3.12",
        "run": "python train.py",
        "gpus": (GpuChoice("RTX 4090"),),
        "work_estimate": timedelta(hours=10),
    }
    return JobSpec(**(values | changes))


def a_job(*leases: Lease, spec: JobSpec | None = None, **changes: Any) -> Job:
    """A job with these leases, in the status that they imply unless ``status`` is given."""
    values: dict[str, Any] = {
        "status": JobStatus.PENDING,
        "reason": Reason.SUBMITTED,
        "submitted_at": START,
        "launches": len(leases),
        "run_epoch": max((lease.orders.run_epoch for lease in leases), default=0),
    }
    job = Job(id="job-1", spec=spec or a_spec(), leases=leases, **(values | changes))
    return job if "status" in changes else evolve(job, e.StatusSet(job.status, job.reason, START))


def an_intent(id: str = "lease-1", **changes: Any) -> Lease:
    values: dict[str, Any] = {
        "job_id": "job-1",
        "slot": Slot.MAIN,
        "state": LeaseState.INTENT,
        "provider": "vastai",
        "label": f"ap1.install1.{id}",
        "capacity_type": CapacityType.SPOT,
        "offer_id": f"offer-of-{id}",
        "machine_id": f"machine-of-{id}",
        "host_id": "host-1",
        "gpu": "RTX 4090",
        "num_gpus": 1,
        "disk_gb": D(20),
        "bid": D("0.300"),
        "storage_rate": D("0.004"),
        "on_demand_price": D("0.600"),
        "reserved": D("0.15"),
        "intended_at": START,
        "not_after": START + timedelta(hours=72),
        "reason": Reason.CHEAPEST,
    }
    return new_lease(id=id, **(values | changes))


def a_lease(id: str = "lease-1", **changes: Any) -> Lease:
    """A lease whose instance runs the user's command since ``START``."""
    values: dict[str, Any] = {
        "state": LeaseState.ACTIVE,
        "status": InstanceStatus.RUNNING,
        "instance_id": f"instance-of-{id}",
        "acquired_at": START,
        "running_since": START,
        "last_seen_at": START,
        "role": Role.RUN,
        "run_epoch": 1,
        "agent_state": "running",
        "agent_boot": 1,
        "agent_seen_at": START,
    }
    lease = an_intent(id, **(values | changes))
    running = lease.observed.status if lease.is_wanted else InstanceStatus.STOPPED
    return lease if lease.spans or lease.is_over else lease.bill_as(running, lease.bid, lease.storage_rate, START)


def a_paused_lease(id: str = "lease-1", **changes: Any) -> Lease:
    values: dict[str, Any] = {
        "state": LeaseState.PAUSED,
        "status": InstanceStatus.STOPPED,
        "running_since": None,
        "paused_at": START,
        "pause_cause": Reason.OUTBID,
        "price_to_win": changes.get("bid", D("0.300")) + D("0.001"),
    }
    return a_lease(id, **(values | changes))


def a_new_home(id: str = "lease-2", **changes: Any) -> Lease:
    """A lease in ``next`` whose agent waits, ready to be promoted."""
    values: dict[str, Any] = {"slot": Slot.NEXT, "role": Role.WAIT, "run_epoch": 0, "agent_state": "waiting"}
    return a_lease(id, **(values | changes))


def an_instance(lease: Lease | None = None, **changes: Any) -> Instance:
    """The instance of ``lease``, running, as the market shows it."""
    lease = lease or a_lease()
    values: dict[str, Any] = {
        "provider": lease.provider,
        "instance_id": lease.instance_id or f"instance-of-{lease.id}",
        "label": lease.label,
        "machine_id": lease.machine_id,
        "host_id": lease.host_id,
        "capacity_type": lease.capacity_type,
        "status": InstanceStatus.RUNNING,
        "intended_running": True,
        "bid": lease.bid,
        "storage_rate": lease.storage_rate,
        "gpu": lease.gpu,
        "num_gpus": lease.num_gpus,
        "ends_at": None,
        "message": "",
    }
    return Instance(**(values | changes))


def seen(
    lease: Lease, status: InstanceStatus, when: datetime, *, out_of_credit: bool = False, **changes: Any
) -> e.Event:
    """The market shows the lease's instance in that status."""
    return e.LeaseObserved(lease.id, an_instance(lease, status=status, **changes), when, StopEvidence(out_of_credit))


def heartbeat(lease: Lease, when: datetime, state: str = "running", **changes: Any) -> e.HeartbeatSeen:
    values: dict[str, Any] = {
        "boot": 1,
        "seq": 1 + int((when - START).total_seconds()),
        "step": None,
        "progress": None,
        "last_checkpoint_number": None,
        "log_count": 0,
        "saved": False,
        "most_bytes": 10**15,
    }
    return e.HeartbeatSeen(lease.id, agent_state=AgentState(state), at=when, **(values | changes))


def a_checkpoint(lease: Lease, number: int = 0, **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "job_id": "job-1",
        "lease_id": lease.id,
        "number": number,
        "run_epoch": lease.orders.run_epoch,
        "step": 100,
        "work_done": HOUR,
        "size_bytes": 1000,
        "part_count": 1,
        "verified_at": START,
    }
    return Checkpoint(**(values | changes))


def an_offer(machine_id: str = "machine-a", **changes: Any) -> Offer:
    values: dict[str, Any] = {
        "provider": "vastai",
        "offer_id": f"offer-on-{machine_id}",
        "host_id": "host-9",
        "gpu": "RTX 4090",
        "num_gpus": 1,
        "vram_gb": D(24),
        "floor": D("0.200"),
        "on_demand_price": D("0.600"),
        "storage_price": D("0.15"),
        "upload_price": D(0),
        "download_price": D(0),
        "download_mbps": D(800),
        "reliability": D("0.99"),
        "verified": True,
        "datacenter": False,
        "disk_gb": D(500),
        "location": "Norway, NO",
        "ends_at": None,
    }
    return Offer(machine_id=machine_id, **(values | changes))


def capabilities(**changes: bool) -> Capabilities:
    values: dict[str, Any] = {
        "spot": True,
        "on_demand": True,
        "can_rebid": True,
        "pauses_when_outbid": True,
        "keeps_disk_when_stopped": True,
        "reports_floor": True,
        "bills_at_bid": True,
    }
    return Capabilities(**(values | changes))


def a_market(
    *offers: Offer,
    known: bool = True,
    credit: Decimal | None = None,
    avoid: frozenset[tuple[str, str]] = frozenset(),
    **able: bool,
) -> Market:
    return Market({"vastai": ProviderView(capabilities(**able), known, credit)}, offers, START, avoid)


def a_reading(*instances: Instance, begun_at: datetime = START, **changes: Any) -> Reading:
    """A complete list. ``instances=None`` among the changes: the market is unknown."""
    return replace(Reading("vastai", begun_at, instances), **changes)


def limits(**changes: Any) -> Limits:
    """No cap at all but those given."""
    values: dict[str, Any] = {
        "day": None,
        "month": None,
        "max_hourly": None,
        "max_instances": 100,
        "launches_per_job_10min": 100,
        "launches_per_hour": 100,
    }
    return Limits(**(values | changes))


def exposure(*leases: Lease, **changes: Any) -> Exposure:
    nothing = LaunchCount()
    values: dict[str, Any] = {"spent_day": D(0), "spent_month": D(0), "launches_job_10min": nothing}
    values["launches_hour"] = nothing
    return Exposure(leases=leases, **(values | changes))


def play(job: Job, *events: e.Event) -> Job:
    """Feed the events in turn; the invariants hold after each."""
    for event in events:
        before, job = job, evolve(job, event)
        check_invariants(before, job)
    return job


def decided(job: Job, market: Market, now: datetime, params: Params | None = None) -> tuple[tuple[Action, ...], Job]:
    """One decision, guarded: the actions that passed, and the job after all of them but an Acquire."""
    params = params or Params()
    decision = decide(job, market, now, params)
    account = exposure(*(lease for lease in job.leases if not lease.is_over))
    allowed, _ = guard(job, decision, market, account, limits(), now, params)
    return allowed, play(job, *action_events(allowed, now))


def lease_of(job: Job, lease_id: str = "lease-1") -> Lease:
    return next(lease for lease in job.leases if lease.id == lease_id)


def check_invariants(before: Job, after: Job) -> None:
    for slot in Slot:
        held = [lease.id for lease in after.leases if lease.slot is slot and lease.is_wanted]
        assert len(held) <= 1, f"two live leases in {slot}: {held}"
    at_work = [lease for lease in after.leases if lease.is_wanted and lease.orders.role is Role.RUN]
    assert len(at_work) <= 1, "two leases may run the user's command"
    assert after.run_epoch >= before.run_epoch, "a run epoch went back"
    assert len({lease.orders.run_epoch for lease in after.leases if lease.orders.run_epoch}) == sum(
        1 for lease in after.leases if lease.orders.run_epoch
    ), "two leases share a run epoch"
    if before.checkpoint is not None:
        assert after.checkpoint is not None
        assert after.checkpoint.order >= before.checkpoint.order, "the checkpoint went back"
    for lease in after.leases:
        _check_lease(lease)


def _check_lease(lease: Lease) -> None:
    if lease.state not in (LeaseState.INTENT, LeaseState.ABANDONED):
        assert lease.instance_id is not None, f"{lease.state} without an instance"
    for span, following in zip(lease.spans, lease.spans[1:], strict=False):
        assert span.ended_at is not None, "a span before the last still runs"
        assert span.ended_at <= following.started_at, "spans overlap: time is billed twice"
    for span in lease.spans:
        assert span.ended_at is None or span.ended_at >= span.started_at, "a span ends before it starts"
    if lease.state in (LeaseState.GONE, LeaseState.DESTROY_SENT):
        assert not lease.spans or lease.spans[-1].ended_at is not None, f"{lease.state} still bills"
    if lease.state in (LeaseState.ACTIVE, LeaseState.PAUSED, LeaseState.DESTROY_REQUESTED):
        assert lease.spans, f"{lease.state} bills nothing"
        assert lease.spans[-1].ended_at is None, f"{lease.state} bills nothing"


def no_hosts() -> Hosts:
    """Where no market boots virtual machines, nothing else is asked for."""
    nothing = cast(Any, None)
    return Hosts({}, nothing, nothing, nothing, Params())
