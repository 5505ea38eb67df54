"""The product's own policy in one run of a suite: the market becomes offers, the run a job, decisions become answers.

Nothing is decided here. ``decide`` and ``guard`` are those that run live, and every change of the job goes through
``evolve``; what suites leave out (machines that load, mail, bills that come late) is mapped to "at once".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from math import inf, isinf

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, Action, ChangeBid
from autopilot.domain.agent_state import AgentState
from autopilot.domain.evolve import evolve
from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.job import Checkpoint, GpuChoice, Job, JobSpec, JobStatus, pace_key
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.market import Market
from autopilot.domain.money import NANO, ZERO
from autopilot.domain.offer import Offer
from autopilot.domain.params import TUNABLE, Auction, Budget, Deadline, Hazard, Loading, Params, Timing, TrafficSizes
from autopilot.domain.readings import Readings, Recognised
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import intended_lease
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, guard
from autopilot_lab.backtest.suite import Job as RunJob
from autopilot_lab.backtest.suite import Params as Given

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""Tick 0 of every run."""
MARKET = "suite"
GPU = "any"
GB_MONTH = Decimal(720)
"""A disk of this many GB at $1/GB-month costs $1/h: storage is priced in $/h on suites."""
NO_LIMITS = Limits(None, None, None, 10, 10**9, 10**9)
HOUR = timedelta(hours=1)
NEVER_S = 1e8
NEVER = datetime.max.replace(tzinfo=UTC)
VANISH_RISK = 1e-6
"""So unlikely may it be that every on-demand offer of the last ticks vanishes."""


def price_of(dollars: float) -> Decimal:
    return Decimal(dollars).quantize(NANO)


def physics(job: RunJob, tick_s: float, restart_s: float) -> Params:
    """A suite's physics as the policy's numbers."""
    return Params(
        timing=Timing(tick_lag_s=tick_s, setup_s=restart_s, boot_s=restart_s),
        traffic=TrafficSizes(image_gb=ZERO, upload_gb=ZERO),
        deadline=Deadline(estimate_error=job.estimate_error, on_demand_margin_s=vanishing_ticks(job.vanish) * tick_s),
        budget=Budget(
            detect_s=(job.lag_ticks + 1) * tick_s if job.lag_ticks else 0.0,
            save_timeout_s=0.0,
            destroy_s=tick_s,
            settle_s=0.0,
            tail_h=0.0,
        ),
        hazard=Hazard(preemptions_per_h=0.0),
        auction=Auction(rebid_gap_s=0.0),
        loading=Loading(
            timeout_s=NEVER_S,
            silence_s=NEVER_S,
            most_dead_hosts=10**9,
            most_failed_starts=10**9,
            lost_share=inf,
        ),
    )


def with_given(params: Params, given: Given) -> Params:
    """The same with the policy's numbers that were set by hand."""
    return params.tune({name: value for name, value in given.items() if name in TUNABLE})


def vanishing_ticks(vanish: float) -> int:
    """The ticks in which all on-demand offers may vanish, one after the other."""
    ticks, risk = 0, 1.0
    while vanish and risk > VANISH_RISK:
        ticks, risk = ticks + 1, risk * vanish
    return ticks


class Session:
    """The job as the policy knows it, and what it rents."""

    def __init__(
        self, job: RunJob, params: Params, begun_at: datetime = ORIGIN, gpus: Sequence[str] = (), **limits: object
    ) -> None:
        """``gpus``: the models that the market has, that of the estimate first; none: one that has no name."""
        self.params = params
        estimate = None if isinf(job.work_s) else timedelta(seconds=job.work_s)
        models = tuple(dict.fromkeys(gpus)) or (GPU,)
        spec = JobSpec(
            name="run",
            image="",
            run="",
            gpus=tuple(map(GpuChoice, models)),
            work_estimate=estimate,
            work_on=models[0] if gpus and estimate else None,
            deadline=None if isinf(job.deadline_s) else ORIGIN + timedelta(seconds=job.deadline_s),
            budget=None if job.budget is None else price_of(job.budget),
            **{"disk_gb": ZERO, "checkpoint_interval": timedelta(0), **limits},  # type: ignore[arg-type]
        )
        self.job = Job("run", spec, JobStatus.PENDING, Reason.SUBMITTED, begun_at)
        self.before: Lease | None = None
        """What was held before the last move: it goes on when that move is refused."""
        self._ids = _Ids()

    def take_over(self, other: Session) -> None:
        """Take the machine on which the job of ``other`` has ended, in its present state."""
        left = other.job
        self.job = replace(self.job, leases=left.leases, status=left.status, reason=left.reason, launches=left.launches)

    def set_progress(
        self,
        done_s: float,
        spent: float,
        checkpoint: Checkpoint | None = None,
        reported: float | None = None,
        recognised: Recognised | None = None,
    ) -> None:
        """``reported``: the share of the work that the job says is done. ``recognised``: what its output tells."""
        done = timedelta(seconds=done_s)
        self.job = replace(self.job, work_done=done, spent=price_of(spent), checkpoint=checkpoint)
        if reported:
            pace = Decimal(reported) / Decimal(done / HOUR)
            key = pace_key(self.job.spec.gpus[0].name, 1)
            self.job = replace(self.job, progress=Decimal(reported), paces=((key, pace),))
        if recognised is not None and self.job.main is not None:
            agent = replace(self.job.main.agent, readings=Readings(recognised=recognised))
            self.job = replace(self.job, leases=(replace(self.job.main, agent=agent),))

    def decide(self, market: Market, now: datetime) -> tuple[Action, ...]:
        """The actions that the guard lets pass."""
        decision = decide(self.job, market, now, self.params)
        exposure = Exposure(self.job.leases, ZERO, ZERO)
        return guard(self.job, decision, market, exposure, NO_LIMITS, now, self.params)[0]

    def rent(self, action: Acquire, now: datetime) -> None:
        """The new machine is there, and the old one gone, at once."""
        self.before = self.job.main
        lease = intended_lease(self.job, replace(action, slot=Slot.MAIN), "", MARKET, self._ids, now, self.params)
        # A suite's machines have no fuse: how long one may live is the daemon's rule, not the market's.
        lease = replace(lease, not_after=NEVER)
        job = evolve(replace(self.job, leases=()), e.LeaseIntended(lease, now))
        self.job = evolve(job, e.LeaseAcquired(lease.id, lease.id, now))

    def rebid(self, action: ChangeBid, now: datetime) -> None:
        """The market has the new bid at once."""
        job = evolve(self.job, e.BidIntended(action.lease_id, action.bid, now))
        self.job = evolve(job, e.BidChanged(action.lease_id, action.bid, now))

    def lose(self, now: datetime) -> None:
        """The machine is gone; nothing is held."""
        if self.job.main is not None:
            self.job = replace(evolve(self.job, e.LeaseGone(self.job.main.id, now)), leases=())

    def see(
        self,
        lease: Lease,
        status: InstanceStatus,
        billed: Decimal,
        agent_state: AgentState,
        now: datetime,
        since: datetime | None = None,
        price_to_win: Decimal | None = None,
    ) -> None:
        """What its market and its agent tell of the machine in this tick; what is new is so ``since`` then."""
        as_before = lease.observed.status is status and lease.observed.price_to_win == price_to_win
        if as_before and lease.bid == billed and lease.agent.state is agent_state:
            # As reported before: only the time of it is new.
            self.job = replace(
                self.job,
                leases=(
                    replace(
                        lease, observed=replace(lease.observed, seen_at=now), agent=replace(lease.agent, seen_at=now)
                    ),
                ),
            )
            return
        at = since or now
        boots = lease.agent.boot + (status is InstanceStatus.RUNNING and lease.observed.status is not status)
        instance = _instance(lease, status, billed, price_to_win)
        job = evolve(replace(self.job, leases=(lease,)), e.LeaseObserved(lease.id, instance, at))
        if agent_state:
            beat = e.HeartbeatSeen(lease.id, boots, lease.agent.seq + 1, agent_state, None, None, None, 0, False, now)
            job = evolve(job, beat)
        self.job = job


class _Ids:
    """Lease ids of one run: 1, 2, 3, …"""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> str:
        return str(next(self._numbers))


def _instance(lease: Lease, status: InstanceStatus, billed: Decimal, price_to_win: Decimal | None) -> Instance:
    return Instance(
        provider=lease.provider,
        instance_id=lease.id,
        label=lease.label,
        machine_id=lease.machine_id,
        host_id=lease.host_id,
        capacity_type=lease.capacity_type,
        status=status,
        intended_running=True,
        bid=billed,
        storage_rate=lease.storage_rate,
        gpu=lease.gpu,
        num_gpus=1,
        ends_at=None,
        message="",
        price_to_win=price_to_win,
        # On such markets nothing else stops one.
        stopped_by=Stopper.BIDDER if status is InstanceStatus.STOPPED else None,
    )


def offer(
    machine: str,
    floor: Decimal | None,
    on_demand_price: Decimal | None,
    storage_rate: Decimal = ZERO,
    gpu: str = GPU,
) -> Offer:
    return Offer(
        provider=MARKET,
        offer_id=machine,
        machine_id=machine,
        host_id=machine,
        gpu=gpu,
        num_gpus=1,
        vram_gb=ZERO,
        floor=floor,
        on_demand_price=on_demand_price,
        storage_price=storage_rate,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=Decimal(1),
        verified=True,
        datacenter=True,
        disk_gb=GB_MONTH,
        location="",
        ends_at=None,
    )
