"""The markets' logs of machines that have not come up: read soon after they were rented, then each minute."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from autopilot.domain.instance import Instance
from autopilot.domain.lease import Lease, LeaseState
from autopilot.ports.provider import MarketUnknown, Provider

log = structlog.get_logger(__name__)

FIRST_LOOK = timedelta(seconds=30)
"""After the rental. An agent that starts well is heard about then."""
PAUSE = timedelta(minutes=1)
"""Between later looks: a machine that says why it fails bills until that is read."""
MOST_AT_ONCE = 8
"""So many logs are read in one tick: the lists come first."""
WAIT_REAL_S = 20.0


class StartLogs:
    """Keeps what was read last, and when the next look is due."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._due: dict[str, datetime] = {}

    async def read(
        self, provider: Provider, leases: Sequence[Lease], instances: Sequence[Instance], now: datetime
    ) -> Mapping[str, str]:
        """By lease. A log that cannot be read leaves what was read before."""
        shown = {each.instance_id: each for each in instances}
        silent = [
            (lease, instance)
            for lease in leases
            if lease.provider == provider.name and _is_silent(lease)
            if (instance := shown.get(lease.instance_id or "")) is not None and lease.is_of(instance)
        ]
        self._forget({lease.id for lease, _ in silent})
        due = [lease for lease, instance in silent if self._is_due(lease, instance, now)]
        await asyncio.gather(*(self._look(provider, lease, now) for lease in due[:MOST_AT_ONCE]))
        return dict(self._words)

    def _is_due(self, lease: Lease, instance: Instance, now: datetime) -> bool:
        since = lease.acquired_at or lease.intended_at
        has_just_failed = instance.start_failed and lease.state is LeaseState.ACTIVE
        return has_just_failed or now >= self._due.get(lease.id, since + FIRST_LOOK)

    async def _look(self, provider: Provider, lease: Lease, now: datetime) -> None:
        assert lease.instance_id is not None, "its market shows it"
        self._due[lease.id] = now + (PAUSE if lease.id in self._due else FIRST_LOOK)
        try:
            async with asyncio.timeout(WAIT_REAL_S):
                words = await provider.start_words(lease.instance_id)
        except (MarketUnknown, TimeoutError) as problem:
            log.info("start_log.unknown", lease=lease.id, reason=str(problem) or "no answer in time")
            return
        if words:
            self._words[lease.id] = words

    def _forget(self, silent: set[str]) -> None:
        for kept in (self._words, self._due):
            for lease_id in kept.keys() - silent:
                del kept[lease_id]


def _is_silent(lease: Lease) -> bool:
    return lease.agent.boot == 0 and lease.is_wanted and lease.instance_id is not None
