"""The allowance of a token: what its jobs may cost together, as limits of the account are for all jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.policy import budget


@dataclass(frozen=True, slots=True)
class Purse:
    """Where the jobs of one token stand together."""

    allowance: Decimal | None
    """Dollars for the present period; None: without a bound."""
    spent: Decimal
    """In that period: posted, accrued and unobserved, and held back for machines that are gone."""
    job_ids: frozenset[str]
    """Those that are open."""
    has_ended: bool
    """The token has: nothing of it begins any more."""

    def left_for(self, job: Job, leases: Iterable[Lease], params: Params) -> Decimal | None:
        """Dollars beyond all that is spent or committed; None: nothing bounds it. ``leases``: all that are not over."""
        if self.has_ended and not job.launches:
            return ZERO
        if self.allowance is None:
            return None
        committed = sum((budget.commitment(lease, params) for lease in self.of_token(leases)), ZERO)
        return self.allowance - self.spent - committed

    def burn(self, leases: Iterable[Lease]) -> Decimal:
        """$/h that the token's machines may bill at once, at worst."""
        return budget.burn(self.of_token(leases))

    def of_token(self, leases: Iterable[Lease]) -> list[Lease]:
        return [lease for lease in leases if lease.job_id in self.job_ids]
