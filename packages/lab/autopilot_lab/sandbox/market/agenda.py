"""What happens when: a queue of due actions, in order of time and then of scheduling."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime

Action = Callable[[], object]


class Agenda:
    def __init__(self) -> None:
        self._due: list[tuple[datetime, int, Action]] = []
        self._order = itertools.count()

    def at(self, when: datetime, action: Action) -> None:
        heapq.heappush(self._due, (when, next(self._order), action))

    def next_due(self) -> datetime | None:
        return self._due[0][0] if self._due else None

    def pop_due(self, now: datetime) -> tuple[datetime, Action] | None:
        """The earliest action due by ``now``, removed; ``None`` when there is none."""
        if not self._due or self._due[0][0] > now:
            return None
        when, _, action = heapq.heappop(self._due)
        return when, action
