"""Keeps requests to a market apart, in market time, and leaves a market alone that asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Generic, TypeVar

from autopilot.ports.clock import Clock
from autopilot.providers.reading import LONGEST_BACKOFF_S, LONGEST_HOLD_S

F = TypeVar("F")

FIRST_QUIET_S = 15.0
LONGEST_QUIET_S = 300.0
"""A machine's permit lasts longer: a market that is not asked for so long is not out of sight."""

_is_urgent: ContextVar[bool] = ContextVar("is_urgent", default=False)


@contextmanager
def urgently() -> Iterator[None]:
    """For what ends a bill, with all reads that it takes: ``LONGEST_HOLD_S`` after a refusal it is sent again."""
    was = _is_urgent.get()
    _is_urgent.set(True)
    try:
        yield
    finally:
        _is_urgent.set(was)  # no token: what a killed process leaves open is closed in another context


class _Backoff:
    def __init__(self) -> None:
        self.until = self.refused_at = float("-inf")
        self._interval_s = 0.0

    def refuse(self, now: float, asked_s: float) -> None:
        # Requests that were on their way together are one refusal.
        if now >= self.until or _is_urgent.get():
            self._interval_s = min(max(2 * self._interval_s, FIRST_QUIET_S), LONGEST_QUIET_S)
        self.refused_at = now
        self.until = max(self.until, now + max(self._interval_s, min(asked_s, LONGEST_QUIET_S)))

    def succeed(self) -> None:
        self._interval_s = self._interval_s / 2 if self._interval_s > FIRST_QUIET_S else 0.0

    def left_s(self, now: float) -> float:
        until = min(self.until, self.refused_at + LONGEST_HOLD_S) if _is_urgent.get() else self.until
        return max(until - now, 0.0)


class Quiet(Generic[F]):
    """For how long a market that has said "too many requests" is left alone: each refusal in a row doubles it.

    One family may be refused while others have answers, so each has a count of its own beside that of the account,
    under which all keep still. ``is_shared`` False: the market limits each family by itself.
    """

    def __init__(self, clock: Clock, families: Mapping[F, object], *, is_shared: bool = True) -> None:
        self._clock = clock
        self._families = {family: _Backoff() for family in families}
        self._account = _Backoff() if is_shared else None

    def _of(self, family: F) -> list[_Backoff]:
        return [each for each in (self._families[family], self._account) if each is not None]

    def refuse(self, family: F, asked_s: float | None = None) -> None:
        """``asked_s``: the pause that the market asks for."""
        for each in self._of(family):
            each.refuse(self._clock.monotonic(), asked_s or 0.0)

    def succeed(self, family: F) -> None:
        """The market has answered, whatever it said beside that it is asked too much."""
        for each in self._of(family):
            each.succeed()

    def left_s(self, family: F) -> float:
        """Seconds until it may be asked again; 0: now."""
        return max(each.left_s(self._clock.monotonic()) for each in self._of(family))

    def words(self, family: F) -> str:
        return f"not asked: the market reports too many requests, {self.left_s(family):.0f} s more"


class Lane:
    """One request at a time, with a pause between the end of one and the start of the next.

    Counting from the end, the distance holds at the market's side too, whatever the network does in between.
    ``quiet_s``: for how long the market is to be left alone. Up to ``patience_s`` of it are waited for; whoever would
    wait for longer gets his turn at once and sends nothing.
    """

    def __init__(
        self,
        interval_s: float,
        clock: Clock,
        quiet_s: Callable[[], float] = lambda: 0.0,
        patience_s: float = LONGEST_BACKOFF_S,
    ) -> None:
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._clock = clock
        self._quiet_s = quiet_s
        self._turn = asyncio.Lock()
        self._free_at = clock.monotonic()

    async def __aenter__(self) -> Lane:
        await self._turn.acquire()
        try:
            while (wait_s := self._wait_s()) > 0:
                await self._clock.sleep(wait_s)
        except BaseException:
            self._turn.release()
            raise
        return self

    def _wait_s(self) -> float:
        quiet_s = self._quiet_s()
        if quiet_s > self._patience_s and not _is_urgent.get():
            return 0.0
        return max(self._free_at - self._clock.monotonic(), quiet_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold(self._interval_s)
        self._turn.release()

    def hold(self, seconds: float) -> None:
        """Let nothing through for that long."""
        self._free_at = max(self._free_at, self._clock.monotonic() + seconds)
