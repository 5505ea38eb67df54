from __future__ import annotations

from autopilot.store.history import HistoryStatements
from autopilot.store.invoices import InvoiceStatements
from autopilot.store.jobs import JobStatements
from autopilot.store.ledger import LedgerStatements
from autopilot.store.prices import PriceStatements
from autopilot.store.reports import ReportStatements


class SqlUnitOfWork(
    JobStatements, LedgerStatements, InvoiceStatements, HistoryStatements, ReportStatements, PriceStatements
):
    """One transaction: everything that ``ports.store.UnitOfWork`` asks for, over one connection."""
