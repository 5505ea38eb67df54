"""A market small enough to count in steps of ten minutes: on-demand at $1/h, spot at $0.20/h, a start takes one step.

Physics that a table leaves out (checkpoints, detection, stops that take money) take no time here, so the guard and the
table see the same world.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from autopilot.domain.actions import Acquire, Decision, Note
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Outlook, PhaseModel, Shape
from autopilot.domain.params import BidRules, Budget, Deadline, Hazard, Moves, Params, Timing, TrafficSizes, Waiting
from autopilot.policy.decide import decide
from autopilot.pricing.availability.beliefs import Weights
from autopilot.pricing.availability.phases import first_belief
from autopilot.pricing.availability.value import CostToGo, cost_to_go
from tests.builders import START, D, a_job, a_lease, a_market, a_spec, an_offer, at

STEP_S = 600.0
STEP = timedelta(seconds=STEP_S)
WORK = 24
"""Steps; 4 hours."""
P = Params(
    timing=Timing(tick_lag_s=STEP_S, setup_s=STEP_S, boot_s=STEP_S),
    traffic=TrafficSizes(image_gb=D(0), upload_gb=D(0)),
    bids=BidRules(markup=D(1)),
    deadline=Deadline(estimate_error=0.0, least_stretch=1.0, on_demand_margin_s=0.0),
    hazard=Hazard(preemptions_per_h=0.0),
    budget=Budget(detect_s=0.0, save_timeout_s=0.0, destroy_s=0.0, settle_s=0.0, tail_h=0.0),
    moves=Moves(least_stay_s=0.0),
    waiting=Waiting(idle_margin=0.0),
)
PHASES = PhaseModel((True, False), ((0.98, 0.02), (0.5, 0.5)), STEP_S)
"""Off, it comes back soon; on, it stays for hours: worth waiting for."""
SHAPE = Shape(PHASES, longest_s=60 * STEP_S, most_slack_s=60 * STEP_S, restart_s=STEP_S, spot_ratio=0.2)
ON_DEMAND = an_offer("dedicated", floor=None, on_demand_price=D(1), storage_price=D(0))
SPOT = an_offer("spare", floor=D("0.2"), on_demand_price=None, storage_price=D(0))


def market(*, is_on: bool, shape: Shape | None = SHAPE) -> Market:
    offers = (SPOT, ON_DEMAND) if is_on else (ON_DEMAND,)
    return replace(a_market(*offers), outlook=Outlook(shape=shape, belief=first_belief(PHASES, is_on)))


def job_due(steps: float, *leases: Lease, work: float = WORK, **changes: Any) -> Job:
    """``work`` steps of work, due in ``steps``; ``changes`` of its file."""
    spec = a_spec(
        work_estimate=work * STEP,
        deadline=START + steps * STEP,
        checkpoint_interval=timedelta(0),
        **({"max_bid": D("0.9")} | changes),
    )
    return a_job(*leases, spec=spec)


def on_spot(**changes: Any) -> Lease:
    """At work on spot for long."""
    since = START - timedelta(hours=5)
    values: dict[str, Any] = {"bid": D("0.2"), "storage_rate": D(0), "on_demand_price": D(1), "running_since": since}
    return a_lease(**(values | {"acquired_at": since, "intended_at": since} | changes))


def loading_on_spot(steps_ago: float) -> Lease:
    """Rented so long ago, and not yet at work."""
    since = at(-steps_ago * STEP_S)
    return on_spot(running_since=since, acquired_at=since, intended_at=since, agent_state="setting_up")


def on_demand(**changes: Any) -> Lease:
    return on_spot(capacity_type=CapacityType.ON_DEMAND, bid=D(1), **changes)


def decision(job: Job, market: Market) -> Decision:
    return decide(job, market, START, P)


def taken(job: Job, market: Market) -> list[CapacityType]:
    """What is rented, if anything; any other kind of action fails the test."""
    actions = decision(job, market).actions
    assert all(isinstance(action, Acquire) for action in actions), actions
    return [action.capacity_type for action in actions if isinstance(action, Acquire)]


def notes_of_ways(decision: Decision) -> dict[str, dict[str, Any]]:
    return {str(dict(note.numbers)["option"]): dict(note.numbers) for note in decision.notes if _is_option(note)}


def _is_option(note: Note) -> bool:
    return note.topic == "option"


def table() -> CostToGo:
    return cost_to_go(SHAPE)


def belief(*, is_on: bool) -> Weights:
    return table().clusters.weights(first_belief(PHASES, is_on), is_on=is_on)


def hours(mode: int, left: float, slack: float, *, is_on: bool) -> float:
    """Of the table; ``left`` and ``slack`` in steps."""
    return table().hours(mode, left * STEP_S, slack * STEP_S, belief(is_on=is_on))
