"""How often a request is sent. Standard library only."""

from __future__ import annotations

from autopilot.client.errors import AnswerLost, NotRunning, Unreachable

AGAIN_AFTER_S = (1.0, 3.0, 6.0)
"""Where the answer was lost of a request that may be sent again."""


def make_key_header() -> dict[str, str]:
    """What may spend money carries a key: the daemon acts once for each, however often it comes."""
    from autopilot.clock import SystemClock  # asyncio comes with it: 30 ms for a command that only reads
    from autopilot.ids import UlidIds

    return {"Idempotency-Key": UlidIds(SystemClock()).new()}


class Tries:
    """The tries of one request. At a terminal a missing daemon is reported at once; a program waits for a restart."""

    def __init__(self, *, may_repeat: bool, waits_for_start: bool) -> None:
        self._pauses = iter(AGAIN_AFTER_S if may_repeat else ())
        self._waits_for_start = waits_for_start
        self._first: Unreachable | None = None

    def pause_after(self, problem: Unreachable) -> float:
        """Seconds to the next try. Raises what went wrong first once there is none."""
        if not self._is_passing(problem):
            raise problem
        self._first = self._first or problem
        pause_s = next(self._pauses, None)
        if pause_s is None:
            raise self._first
        return pause_s

    def _is_passing(self, problem: Unreachable) -> bool:
        """A daemon that was there a moment ago, and lost an answer, is being restarted."""
        was_there = self._first is not None and isinstance(problem, NotRunning)
        return self._waits_for_start or was_there or isinstance(problem, AnswerLost)
