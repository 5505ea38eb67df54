"""What comes back from a market over HTTP, and reads that are asked again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown

A = TypeVar("A")
B = TypeVar("B")

READ_TRIES = 3
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 15.0
"""A market that asks for a longer pause than this is not read again."""
LONGEST_HOLD_S = 60.0
"""However long the market says to stay away, a destroy has to be tried again."""
MESSAGE_LENGTH = 200


class NoReply(Exception):
    """The request may or may not have reached the market. The message carries no URL parameters and no key."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Reply:
    """``retry_after`` and ``date``: those headers, as sent."""

    status: int
    text: str
    retry_after: str | None = None
    date: str | None = None


async def read_repeatedly(
    ask: Callable[[], Awaitable[A]],
    judge: Callable[[A], B],
    pause_s: Callable[[A, MarketUnknown], float | None],
    clock: Clock,
    tries: int = READ_TRIES,
) -> B:
    """What ``judge`` makes of the first answer that it accepts. A read that timed out is not asked again.

    ``ask`` raises ``NoReply``, and ``judge`` ``MarketUnknown``. ``pause_s``: the shortest pause in market seconds
    before the next try, None if another try is of no use. Raises ``MarketUnknown``.
    """
    backoff_s = FIRST_BACKOFF_S
    for tries_left in reversed(range(tries)):
        try:
            answer = await ask()
        except NoReply as error:
            if not tries_left or error.timed_out:
                raise MarketUnknown(str(error)) from error
        else:
            try:
                return judge(answer)
            except MarketUnknown as error:
                least_s = pause_s(answer, error)
                if not tries_left or least_s is None:
                    raise
                backoff_s = max(backoff_s, least_s)
        await clock.sleep(backoff_s)
        backoff_s *= 2
    raise AssertionError("the last try returns or raises")
