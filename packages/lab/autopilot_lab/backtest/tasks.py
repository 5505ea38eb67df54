"""Jobs as backtests on made-up and recorded markets play them: what a job file says, less what a suite cannot have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice, JobSpec, Trust
from autopilot_lab.backtest.suite import HOUR_S, ticks_until, whole_ticks

TICK_S = 300.0
TICKS_PER_H = 12
MIGRATE_S = 600.0
RESUME_S = 120.0
STRETCHES = (1.1, 1.25, 1.5, 2.0, 3.0)
"""Deadlines as multiples of the work, where no job says its own."""


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    work_s: float
    deadlines_s: tuple[float, ...]
    """Each is played; on demand alone the work can be done by it."""
    checkpoint_s: float
    """Whole minutes: the optimum counts in them."""
    gpus: tuple[GpuChoice, ...] = ()
    """The first that was recorded is played; none: the one that was recorded last."""
    disk_gb: Decimal = Decimal(20)
    verified_only: bool = False
    budget: Decimal | None = None


DAY = Task("24 h", 24 * HOUR_S, tuple(round(stretch * 24 * HOUR_S, 3) for stretch in STRETCHES), checkpoint_s=600.0)
"""What is played where no job file is given."""


def task_of(spec: JobSpec, now: datetime) -> Task:
    """``now``: from when on the deadline counts. Raises UserError for a job that cannot be played."""
    if spec.work_estimate is None:
        raise UserError(
            f"{spec.name}: a backtest needs an estimate of the work", hint='add estimate = "12h" to [work] of its file'
        )
    work_s = round(spec.work_estimate.total_seconds(), 3)
    if spec.deadline is None:
        asked = tuple(round(stretch * work_s, 3) for stretch in STRETCHES)
    else:
        asked = (round((spec.deadline - now).total_seconds(), 3),)
    deadlines_s = tuple(each for each in asked if whole_ticks(work_s + MIGRATE_S, TICK_S) <= ticks_until(each, TICK_S))
    if not deadlines_s:
        raise UserError(
            f"{spec.name}: not even on demand can it be done by its deadline",
            hint=f"a machine takes {MIGRATE_S / 60:g} min to start, and time goes in steps of {TICK_S / 60:g} min",
        )
    interval_s = spec.checkpoint_interval.total_seconds()
    return Task(
        spec.name,
        work_s,
        deadlines_s,
        # Without checkpoints a pause throws all of the work back.
        checkpoint_s=_whole_minutes_s(work_s if spec.checkpoint_path is None else interval_s),
        gpus=spec.gpus,
        disk_gb=spec.disk_gb,
        verified_only=spec.trust is not Trust.ANY,
        budget=spec.budget,
    )


def _whole_minutes_s(duration_s: float) -> float:
    return 60.0 * max(whole_ticks(duration_s, 60.0), 1)
