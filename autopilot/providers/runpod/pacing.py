"""Keeps to the market's request limits, in market time: one lane per kind of request.

GraphQL has no published limit: the lanes allow about 30 requests a minute together. REST allows 60.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from autopilot.ports.clock import Clock
from autopilot.providers.pacing import Lane, Quiet


class Family(StrEnum):
    CREATE = "create"
    """For either interface."""
    GRAPHQL_READ = "graphql_read"
    GRAPHQL_CHANGE = "graphql_change"
    REST_READ = "rest_read"
    REST_CHANGE = "rest_change"


INTERVAL_S = {
    Family.CREATE: 8.0,
    Family.GRAPHQL_READ: 4.0,
    Family.GRAPHQL_CHANGE: 8.0,
    Family.REST_READ: 3.0,
    Family.REST_CHANGE: 3.0,
}


def lanes(clock: Clock, quiet: Quiet[Family]) -> dict[Family, Lane]:
    return {family: Lane(interval_s, clock, partial(quiet.left_s, family)) for family, interval_s in INTERVAL_S.items()}
