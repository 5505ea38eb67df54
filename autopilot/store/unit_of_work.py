from __future__ import annotations

from autopilot.store.history import HistoryStatements
from autopilot.store.jobs import JobStatements
from autopilot.store.ledger import LedgerStatements


class SqlUnitOfWork(JobStatements, LedgerStatements, HistoryStatements):
    """One transaction: everything that ``ports.store.UnitOfWork`` asks for, over one connection."""
