"""Lists that count only when all of them can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeVar

from autopilot.ports.provider import MarketUnknown
from autopilot.providers.runpod import wire
from autopilot.providers.strangers import each_once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PodListing:
    """All pods of the account. ``credit`` None: this interface does not tell."""

    pods: tuple[wire.PodRow, ...]
    credit: Decimal | None


def read_plausible(read: Callable[[object], T], raw: object) -> T:
    """Raises ``MarketUnknown``."""
    try:
        return read(raw)
    except wire.UnreadableRow as error:
        raise MarketUnknown(str(error)) from error


def all_pods(read: Callable[[object], wire.PodRow], raw: object) -> tuple[wire.PodRow, ...]:
    """Raises ``MarketUnknown`` unless every pod of ours in the list can be read, and none is there twice."""
    if not isinstance(raw, list):
        raise MarketUnknown("the answer holds no list of pods")
    rows = (read_plausible(partial(wire.any_pod, read), row) for row in raw)
    return tuple(each_once(rows, lambda row: row.pod_id, lambda row: row.name))
