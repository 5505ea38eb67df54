"""Why the market says no, in RunPod's words where they are known."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from enum import StrEnum

from autopilot_lab.sandbox.units import CENT

SPOT_NO_CAPACITY = "There are no instances available with the request specifications. Please try again later."
NO_CAPACITY = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)
_HOST_FULL = "There are not enough free GPUs on the host machine to start this pod."
_WRONG_RESUME = "Cannot resume a spot pod as an on demand pod."


class RefusalReason(StrEnum):
    NO_CAPACITY = "no_capacity"
    LOW_BID = "low_bid"
    HOST_FULL = "host_full"
    WRONG_RESUME = "wrong_resume"
    BALANCE = "balance"
    NOT_FOUND = "not_found"
    INVALID = "invalid"


class PodRefused(Exception):
    """The market does not do this; the text is the customer's."""

    def __init__(self, reason: RefusalReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def no_capacity(*, spot: bool) -> PodRefused:
    return PodRefused(RefusalReason.NO_CAPACITY, SPOT_NO_CAPACITY if spot else NO_CAPACITY)


def host_full() -> PodRefused:
    return PodRefused(RefusalReason.HOST_FULL, _HOST_FULL)


def wrong_resume() -> PodRefused:
    return PodRefused(RefusalReason.WRONG_RESUME, _WRONG_RESUME)


def over_spend_limit(limit: Decimal) -> PodRefused:
    return PodRefused(
        RefusalReason.BALANCE,
        f"Renting this pod would put you over your current spending limit (${limit.normalize():f}/hr)",
    )


def insufficient_balance(wish: str, needed: Decimal, balance: Decimal) -> PodRefused:
    """``wish``: "rent this pod", "resume this spot pod" …"""
    needed, balance = needed.quantize(CENT, ROUND_CEILING), balance.quantize(CENT, ROUND_HALF_EVEN)
    amounts = f"${needed} (current: ${balance}, deficit: ${needed - balance})"
    return PodRefused(RefusalReason.BALANCE, f"Insufficient balance to {wish}. You need at least {amounts}.")


def not_found(wish: str) -> PodRefused:
    """``wish``: "terminate" …"""
    return PodRefused(RefusalReason.NOT_FOUND, f"pod not found to {wish}")


def invalid(text: str) -> PodRefused:
    return PodRefused(RefusalReason.INVALID, text)
