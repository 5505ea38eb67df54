"""A ledger that is opened to be read alone: nothing is made, upgraded or locked, and a daemon may work on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autopilot.books.ledger_view import LedgerReader
from autopilot.clock import SystemClock
from autopilot.policy.guard import Limits
from autopilot.store.care import ledger_as_it_is
from autopilot.store.database import unopened_store

NO_LIMITS = Limits(None, None, None, max_instances=0, launches_per_job_10min=0, launches_per_hour=0)
"""Limits of a ledger whose daemon's settings are not here."""


@asynccontextmanager
async def open_reader(url: str, limits: Limits) -> AsyncIterator[LedgerReader]:
    """Raises ``UserError`` if there is no ledger of this program's schema, ``StoreUnavailable``."""
    async with ledger_as_it_is(url):
        pass
    store = unopened_store(url, name="autopilot web")
    try:
        yield LedgerReader(store, SystemClock(), limits)
    finally:
        await store.close()
