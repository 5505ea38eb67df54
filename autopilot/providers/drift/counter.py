"""What one market's answers have shown since the start."""

from __future__ import annotations

import structlog

from autopilot.domain.drift import Drift, DriftKey, DriftKind
from autopilot.ports.clock import Clock
from autopilot.providers.drift.comparison import Finding, compare
from autopilot.providers.drift.shape import Shape

log = structlog.get_logger(__name__)

MOST_NEW = 200
"""New fields of one market. All other differences are at known fields, of which there are only so many."""


class DriftCounter:
    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._drifts: dict[DriftKey, Drift] = {}
        self._new_fields = 0

    def look(self, shape: Shape, body: object) -> None:
        """Compare an answer, and take note. Never raises: an answer that can be read counts, whatever this makes of it.

        Lists in it are compared as far as ``comparison.MOST_ROWS``.
        """
        try:
            for finding in compare(shape, body):
                self._note(finding)
        except Exception:
            log.exception("drift.comparison_failed", provider=self._provider, answer=shape.answer)

    def drifts(self) -> tuple[Drift, ...]:
        return tuple(self._drifts.values())

    def _note(self, finding: Finding) -> None:
        now = self._clock.now()
        made = Drift(
            provider=self._provider,
            answer=finding.answer,
            field=finding.field,
            kind=finding.kind,
            is_read=finding.is_read,
            is_money=finding.is_money,
            count=1,
            first_seen_at=now,
            last_seen_at=now,
            sample=finding.sample,
        )
        known = self._drifts.get(made.key)
        if known is None and finding.kind is DriftKind.NEW:
            if self._new_fields >= MOST_NEW:
                return
            self._new_fields += 1
        self._drifts[made.key] = made.after(known)
