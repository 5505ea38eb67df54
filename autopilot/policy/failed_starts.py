"""Machines on which the command never ran: when that ends the job, and when the next one is rented.

A machine that is lost for a known fault of its host is not held against the job. What its market did not explain may be
the image's fault, and is: by so many hosts in a row. What such machines cost is bounded by a share of the job's budget,
and where it has none, by their number: none is kept longer than ``timeout_s`` or ``silence_s`` allow.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.domain.job import Job
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.start_faults import INVALID, StartCause, count_last

FIRST_PAUSE = timedelta(minutes=10)
LONGEST_PAUSE = timedelta(hours=3)
"""Registries count pulls over hours."""


def never_starts(job: Job, params: Params) -> Note | None:
    """What is known of the machines for which the job has to fail; None while it need not."""
    limits, over = params.loading, tuple(each for each in job.failed_starts if each.is_over)
    dead = {each.host for each in over if each.cause is StartCause.UNKNOWN and each.fault != INVALID}
    cost = sum((each.cost for each in over), ZERO)
    is_too_dear = (
        job.spec.budget is not None and cost > ZERO and cost >= Decimal(str(limits.lost_share)) * job.spec.budget
    )
    if not (
        len(dead) >= limits.most_dead_hosts
        or job.fruitless >= limits.most_failed_starts
        or count_last(over, INVALID) >= limits.most_invalid
        or is_too_dear
    ):
        return None
    return Note(
        "never_started", (("launches", job.fruitless), ("hosts", len({each.host for each in over})), ("cost", cost))
    )


def next_start_at(job: Job) -> datetime | None:
    """Before then nothing is rented, for the registry gives the image to none; None: at once."""
    if not job.failed_starts or job.failed_starts[-1].cause is not StartCause.LIMIT:
        return None
    newest = job.failed_starts[-1]
    times = count_last(job.failed_starts, newest.fault)
    return newest.at + min(FIRST_PAUSE * float(2 ** min(times - 1, 10)), LONGEST_PAUSE)
