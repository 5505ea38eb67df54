"""How long a job may take at most, by what its owner's past estimates were worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from autopilot.domain.job import JobSpec
from autopilot.ports.store import UnitOfWork
from autopilot.pricing.past_estimates import learn_error

PAST_JOBS_READ = 200
"""Past jobs of one owner, for how accurate their estimates were."""


@dataclass(frozen=True, slots=True)
class Learnt:
    at_most: timedelta
    error: float
    """By how much it is more than the estimate, as a share of that."""
    jobs: int
    """From so many past ones."""


async def learn_time(
    uow: UnitOfWork, spec: JobSpec, owner: int, estimate_error: float
) -> tuple[JobSpec, Learnt | None]:
    """``spec`` with the longest time that its owner's past estimates speak for; as it is where it has no deadline, or
    says so itself. ``estimate_error``: what is assumed of those who have none yet, as a share."""
    if spec.work_estimate is None or spec.work_at_most is not None or spec.deadline is None:
        return spec, None
    past = await uow.jobs.list_newest(limit=PAST_JOBS_READ, owner=owner, is_over=True)
    found = learn_error(spec, past, estimate_error)
    if found is None:
        return spec, None
    error, count = found
    at_most = spec.work_estimate * (1.0 + error)
    return replace(spec, work_at_most=at_most), Learnt(at_most, error, count)
