"""Keeps requests to the market apart, in market time. No limit is published: the lanes allow about 60 a minute."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from autopilot.ports.clock import Clock
from autopilot.providers.pacing import Lane, Quiet


class Family(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    LIST = "list"
    """Bids and instances."""
    PRICE = "price"
    """Kinds of machine, auctions and prices."""
    ACCOUNT = "account"


INTERVAL_S = {
    Family.CREATE: 4.0,
    Family.CHANGE: 2.0,
    Family.LIST: 1.0,
    Family.PRICE: 0.5,
    Family.ACCOUNT: 2.0,
}


def lanes(clock: Clock, quiet: Quiet[Family]) -> dict[Family, Lane]:
    return {family: Lane(interval_s, clock, partial(quiet.left_s, family)) for family, interval_s in INTERVAL_S.items()}
