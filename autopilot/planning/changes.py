"""Other limits for a job that lives: what it may cost, and when it is due. They are checked as a submit is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from autopilot.domain.job import Job, JobSpec
from autopilot.domain.money import show
from autopilot.engine.outstanding import Money
from autopilot.planning.plan import OverBudget

ChangeSpec = Callable[[JobSpec, Mapping[str, str], datetime], JobSpec]
"""(spec, key → value, now) → spec with other values; raises ``UserError``."""


def is_tighter(old: JobSpec, new: JobSpec) -> bool:
    """Whether any of the limits leaves less than before: less money, or less time. Only that may be refused."""
    return any(after is not None and (before is None or after < before) for before, after in _limits(old, new))


def is_looser(old: JobSpec, new: JobSpec) -> bool:
    """Whether any of them leaves more. A deadline that is nearer may cost more, too."""
    more = any(before is not None and (after is None or after > before) for before, after in _limits(old, new))
    return more or (old.deadline, old.due_within) != (new.deadline, new.due_within)


def _limits(old: JobSpec, new: JobSpec) -> tuple[tuple[Any, Any], ...]:
    return (
        (old.budget, new.budget),
        (old.max_bid, new.max_bid),
        (old.max_hourly, new.max_hourly),
        (old.max_rate, new.max_rate),
        (old.deadline, new.deadline),
        (old.due_within, new.due_within),
    )


def check_paid(job: Job, money: Money) -> None:
    """Raises ``OverBudget`` for a budget that is already spent or reserved."""
    committed = money.posted + money.accrued + money.held
    if job.spec.budget is not None and job.spec.budget <= committed:
        raise OverBudget(
            f"a budget of {show(job.spec.budget)} is used up: {show(money.posted + money.accrued)} is spent"
            f" and {show(money.held)} is reserved to end the job's machines safely",
            hint=f"choose one above {show(committed)}, or stop the job: autopilot stop {job.spec.name}",
        )
