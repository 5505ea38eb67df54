"""What one market's answers have shown since the start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from autopilot.domain.drift import Drift, DriftKey, DriftKind
from autopilot.ports.clock import Clock
from autopilot.providers.drift.comparison import RowDifference, compare
from autopilot.providers.drift.shape import AnswerShape

log = structlog.get_logger(__name__)

MOST_NEW = 200
"""New fields of one market. All other differences are at known fields, of which there are only so many."""

COUNTED_EVERY = timedelta(minutes=5)


@dataclass(slots=True)
class _Seen:
    first: Drift
    count: int
    last_seen_at: datetime


class DriftCounter:
    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._seen: dict[DriftKey, _Seen] = {}
        self._new_fields = 0
        self._drifts: tuple[Drift, ...] = ()
        self._counted_at: datetime | None = None

    def look(self, shape: AnswerShape, body: object) -> None:
        """Compare an answer, and take note. Never raises: a drifted answer that can be read is still used.

        Lists in it are compared as far as ``comparison.MOST_ROWS``.
        """
        try:
            now = self._clock.now()
            for difference in compare(shape, body):
                self._note(difference, now)
        except Exception:
            log.exception("drift.comparison_failed", provider=self._provider, answer=shape.answer)

    def drifts(self) -> tuple[Drift, ...]:
        """All of them, a new one at once; counts may be five minutes old. The same tuple as long as nothing is new."""
        now = self._clock.now()
        is_young = self._counted_at is not None and timedelta(0) <= now - self._counted_at < COUNTED_EVERY
        if not is_young or len(self._drifts) != len(self._seen):
            self._counted_at = now
            self._drifts = tuple(
                replace(seen.first, count=seen.count, last_seen_at=seen.last_seen_at) for seen in self._seen.values()
            )
        return self._drifts

    def _note(self, difference: RowDifference, now: datetime) -> None:
        """What is known is only counted: a market that has changed may show it in each row of each answer."""
        key = (self._provider, difference.answer, difference.field, difference.kind)
        known = self._seen.get(key)
        if known is not None:
            known.count, known.last_seen_at = known.count + 1, now
            return
        if difference.kind is DriftKind.NEW:
            if self._new_fields >= MOST_NEW:
                return
            self._new_fields += 1
        first = Drift(
            provider=self._provider,
            answer=difference.answer,
            field=difference.field,
            kind=difference.kind,
            is_read=difference.is_read,
            is_money=difference.is_money,
            count=1,
            first_seen_at=now,
            last_seen_at=now,
            sample=difference.sample,
        )
        self._seen[key] = _Seen(first, 1, now)
