"""What several jobs may cost together, as the account's limits are for all: those of a token, or of a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget


@dataclass(frozen=True, slots=True)
class Purse:
    """Where the jobs of one token, or of one schedule, stand together."""

    allowance: Decimal | None
    """Dollars for the present period; None: without a bound."""
    spent: Decimal
    """In that period: posted, accrued and unobserved, and held back for machines that are gone."""
    job_ids: frozenset[str]
    """Those that are open."""
    has_ended: bool = False
    """The token has: nothing of it begins any more."""
    reason: Reason = Reason.OVER_ALLOWANCE
    """Why nothing goes on once there is no more."""

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

    def of_jobs(self, leases: Iterable[Lease]) -> list[Lease]:
        return [lease for lease in leases if lease.job_id in self.job_ids]
