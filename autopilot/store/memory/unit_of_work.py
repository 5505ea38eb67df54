"""One transaction over tables in memory: everything that ``ports.store.UnitOfWork`` asks for."""

from __future__ import annotations

from autopilot.store.memory.history import HistoryQueries
from autopilot.store.memory.invoices import InvoiceQueries
from autopilot.store.memory.jobs import JobQueries
from autopilot.store.memory.ledger import LedgerQueries
from autopilot.store.memory.prices import PriceQueries
from autopilot.store.memory.reports import ReportQueries


class MemoryUnitOfWork(JobQueries, LedgerQueries, InvoiceQueries, HistoryQueries, ReportQueries, PriceQueries):
    pass
