"""What a machine lacks, and what a job that was killed for memory needs, in the words of a decision's record."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.actions import Note
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.memory_kill import MemoryKill, read_memory_kill
from autopilot.domain.unfit import lacks_of, unbearable
from autopilot.policy.eligibility import misfit

MEMORY_PATIENCE = timedelta(minutes=30)
"""For so long a machine with more memory is looked for after a kill. Nothing is rented meanwhile."""


def unfit_notes(job: Job, lease: Lease) -> tuple[Note, ...]:
    """One for each thing that it lacks. ``left``: the machine is left for it."""
    left = {lack.kind for lack in unbearable(job, lease)}
    return tuple(
        Note(
            "lacks", (("kind", lack.kind), ("has", lack.has), ("wanted", lack.wanted), ("left", int(lack.kind in left)))
        )
        for lack in lacks_of(job, lease)
    )


def has_no_more_memory(job: Job, market: Market, now: datetime) -> MemoryKill | None:
    """The kill after which no offer has more memory than the machine on which it happened; None: one may yet."""
    kill = read_memory_kill(job)
    if kill is None or job.main is not None or job.launches != kill.launches or now < kill.at + MEMORY_PATIENCE:
        return None
    is_known = all(market.knows(name) for name in market.providers)
    is_there = any(misfit(job.spec, offer) is None and not kill.is_of_same_size(offer) for offer in market.offers)
    return kill if is_known and not is_there else None
