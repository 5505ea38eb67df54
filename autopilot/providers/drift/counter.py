"""What one market's answers have shown since the start."""

from __future__ import annotations

import structlog

from autopilot.domain.drift import Drift, DriftKey, DriftKind
from autopilot.ports.clock import Clock
from autopilot.providers.drift.comparison import RowDifference, compare
from autopilot.providers.drift.shape import AnswerShape

log = structlog.get_logger(__name__)

MOST_NEW = 200
"""New fields of one market. All other differences are at known fields, of which there are only so many."""


class DriftCounter:
    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._drifts: dict[DriftKey, Drift] = {}
        self._new_fields = 0

    def look(self, shape: AnswerShape, body: object) -> None:
        """Compare an answer, and take note. Never raises: an answer that can be read counts, whatever this makes of it.

        Lists in it are compared as far as ``comparison.MOST_ROWS``.
        """
        try:
            for difference in compare(shape, body):
                self._note(difference)
        except Exception:
            log.exception("drift.comparison_failed", provider=self._provider, answer=shape.answer)

    def drifts(self) -> tuple[Drift, ...]:
        return tuple(self._drifts.values())

    def _note(self, difference: RowDifference) -> None:
        now = self._clock.now()
        made = Drift(
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
        known = self._drifts.get(made.key)
        if known is None and difference.kind is DriftKind.NEW:
            if self._new_fields >= MOST_NEW:
                return
            self._new_fields += 1
        self._drifts[made.key] = made.after(known)
