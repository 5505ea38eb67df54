"""``resume --from-store``: what the store holds of a job, and the word that it shall go on from there."""

from __future__ import annotations

from datetime import datetime

from autopilot import render
from autopilot.answers.models.jobs import ResumeBody
from autopilot.books.finding import find_job, refuse_array
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.engine.engine import Engine
from autopilot.engine.store_look import InStore
from autopilot.ports.blobs import BlobUnavailable
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

MAY_RETURN = (JobStatus.PARKED, JobStatus.PENDING, JobStatus.RECOVERING)


class StoreReturns:
    def __init__(self, engine: Engine, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock

    async def look(self, reference: str) -> render.Json | None:
        """What the job would go on from; None: it is still being read. Changes nothing. Raises ``UserError``."""
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
        refuse_return(job)
        now = self._clock.now()
        try:
            found = await self._engine.from_store.look(job, now)
        except BlobUnavailable as problem:
            hint = "autopilot doctor tries the store out; nothing was changed"
            raise UserError(f"the store of {job.spec.name} cannot be read now: {problem}", hint=hint) from None
        return None if found is None else _render(found, now)


def check_wish(wish: ResumeBody) -> None:
    """Raises ``UserError`` for what excludes each other."""
    if wish.from_store and wish.from_checkpoint:
        raise UserError("from_store and from_checkpoint exclude each other", hint="name one of them")
    if wish.dry_run and not wish.from_store:
        raise UserError("dry_run requires from_store", hint="autopilot show lists what is in the ledger")


def refuse_return(job: Job) -> None:
    """Raises ``UserError`` for a job that cannot resume from the store in its present state."""
    refuse_array(job, "a store of its own")
    if job.array_id is not None:
        raise UserError("a task of an array cannot resume from the store", hint="autopilot retry restarts it")
    if job.certifies:
        raise UserError(f"job {job.spec.name} certifies a market", hint="start it again: autopilot certify")
    if job.status not in MAY_RETURN or any(lease.is_wanted for lease in job.leases):
        hint = f"autopilot stop {job.spec.name} parks it; then it can"
        if job.status.is_final or job.status in (JobStatus.STOPPING, JobStatus.CANCELLING):
            hint = "it can while it is parked or waits for a machine"
        raise UserError(f"job {job.spec.name} is {job.status} and cannot resume from the store", hint=hint)


def _render(store: InStore, now: datetime) -> render.Json:
    chosen = store.chosen
    return {
        "checkpoint": None
        if chosen is None
        else {
            "lease_id": chosen.lease_id,
            "number": chosen.number,
            "step": chosen.step,
            "run_epoch": chosen.run_epoch,
            "size_bytes": chosen.size_bytes,
            "age_s": None if store.verified_before is None else (now - store.verified_before).total_seconds(),
        },
        "machines": [_machine(lease) for lease in store.leases],
        "passed_over": [
            {"lease_id": each.lease_id, "number": each.number, "why": each.why} for each in store.passed_over
        ],
    }


def _machine(lease: Lease) -> render.Json:
    return {
        "lease_id": lease.id,
        "provider": lease.provider,
        "instance_id": lease.instance_id,
        "state": lease.state,
        "rented_at": render.plain(lease.intended_at),
        "per_hour": render.plain(lease.burn_upper),
    }
