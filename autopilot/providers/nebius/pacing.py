"""Keeps requests to the market apart, in market time. No limit is published."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from autopilot.ports.clock import Clock
from autopilot.providers.pacing import Lane, Quiet


class Family(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    LIST = "list"
    """Machines, disks and policies."""
    WATCH = "watch"
    """Operations under way."""
    PRICE = "price"
    """Kinds of machine, prices, estimates and what is free."""
    ACCOUNT = "account"
    """Subnets, quotas and the bill."""


INTERVAL_S = {
    Family.CREATE: 4.0,
    Family.CHANGE: 1.0,
    Family.LIST: 0.5,
    Family.WATCH: 1.0,
    Family.PRICE: 0.5,
    Family.ACCOUNT: 1.0,
}


def lanes(clock: Clock, quiet: Quiet[Family]) -> dict[Family, Lane]:
    return {family: Lane(interval_s, clock, partial(quiet.left_s, family)) for family, interval_s in INTERVAL_S.items()}
