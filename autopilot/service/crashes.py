"""Whether the daemon before this one ended in order: it says so in the ledger, and one that was killed could not."""

from __future__ import annotations

import contextlib

from autopilot.engine.event_log import daemon_restarted
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, StoreUnavailable

NOTE = "daemon_began_at"


async def note_beginning(store: Store, clock: Clock) -> None:
    """An event where the daemon before this one has left no word of its end. Raises ``StoreUnavailable``."""
    now = clock.now()
    async with store.transaction() as uow:
        since = await uow.notes.get(NOTE)
        if since:
            await uow.events.add([daemon_restarted(since, now)])
        await uow.notes.set(NOTE, now.isoformat())


async def note_end(store: Store) -> None:
    """One that cannot write any more counts as crashed."""
    with contextlib.suppress(StoreUnavailable):
        async with store.transaction() as uow:
            await uow.notes.set(NOTE, "")
