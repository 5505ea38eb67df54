"""What several jobs may cost together, as limits are for all: a token's, a schedule's, or the tasks of an array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget


@dataclass(frozen=True, slots=True)
class Purse:
    """Where the jobs of one token or of one schedule, or the tasks of one array, stand together."""

    allowance: Decimal | None
    """Dollars for the present period, or an array's budget; None: without a bound."""
    spent: Decimal
    """In that period: posted, accrued and unobserved, and held back for machines that are gone."""
    job_ids: frozenset[str]
    """Those that are open."""
    has_ended: bool = False
    """The token has: nothing of it begins any more."""
    reason: Reason = Reason.OVER_ALLOWANCE
    """Why nothing goes on once there is no more."""
    max_rate: Decimal | None = None
    """$/h that an array's tasks may burn at once; None: without a bound."""

    def left_for(self, job: Job, leases: Iterable[Lease], params: Params) -> Decimal | None:
        """Dollars beyond all that is spent or committed; None: nothing bounds it. ``leases``: all that are not over."""
        if self.has_ended and not job.launches:
            return ZERO
        if self.allowance is None:
            return None
        committed = sum((budget.commitment(lease, params) for lease in self.of_jobs(leases)), ZERO)
        return self.allowance - self.spent - committed

    def burn(self, leases: Iterable[Lease]) -> Decimal:
        """$/h that their machines may bill at once, at worst."""
        return budget.burn(self.of_jobs(leases))

    def share_of(self, job: Job, leases: Iterable[Lease], params: Params) -> Job:
        """The task with what is left to all as its own limits, on top of what it has spent, committed and burns.

        So every budget check of a task uses its array's budget.
        """
        held = tuple(leases)
        left, max_rate = self.left_for(job, held, params), None
        budget_of_task = None if left is None else budget.sum_committed(job, params) + left
        if self.max_rate is not None:
            max_rate = self.max_rate - self.burn(held) + budget.burn(job.leases)
        return replace(job, spec=replace(job.spec, budget=budget_of_task, max_rate=max_rate))

    def of_jobs(self, leases: Iterable[Lease]) -> list[Lease]:
        return [lease for lease in leases if lease.job_id in self.job_ids]
