"""What one market has said that a certification weighs: the newest of it, since the start."""

from __future__ import annotations

from collections import deque

from autopilot.domain.remark import Remark, RemarkKind, scrub
from autopilot.ports.clock import Clock
from autopilot.ports.provider import RefusalCode

MOST = 200
_KINDS = {RefusalCode.RATE_LIMITED: RemarkKind.RATE_LIMITED, RefusalCode.NO_RIGHTS: RemarkKind.NO_RIGHTS}


class RemarkLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[Remark] = deque(maxlen=MOST)

    def add(self, kind: RemarkKind, words: str) -> None:
        self._kept.append(Remark(kind, self._clock.now(), scrub(words)))

    def add_refusal(self, code: RefusalCode | None, words: str) -> None:
        """Codes that a certification does not weigh are dropped."""
        if code in _KINDS:
            self.add(_KINDS[code], words)

    def list(self) -> tuple[Remark, ...]:
        """Oldest first."""
        return tuple(self._kept)
