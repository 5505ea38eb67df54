"""Whether a machine whose task has ended is kept for the next one, or a cheaper one is booted."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from autopilot.domain.lease import Lease
from autopilot.domain.money import accrue
from autopilot.policy.width import MUCH_DEARER, TaskMeasure


def is_worth_keeping(lease: Lease, measure: TaskMeasure) -> bool:
    """Whether the next task costs about as little there as on the cheapest available machine, including its boot.

    If a task's time or cost is unknown, the machine at hand is kept: a boot costs in any case.
    """
    if measure.busy is None or measure.cost is None:
        return True
    work = max(measure.busy - measure.setup, timedelta(0))
    return accrue(lease.burn_upper, work) <= measure.cost * (1 + Decimal(MUCH_DEARER))
