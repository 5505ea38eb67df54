"""Whose account a market's answers are of: a key may be replaced by one of another account, also between two daemons.

Its lists show nothing of what was made with the key before. That would be taken for proof that nothing was made, or
that a machine is gone while it bills, and both would be made again. So the account is kept in the ledger, as a digest,
as long as a lease of it is not over. A market that tells no id of the account is known by its key. A list with one of
our machines proves that the account is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from autopilot.domain.lease import Lease
from autopilot.engine.observe import Reading
from autopilot.ports.store import UnitOfWork

log = structlog.get_logger(__name__)

NOTE = "accounts"
IS_ANOTHER = "its key is another account's than that of the machines in the ledger; the log says what to do"


class Accounts:
    """One per engine."""

    def __init__(self) -> None:
        self._others: frozenset[str] = frozenset()  # markets

    def is_other(self, provider: str) -> bool:
        """Whether the last reading was of another account than the one on record: nothing is rented there."""
        return provider in self._others

    async def compare(
        self, uow: UnitOfWork, readings: Mapping[str, Reading], leases: Iterable[Lease]
    ) -> dict[str, Reading]:
        """The readings, with those marked that are of another account than the one on record.

        ``leases``: those that are not over, of jobs and of none.
        """
        known = await _load(uow)
        open_leases = [lease for lease in leases if not lease.is_over]
        others = set()
        for name, reading in readings.items():
            own = [lease for lease in open_leases if lease.provider == name]
            is_other = known.get(name, reading.account) != reading.account
            if not reading.account:  # unknown: it stays as it was
                is_other = name in self._others
            if is_other and own and not _shows_any(reading, own):
                others.add(name)
                if name not in self._others:
                    _tell(name, own)
        self._others = frozenset(others)
        return {name: replace(each, is_other_account=name in others) for name, each in readings.items()}

    async def keep(self, uow: UnitOfWork, readings: Mapping[str, Reading]) -> None:
        """Take on record of which accounts the readings are, except of those that are marked."""
        known = await _load(uow)
        taken = {name: each.account for name, each in readings.items() if each.account and not each.is_other_account}
        if known | taken != known:
            await uow.notes.set(NOTE, json.dumps(known | taken, sort_keys=True))


async def forget_account(uow: UnitOfWork, provider: str) -> bool:
    """Take whichever account answers next; whether there was one on record. For the user to say, who has looked."""
    known = await _load(uow)
    if provider not in known:
        return False
    del known[provider]
    await uow.notes.set(NOTE, json.dumps(known, sort_keys=True))
    return True


def _shows_any(reading: Reading, leases: Sequence[Lease]) -> bool:
    labels = {lease.label: lease for lease in leases}
    ids = {lease.instance_id: lease for lease in leases}
    for instance in reading.instances or ():
        lease = ids.get(instance.instance_id)
        waiting = labels.get(instance.label)
        if (lease and lease.is_of(instance)) or (waiting and waiting.instance_id is None):
            return True
    return False


def _tell(provider: str, leases: Iterable[Lease]) -> None:
    log.error(
        "market.account_changed",
        provider=provider,
        labels=sorted(lease.label for lease in leases),
        consequence="they are taken for neither gone nor never made, and nothing is rented there",
        remedy="bring the former key back; or destroy them in the former account's console, stop the daemon, and run "
        f"autopilot db take-account --market {provider}",
    )


async def _load(uow: UnitOfWork) -> dict[str, str]:
    """By market: the digest of the account."""
    known: dict[str, str] = json.loads(await uow.notes.get(NOTE) or "{}")
    return known
