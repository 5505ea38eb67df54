"""The job that is played, and what the daemon is told of the hosts that it can run on."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.host import HostNeeds
from autopilot.policy.guard import Limits
from autopilot_lab.sandbox.image_traits import NEEDS_CUDA_12_8
from tests.simulation.ground.scenario import HOUR_S, Scenario, Submit, a_spec

JOB = "01JOB000000000000000000000"
IMAGE = NEEDS_CUDA_12_8
WORK = timedelta(hours=8)
TICK_S = 60.0
LIMITS = Limits(Decimal(50), Decimal(500), Decimal(10), 8, 3, 20)
MOST_H = 120.0
"""A job that is not over by then counts as not done."""


def scenario_of(market: str, rules: Collection[str] = ()) -> Scenario:
    """One job, alone on its market. What excludes hosts from the outset belongs in its spec."""
    spec = a_spec(
        WORK,
        image=IMAGE,
        checkpoint_interval=timedelta(minutes=10),
        max_bid=Decimal("0.60"),
        host=HostNeeds(cuda=Decimal("12.8")),  # as the daemon reads it from the image's registry
    )
    wishes = ((60.0, Submit(JOB, spec)),)
    return Scenario(
        wishes,
        LIMITS,
        TICK_S,
        MOST_H * HOUR_S,
        idle_s=float("inf"),
        script={},
        markets=(market,),
        host_rules=frozenset(rules),
    )
