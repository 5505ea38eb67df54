"""Recorded prices on a grid of ticks: what floors are learnt from, and what backtests of the user's own market play."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import inf
from typing import NamedTuple

from autopilot.domain.prices import PRICES_EVERY, PriceObservation

HOUR = timedelta(hours=1)
EVER = datetime.max.replace(tzinfo=UTC)

Machine = tuple[str, str]
"""(provider, machine id)."""


class Grid(NamedTuple):
    machines: tuple[Machine, ...]
    hosts: tuple[int, ...]
    """Host of each machine, numbered from 0."""
    shown: tuple[array[float], ...]
    """The floor of each machine at each tick, $/h; infinite where it was not seen."""
    recorded: bytes
    """A byte a tick, 1 where anything was seen."""


def on_grid(seen: Sequence[PriceObservation], tick: timedelta) -> Grid:
    """What was seen, oldest first, each ``tick`` from the first moment on.

    An observation holds until the next moment that was recorded, if that is not long after. One that covers an
    hour holds for as much of it as the machine was seen in.
    """
    if not seen:
        return Grid((), (), (), b"")
    origin = seen[0].observed_at
    moments = sorted({each.observed_at for each in seen})
    superseded = dict(pairwise([*moments, EVER]))
    spans = []
    for each in seen:
        held = min(PRICES_EVERY * (each.samples + 1), HOUR)
        until = min(superseded[each.observed_at], each.observed_at + held)
        spans.append((_tick_from(origin, each.observed_at, tick), _tick_from(origin, until, tick), each))
    ticks = max(end for _, end, _ in spans)
    recorded = bytearray(ticks)
    shown: dict[Machine, array[float]] = defaultdict(lambda: array("d", [inf]) * ticks)
    hosts: dict[Machine, tuple[str, str, str]] = {}
    for first, end, each in spans:
        machine = (each.provider, each.machine_id)
        kind, name = ("machine", each.machine_id) if each.host_id is None else ("host", each.host_id)
        hosts[machine] = (each.provider, kind, name)
        recorded[first:end] = b"\x01" * (end - first)
        floor = float(each.floor) if each.floor else inf
        shown[machine][first:end] = array("d", [floor]) * (end - first)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(hosts.values()))}
    return Grid(
        tuple(shown), tuple(numbers[hosts[machine]] for machine in shown), tuple(shown.values()), bytes(recorded)
    )


def _tick_from(origin: datetime, at: datetime, tick: timedelta) -> int:
    """The first tick that is not before ``at``."""
    return -((origin - at) // tick)
