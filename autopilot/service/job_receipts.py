"""The receipt of a job in one line, for the notice that it has ended."""

from __future__ import annotations

from autopilot.books.receipt import summarise
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store
from autopilot.words import receipts


class JobReceipts:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def tell(self, job_id: str) -> str:
        """Empty for a job that is not over, or not in the ledger. Raises ``StoreUnavailable``."""
        async with self._store.snapshot() as uow:
            job = await uow.jobs.find(job_id)
            if job is None:
                return ""
            receipt = await summarise(uow, job, self._clock.now(), await uow.events.list_by_job(job.id))
        return receipts.tell(receipt) if receipt else ""
