"""Where a search brought nothing: what the markets have without the job's other wishes, and what those remove."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.domain.host import NO_NEEDS
from autopilot.domain.job import Job
from autopilot.engine.engine import Engine
from autopilot.engine.waits import Wait
from autopilot.policy.wait import REMOVED, wait_notes

WIDER = "wider"
LEAST_DISK_GB = Decimal(1)


async def widen(engine: Engine, job: Job, wait: Wait, now: datetime) -> tuple[Note, ...]:
    """What to add to the notes of a wait: of a search that brought nothing, and of one that the markets narrowed by
    what the job asks of the machine, the offers that they left out.
    """
    if wait.found_nothing:
        return await look_wider(engine, job, now)
    if job.spec.host == NO_NEEDS or not wait.fits_nothing:
        return ()
    told = {dict(note.numbers).get("condition") for note in wait.notes}
    wider = await look_wider(engine, job, now)
    return tuple(note for note in wider if note.topic == WIDER or dict(note.numbers)["condition"] not in told)


async def look_wider(engine: Engine, job: Job, now: datetime) -> tuple[Note, ...]:
    """Search for the job's GPUs on any host, then with any disk; which conditions remove what is found.

    The disk goes last: some markets give a machine the disk that was asked for.
    """
    any_host = job.spec.query.on_any_host
    for query in (any_host, replace(any_host, disk_gb=LEAST_DISK_GB)):
        if offers := await engine.offers(query):
            notes = wait_notes(job, engine.market_view(offers, job.id, now), now, engine.config.params)
            return (Note(WIDER, (("offers", len(offers)),)), *(note for note in notes if note.topic == REMOVED))
    return (Note(WIDER, (("offers", 0),)),)
