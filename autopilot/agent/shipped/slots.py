"""Where checkpoints may be written: the slots of the orders, one for each number, and those that are kept for the end.

A slot is used once and never overwritten, so its readers are not disturbed. A daemon that runs gives new slots; if it
is silent, the ones that are left must last for the whole permit.
"""

from __future__ import annotations

from typing import Any

HEARD_S = 180.0
"""Newer orders come each minute: after so long without any, none are expected before the permit ends."""
KEPT_FROM_A_RUN, KEPT_FROM_A_SAVE, KEPT_FROM_THE_LAST = 2, 1, 0
"""Slots that are left alone: by a save of a command that runs; of one that has ended; at the end of the permit. A
machine that is stopped and resumed under the same orders has one for each of its ends."""


def open_slots(orders: dict[str, Any] | None, kept: int) -> list[dict[str, Any]]:
    """Those that may be used while ``kept`` are left alone."""
    slots = orders["put_urls"]["ckpt"] if orders else ()
    return list(slots[: max(len(slots) - kept, 0)])


def space_saves(orders: dict[str, Any] | None, next_number: int, interval_s: float, left_s: float) -> float:
    """Seconds until the next save of a command that runs, when no orders come and the permit lasts ``left_s`` more:
    as ordered, or so long that the slots last, with the kept ones for the end."""
    count = len([slot for slot in open_slots(orders, KEPT_FROM_A_RUN) if slot["n"] >= next_number])
    return max(interval_s, left_s / (count + 1))
