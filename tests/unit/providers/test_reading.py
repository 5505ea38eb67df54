"""Reads of a market: what is asked again, and after what pause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autopilot.ports.provider import MarketUnknown
from autopilot.providers.reading import NoReply, read_repeatedly
from tests.contract.harness import QuickClock

TORN = MarketUnknown("torn")
GONE = NoReply("reset")


async def read(*outcomes: object, least_s: float | None = 0.0) -> tuple[object, int, float]:
    """What came of a read whose tries end so in turn, after how many tries, and how many seconds later."""
    clock, left = QuickClock(), list(outcomes)

    async def ask() -> object:
        outcome = left.pop(0)
        if isinstance(outcome, NoReply):
            raise outcome
        return outcome

    def judge(answer: object) -> Mapping[str, Any]:
        if isinstance(answer, MarketUnknown):
            raise answer
        return {"answer": answer}

    result: object
    try:
        result = (await read_repeatedly(ask, judge, lambda answer, error: least_s, clock))["answer"]
    except MarketUnknown as error:
        result = str(error)
    return result, len(outcomes) - len(left), clock.monotonic()


@pytest.mark.parametrize(
    ("outcomes", "least_s", "expected"),
    [
        (("yes",), 0.0, ("yes", 1, 0)),
        ((TORN, "yes"), 0.0, ("yes", 2, 1)),
        ((TORN, GONE, "yes"), 0.0, ("yes", 3, 3)),
        ((TORN, "yes"), 10.0, ("yes", 2, 10)),
        ((TORN, "yes"), None, ("torn", 1, 0)),
        ((TORN, TORN, TORN, "yes"), 0.0, ("torn", 3, 3)),
        ((GONE, GONE, GONE, "yes"), 0.0, ("reset", 3, 3)),
        ((NoReply("slow", timed_out=True), "yes"), 0.0, ("slow", 1, 0)),
    ],
)
async def test_a_read_is_asked_again_where_that_may_help(
    outcomes: tuple[object, ...], least_s: float | None, expected: tuple[object, int, float]
) -> None:
    assert await read(*outcomes, least_s=least_s) == expected
