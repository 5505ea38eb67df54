"""Where each token's jobs stand together, from the ledger: read in the transaction that decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.token import Token, is_of_token
from autopilot.policy.budget import commitment
from autopilot.policy.purse import Purse
from autopilot.ports.store import UnitOfWork


async def read_purses(
    uow: UnitOfWork,
    jobs: Iterable[Job],
    unposted: Mapping[str, Decimal],
    now: datetime,
    params: Params,
    users: Sequence[Token] = (),
) -> dict[str, Purse]:
    """By job, of those that are a token's, or of a user whom the settings limit (``users``). ``unposted``: by lease the
    dollars beyond what is posted, at worst.

    What is unposted counts in the present month, whenever it fell due; so does what is held back. ``jobs``: all that
    are open.
    """
    by_owner: dict[int, list[Job]] = defaultdict(list)
    limited = {user.owner for user in users}
    for job in jobs:
        if is_of_token(job.owner) or job.owner in limited:
            by_owner[job.owner].append(job)
    if not by_owner:
        return {}
    purses: dict[str, Purse] = {}
    for token in (*users, *await uow.tokens.list_all()):
        of_token = by_owner.pop(token.owner, [])
        if not of_token:
            continue
        sums = await uow.ledger.sum_owner(token.owner, token.counts_from(now))
        leases = [lease for job in of_token for lease in job.leases]
        more = sum((unposted.get(lease.id, ZERO) for lease in leases), ZERO)
        # What is held back for machines that go in this very tick; for earlier ones it is in the sums.
        going = sum((commitment(lease, params) for lease in leases if lease.is_over), ZERO)
        ids = frozenset(job.id for job in of_token)
        purse = Purse(token.allowance, sums.posted + sums.held + more + going, ids, not token.is_in_force(now))
        purses |= dict.fromkeys(ids, purse)
    # A job of a token that the ledger does not have may spend nothing.
    lost = (job.id for of_token in by_owner.values() for job in of_token)
    return purses | {job_id: Purse(ZERO, ZERO, frozenset([job_id]), has_ended=True) for job_id in lost}
