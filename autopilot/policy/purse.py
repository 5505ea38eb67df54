"""What several jobs may cost together, as limits are for all: a token's, a schedule's, the tasks of an array, or all
that have a machine on a market without a certificate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from autopilot.domain.certificate import NO_PROOF, UseProof
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget


@dataclass(frozen=True, slots=True)
class _Shared:
    """Money on which several leases draw."""

    allowance: Decimal | None
    """Dollars for the present period, or an array's budget; None: without a bound."""
    spent: Decimal
    """In that period: posted, accrued and unobserved, and held back for machines that are gone."""

    def draws(self, lease: Lease) -> bool:
        """Whether what the lease costs is paid from it."""
        raise NotImplementedError

    def left(self, leases: Iterable[Lease], params: Params) -> Decimal | None:
        """Dollars beyond all that is spent or committed; None: nothing bounds it. ``leases``: all that are not over."""
        if self.allowance is None:
            return None
        committed = sum((budget.commitment(lease, params) for lease in self.drawing(leases)), ZERO)
        return self.allowance - self.spent - committed

    def burn(self, leases: Iterable[Lease]) -> Decimal:
        """$/h that their machines may bill at once, at worst."""
        return budget.burn(self.drawing(leases))

    def drawing(self, leases: Iterable[Lease]) -> list[Lease]:
        return [lease for lease in leases if self.draws(lease)]


@dataclass(frozen=True, slots=True)
class MarketPurse(_Shared):
    """What may be spent on one market for as long as no certificate of it is in force."""

    market: str
    certifications: frozenset[str] = frozenset()
    """Ids of the jobs that certify it: each has a budget of its own."""
    since: datetime | None = None
    """When its last certificate ended: what was rented under that is paid as it was then. None: it never had one."""
    proof: UseProof = NO_PROOF
    """Once it is made, there may be several machines at a time."""

    def draws(self, lease: Lease) -> bool:
        is_proof = lease.job_id in self.certifications
        return lease.provider == self.market and not is_proof and lease.is_rented_since(self.since)

    def is_full(self, leases: Iterable[Lease], besides: str | None = None) -> bool:
        """Whether no further machine may be rented there now: until the market is proved by use beside any other, and
        then beside one that it still shows after it has taken its destroy. ``besides`` as of ``has_machine``.
        """
        held = tuple(leases)
        stuck = (lease for lease in held if lease.outlives_destroy)
        return self.has_machine(stuck if self.proof.is_made else held, besides)

    def has_machine(self, leases: Iterable[Lease], besides: str | None = None) -> bool:
        """Whether one is rented there, or may be; ``besides``: for another job than that one."""
        return any(besides is None or lease.job_id != besides for lease in self.drawing(leases) if not lease.is_over)


@dataclass(frozen=True, slots=True)
class Purse(_Shared):
    """Where the jobs of one token or of one schedule, or the tasks of one array, stand together."""

    job_ids: frozenset[str]
    """Those that are open."""
    has_ended: bool = False
    """The token has: nothing of it begins any more."""
    reason: Reason = Reason.OVER_ALLOWANCE
    """Why nothing goes on once there is no more."""
    max_rate: Decimal | None = None
    """$/h that an array's tasks may burn at once; None: without a bound."""

    def draws(self, lease: Lease) -> bool:
        return lease.job_id in self.job_ids

    def left_for(self, job: Job, leases: Iterable[Lease], params: Params) -> Decimal | None:
        """Dollars beyond all that is spent or committed; None: nothing bounds it. ``leases``: all that are not over."""
        return ZERO if self.has_ended and not job.launches else self.left(leases, params)

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
