"""How many tasks of an array are worth having at work now: a costed answer, up to the bound that its owner set.

wanted = the more of
    as many machines as are about as cheap as the cheapest (``MUCH_DEARER``), those that it holds among them
    as many as end the rest before the deadline:  ⌈ rest × time of a task, with its reserves / time that is left ⌉
width  = the least of  wanted, ``parallel``, the tasks that are not over, and what the budget pays to the end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from math import ceil

from autopilot.domain.actions import Note
from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.money import ZERO, Number

MUCH_DEARER = Decimal("0.20")
"""A machine that costs more than so much above the cheapest is not worth having before the deadline asks for it: the
cheap ones are free again when their tasks have ended."""


class Bound(StrEnum):
    """What keeps the width from being larger."""

    PARALLEL = "parallel"
    TASKS = "tasks"
    PRICE = "price"
    """The next machine is much dearer than the cheapest, and the deadline does not ask for it."""
    BUDGET = "budget"
    NO_OFFER = "no_offer"
    """Nothing fits: the tasks that are open wait for it."""


@dataclass(frozen=True, slots=True)
class TaskMeasure:
    """What is known of one task of the array."""

    busy: timedelta | None
    """From renting a machine to its end, by estimate or by what others took; None: unknown."""
    reserve: timedelta
    """Held beside that before a deadline: an estimate that is too low, and a machine that is lost."""
    cost: Decimal | None
    """Dollars on the cheapest machine that can be had; None: unknown."""
    setup: timedelta = timedelta(0)
    """What of ``busy`` a machine takes that has to boot first."""


@dataclass(frozen=True, slots=True)
class Width:
    tasks: int
    bound: Bound
    cheap: int
    """Machines about as cheap as the cheapest."""
    for_deadline: int | None
    """Machines that the deadline requires; None: no deadline, or the length of a task is unknown."""
    payable: int | None
    """Tasks beyond those that are open which the budget pays to their end; None: no budget, or no known cost."""

    def note(self, counts: TaskCounts, array: ArraySpec) -> Note:
        numbers: list[tuple[str, Number]] = [
            ("tasks", self.tasks),
            ("bound", self.bound),
            ("parallel", array.parallel),
            ("cheap", self.cheap),
            ("for_deadline", self.for_deadline),
            ("payable", self.payable),
            ("begun", counts.begun),
            ("count", array.count),
        ]
        return Note("width", tuple(numbers))


def choose_width(
    array: ArraySpec,
    counts: TaskCounts,
    measure: TaskMeasure,
    held: Sequence[Decimal],
    offered: Sequence[Decimal],
    left: timedelta | None,
    budget: Decimal | None,
    queued: int = 0,
) -> Width:
    """``queued``: tasks that are to restart.

    ``held``: $/h of the machines that the array has; ``offered``: of those it could have beside them, machine by
    machine, in any order. ``left``: time to the deadline. ``budget``: dollars beyond all that is spent or committed.
    """
    unbegun = array.count - counts.begun + queued
    cheap = _count_cheap(counts.active, held, offered)
    for_deadline = _machines_for(array, counts, measure, left)
    payable = _payable(counts, measure, budget)
    most, bound = min((array.parallel, Bound.PARALLEL), (counts.active + unbegun, Bound.TASKS), key=_size)
    wanted = max(cheap, for_deadline or 0)
    if wanted < most:
        is_dry = not offered and not counts.active
        most, bound = wanted, Bound.NO_OFFER if is_dry else Bound.PRICE
    if payable is not None and counts.active + payable < most:
        most, bound = counts.active + payable, Bound.BUDGET
    return Width(most, bound, cheap, for_deadline, payable)


def _size(bound: tuple[int, Bound]) -> int:
    return bound[0]


def _count_cheap(active: int, held: Sequence[Decimal], offered: Sequence[Decimal]) -> int:
    """Those that have a place keep it. Where nothing is held or offered one task waits for the market."""
    prices = [*held, *offered]
    if not prices:
        return max(active, 1)
    most = min(prices) * (1 + MUCH_DEARER)
    return active + sum(price <= most for price in offered)


def _machines_for(array: ArraySpec, counts: TaskCounts, measure: TaskMeasure, left: timedelta | None) -> int | None:
    if left is None or measure.busy is None:
        return None
    rest = max(array.needed - counts.succeeded, 0)
    usable = left - measure.reserve
    if usable < measure.busy:
        return rest  # late in any case: as early as can be
    # Those after the first one find the machine as it is: none of them boots.
    one_after_another = 1 + (usable - measure.busy) // max(measure.busy - measure.setup, timedelta(minutes=1))
    return ceil(rest / one_after_another)


def _payable(counts: TaskCounts, measure: TaskMeasure, budget: Decimal | None) -> int | None:
    """The whole cost of tasks at work is reserved, including what they have spent of it."""
    if budget is None or measure.cost is None or measure.cost <= ZERO:
        return None
    rest = budget - measure.cost * counts.active
    return max(int(rest // measure.cost), 0)


def due_of_task(unbegun: int, width: int, measure: TaskMeasure, deadline: datetime, now: datetime) -> datetime:
    """By when a task is due that begins now: its share of the time that is left, in which the rest take turns.

    ``unbegun``: tasks that have not begun, this one among them.
    """
    turns = max(ceil(unbegun / max(width, 1)), 1)
    share = (deadline - now) / turns
    if measure.busy is not None:
        share = max(share, measure.busy + measure.reserve)
    return min(now + share, deadline)
