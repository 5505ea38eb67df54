"""What the markets' answers have shown since the start goes into the ledger, and new things into the log, once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from operator import is_

import structlog

from autopilot.domain.drift import Drift, DriftKey
from autopilot.engine.certification import end_certificate
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)

KEEP_EVERY = timedelta(minutes=5)
"""How often counts of known differences are written; a new one is written at once."""


class DriftLog:
    def __init__(self, providers: Mapping[str, Provider], store: Store, clock: Clock) -> None:
        self._providers = providers
        self._store = store
        self._clock = clock
        self._kept: dict[DriftKey, int] = {}
        """How much of each count since the start is in the ledger."""
        self._kept_at: datetime | None = None
        self._told: tuple[tuple[Drift, ...], ...] = ()
        """What each market told when that was written."""

    async def keep(self) -> None:
        """Write down what is new. Without it there is no transaction."""
        told = tuple(provider.drifts() for provider in self._providers.values())
        if len(told) == len(self._told) and all(map(is_, told, self._told)):
            return  # the very same tuples, as they are told again and again between two counts
        now = self._clock.now()
        seen = [drift for each in told for drift in each]
        is_any_new = any(drift.key not in self._kept for drift in seen)
        if not is_any_new and self._kept_at is not None and timedelta(0) <= now - self._kept_at < KEEP_EVERY:
            return
        more = [
            replace(drift, count=count) for drift in seen if (count := drift.count - self._kept.get(drift.key, 0)) > 0
        ]
        if more:
            async with self._store.transaction() as uow:
                known = {drift.key: drift for drift in await uow.drifts.list()}
                await uow.drifts.save(drift.after(known.get(drift.key)) for drift in more)
                news = [drift for drift in more if drift.key not in known and drift.key not in self._kept]
                for drift in (drift for drift in news if drift.is_money):
                    because = f"{drift.answer}.{drift.field}, which money depends on, has changed ({drift.kind})"
                    await end_certificate(uow, drift.provider, because, now)
            _say(news)
        self._kept = {drift.key: drift.count for drift in seen}
        self._told, self._kept_at = told, now


def _say(drifts: Iterable[Drift]) -> None:
    for drift in drifts:
        say = log.warning if drift.is_read else log.info
        say(
            "market.answer_drifted",
            provider=drift.provider,
            answer=drift.answer,
            field=drift.field,
            kind=str(drift.kind),
            is_money=drift.is_money,
            sample=drift.sample,
        )
