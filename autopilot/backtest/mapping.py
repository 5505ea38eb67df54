"""The product's own policy on trace suites: a suite's market becomes offers, its job a job, decisions become answers.

Nothing is decided here. ``decide`` and ``guard`` are those that run live, and every change of the job goes through
``evolve``; what a suite leaves out (machines that load, mail, bills that come late) is mapped to "at once".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import ClassVar

from autopilot.backtest.availability import AvailabilityChooser, AvailabilityView
from autopilot.backtest.choices import Choice
from autopilot.backtest.suite import AvailabilityJob, AvailabilityTerms
from autopilot.backtest.suite import Params as Given
from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, Release, SaveAndStop, SetStatus
from autopilot.domain.evolve import evolve
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.money import NANO, ZERO
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.outlook import Belief, Outlook, PhaseModel, Shape
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import intended_lease
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, guard
from autopilot.policy.params import Params
from autopilot.policy.phases import first_belief, next_belief

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""Tick 0 of every run."""
MARKET = "suite"
GPU = "any"
NO_LIMITS = Limits(None, None, None, 10, 10**9, 10**9)


def _rate(dollars: float) -> Decimal:
    return Decimal(dollars).quantize(NANO)


class _Ids:
    """Lease ids of one run: 1, 2, 3, …"""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> str:
        return str(next(self._numbers))


def start_on_availability(
    terms: AvailabilityTerms, told: AvailabilityJob, given: Given, model: PhaseModel
) -> AvailabilityChooser:
    """The policy on one market that is on or off."""
    return AvailabilitySession(terms, told, params_of(terms, told, given), model).choose


def params_of(terms: AvailabilityTerms, told: AvailabilityJob, given: Given) -> Params:
    """The suite's own physics as the policy's numbers, and those that were given by hand."""
    tick_s = terms.tick_s
    physics = Params(
        tick_lag_s=tick_s,
        setup_s=told.restart_s,
        boot_s=told.restart_s,
        image_gb=ZERO,
        upload_gb=ZERO,
        work_error=told.work_error,
        detect_s=(told.lag_ticks + 1) * tick_s if told.lag_ticks else 0.0,
        save_timeout_s=0.0,
        destroy_s=tick_s,
        settle_s=0.0,
        tail_h=0.0,
        preemptions_per_hour=0.0,
        on_demand_margin_s=_vanishing_ticks(told.vanish) * tick_s,
        move_least_s=0.0,
        loading_timeout_s=NEVER_S,
        silence_s=NEVER_S,
        max_fruitless=10**9,
    )
    return replace(physics, **given)  # type: ignore[arg-type]


NEVER_S = 1e8
VANISH_RISK = 1e-6
"""So unlikely may it be that every on-demand offer of the last ticks vanishes."""


def _vanishing_ticks(vanish: float) -> int:
    ticks, risk = 0, 1.0
    while vanish and risk > VANISH_RISK:
        ticks, risk = ticks + 1, risk * vanish
    return ticks


class AvailabilitySession:
    """One run: what was seen last, and the job as the policy knows it."""

    _able: ClassVar = Capabilities(
        spot=True,
        on_demand=True,
        can_rebid=False,
        pauses_when_outbid=False,
        keeps_disk_when_stopped=False,
        bid_is_per_gpu=False,
        reports_floor=True,
        delivers_sigterm=False,
        pays_bid=False,
    )

    def __init__(self, terms: AvailabilityTerms, told: AvailabilityJob, params: Params, model: PhaseModel) -> None:
        self._tick = timedelta(seconds=terms.tick_s)
        self._tick_s = terms.tick_s
        self._params = params
        self._estimate = timedelta(seconds=told.work_s)
        self._shape = Shape(
            model,
            longest_s=told.deadline_s,
            most_slack_s=max(told.deadline_s - told.work_s, terms.tick_s),
            restart_s=told.restart_s,
            spot_ratio=terms.spot_rate / terms.on_demand_rate,
        )
        self._billed = {
            CapacityType.SPOT: _rate(terms.spot_rate),
            CapacityType.ON_DEMAND: _rate(terms.on_demand_rate),
        }
        on_demand = _offer("on-demand", None, _rate(terms.on_demand_rate))
        self._offers = {True: (_offer("spot", _rate(terms.spot_rate), None), on_demand), False: (on_demand,)}
        self._views = {MARKET: ProviderView(self._able, known=True, credit=None)}
        self._belief: Belief = ()
        self._ids = _Ids()
        self._previous: Job | None = None
        spec = JobSpec(
            name="run",
            image="",
            run="",
            gpus=(GpuChoice(GPU),),
            disk_gb=ZERO,
            work_estimate=self._estimate,
            max_bid=_rate(terms.on_demand_rate),
            deadline=ORIGIN + timedelta(seconds=told.deadline_s),
            budget=None if told.budget is None else _rate(told.budget),
            checkpoint_interval=timedelta(0),
        )
        self._job = Job("run", spec, JobStatus.PENDING, Reason.SUBMITTED, ORIGIN)

    def choose(self, view: AvailabilityView) -> Choice:
        now = ORIGIN + self._tick * view.tick
        phases, is_on = self._shape.phases, view.spot_available
        if self._belief:
            self._belief = next_belief(phases, self._belief, self._tick_s, is_on)
        else:
            self._belief = first_belief(phases, is_on)
        job = self._seen(view, now)
        market = Market(self._views, self._offers[is_on], now, outlook=Outlook(shape=self._shape, belief=self._belief))
        decision = decide(job, market, now, self._params)
        exposure = Exposure(job.leases, ZERO, ZERO, 0, 0)
        allowed, _ = guard(job, decision, market, exposure, NO_LIMITS, now, self._params)
        self._job = job
        choice = view.running
        for action in allowed:
            match action:
                case Acquire():
                    self._rent(action, now)
                    choice = Choice.SPOT if action.capacity_type is CapacityType.SPOT else Choice.ON_DEMAND
                case SaveAndStop() | SetStatus():
                    return Choice.PARK
                case Release():
                    self._job = replace(job, leases=())
                    choice = Choice.NONE
                case _:
                    raise TypeError(f"not on such a market: {action}")
        return choice

    def _seen(self, view: AvailabilityView, now: datetime) -> Job:
        """The job after what the tick shows: a machine lost, refused, starting or at work."""
        job, held = self._job, self._job.main
        if held is not None and view.running is not _choice_of(held):
            # Preempted, or the move to it was refused and what ran before goes on.
            before = self._previous.main if self._previous is not None else None
            went_on = before is not None and view.running is _choice_of(before)
            job = replace(evolve(job, e.LeaseGone(held.id, now)), leases=())
            held = before if went_on else None
        if held is not None:
            state = "pulling" if view.pending_s > 0 else "running"
            if held.agent_state == state:
                # Its market and its agent say what they said before: only the time of it is new.
                job = replace(job, leases=(replace(held, last_seen_at=now, agent_seen_at=now),))
            else:
                job = _at_work(replace(job, leases=(held,)), held, self._billed[held.capacity_type], state, now)
        work_done = self._estimate - timedelta(seconds=view.work_left_s)
        return replace(job, work_done=work_done, spent=_rate(view.spent))

    def _rent(self, action: Acquire, now: datetime) -> None:
        """The new machine is there, and the old one gone, at once."""
        self._previous = job = self._job
        lease = intended_lease(job, replace(action, slot=Slot.MAIN), "", MARKET, self._ids, now, self._params)
        job = evolve(replace(job, leases=()), e.LeaseIntended(lease, now))
        self._job = evolve(job, e.LeaseAcquired(lease.id, lease.id, now))


def _choice_of(lease: Lease) -> Choice:
    return Choice.SPOT if lease.is_spot else Choice.ON_DEMAND


def _at_work(job: Job, lease: Lease, rate: Decimal, agent_state: str, now: datetime) -> Job:
    """What its market and its agent would have told of it in this tick."""
    instance = Instance(
        provider=lease.provider,
        instance_id=lease.id,
        label=lease.label,
        machine_id=lease.machine_id,
        host_id=lease.host_id,
        capacity_type=lease.capacity_type,
        status=InstanceStatus.RUNNING,
        intended_running=True,
        rate=rate,
        storage_rate=lease.storage_rate,
        gpu=lease.gpu,
        num_gpus=1,
        ends_at=None,
        message="",
    )
    job = evolve(job, e.LeaseObserved(lease.id, instance, now))
    beat = e.HeartbeatSeen(lease.id, 1, lease.agent_seq + 1, agent_state, None, None, None, 0, False, now)
    return evolve(job, beat)


def _offer(machine: str, floor: Decimal | None, on_demand_rate: Decimal | None) -> Offer:
    return Offer(
        provider=MARKET,
        offer_id=machine,
        machine_id=machine,
        host_id=machine,
        gpu=GPU,
        num_gpus=1,
        vram_gb=ZERO,
        floor=floor,
        on_demand_rate=on_demand_rate,
        storage_price=ZERO,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=Decimal(1),
        verified=True,
        datacenter=True,
        disk_gb=Decimal(1),
        location="",
        ends_at=None,
    )
