"""Keeps to the market's request limits, in market time: one lane per endpoint family."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from autopilot.ports.clock import Clock
from autopilot.providers.pacing import Lane, Quiet
from autopilot.providers.reading import LONGEST_BACKOFF_S

MARGIN = 1.2
"""We keep this much more distance than the market asks for."""


class Family(StrEnum):
    LIST = "list"
    SHOW = "show"
    STATE = "state"
    DESTROY = "destroy"
    CREATE = "create"
    BID = "bid"
    SEARCH = "search"
    CHARGES = "charges"
    USER = "user"
    INBOX = "inbox"
    KEYS = "keys"
    LOGS = "logs"


INTERVAL_S = {
    Family.LIST: 1.0,
    Family.SHOW: 2.0,
    Family.STATE: 1.0,
    Family.DESTROY: 3.0,
    Family.CREATE: 4.5,
    Family.BID: 5.5,
    Family.SEARCH: 0.25,
    Family.CHARGES: 1.0,
    Family.USER: 1.0,
    Family.INBOX: 3.0,
    Family.KEYS: 1.0,
    Family.LOGS: 1.0,
}
"""Smallest distance between two requests that the market accepts. Search and user are observed, not documented; of
the inbox, of keys for a login and of logs nothing is known."""
PENALTY_S = {Family.CREATE: 12.0}
"""Added by the market once a request came too early."""


def lanes(clock: Clock, quiet: Quiet[Family]) -> dict[Family, Lane]:
    return {
        family: Lane(interval_s * MARGIN, clock, partial(quiet.left_s, family), _patience_s(family))
        for family, interval_s in INTERVAL_S.items()
    }


def _patience_s(family: Family) -> float:
    """A penalty is no sign that the market is asked too much."""
    return LONGEST_BACKOFF_S + PENALTY_S.get(family, 0) * MARGIN
