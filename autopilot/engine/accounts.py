"""Whose account a market's answers are of: a key may be replaced by one of another account, also between two daemons.

Its lists show nothing of what was made with the key before. While the outcome of a create is not known that would be
taken for proof that nothing was made, and it would be made again. So the account of the creates is kept in the ledger,
as a digest. A market that tells no id of the account is known by its key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from autopilot.domain.lease import Lease, LeaseState
from autopilot.engine.observe import Reading
from autopilot.ports.store import UnitOfWork

log = structlog.get_logger(__name__)

NOTE = "accounts"


def is_unresolved(lease: Lease) -> bool:
    """Whether nobody knows yet what its create has made."""
    return lease.state is LeaseState.INTENT and lease.instance_id is None


class Accounts:
    """One per engine."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    async def compare(self, uow: UnitOfWork, readings: Mapping[str, Reading]) -> dict[str, Reading]:
        """The readings, with those marked that are of another account than the one on record."""
        known = await _load(uow)
        compared = {}
        for name, reading in readings.items():
            is_other = bool(reading.account) and known.get(name, reading.account) != reading.account
            compared[name] = replace(reading, is_other_account=True) if is_other else reading
        return compared

    async def keep(self, uow: UnitOfWork, readings: Mapping[str, Reading], leases: Iterable[Lease]) -> None:
        """Take on record of which accounts the readings are, except where a create of another one is unresolved."""
        waiting = {lease.provider: lease for lease in leases if is_unresolved(lease)}
        known = await _load(uow)
        after = dict(known)
        for name, reading in readings.items():
            if reading.is_other_account and name in waiting:
                self._tell(waiting[name], reading.account)
            elif reading.account:
                after[name] = reading.account
        if after != known:
            await uow.notes.set(NOTE, json.dumps(after, sort_keys=True))

    def _tell(self, lease: Lease, account: str) -> None:
        """Once for each lease and account."""
        if (lease.id, account) in self._told:
            return
        self._told.add((lease.id, account))
        log.error(
            "market.account_changed",
            provider=lease.provider,
            label=lease.label,
            consequence="a create of the account before is unresolved: nothing is rented for its job",
            remedy=f"bring the former key back; or look for {lease.label} in its console, and cancel the job",
        )


async def _load(uow: UnitOfWork) -> dict[str, str]:
    """By market: the digest of the account."""
    known: dict[str, str] = json.loads(await uow.notes.get(NOTE) or "{}")
    return known
