"""What the engine and the API ask of the ledger's database.

A transaction is all or nothing and durable when its block ends without an exception. Every method of a repository may
raise ``StoreUnavailable``: the database cannot be read or written now (disk full, read-only, locked, gone). Then
nothing may be created at any market, while destroys stay allowed.
"""

from autopilot.ports.store.failures import CommitUnknown, ConstraintViolated, LeadershipLost, StoreUnavailable
from autopilot.ports.store.records import (
    BidRecord,
    DecisionRecord,
    EventRecord,
    KeptAnswer,
    OwnerTotals,
    PendingNotice,
    Totals,
)
from autopilot.ports.store.unit_of_work import Store, UnitOfWork

__all__ = [
    "BidRecord",
    "CommitUnknown",
    "ConstraintViolated",
    "DecisionRecord",
    "EventRecord",
    "KeptAnswer",
    "LeadershipLost",
    "OwnerTotals",
    "PendingNotice",
    "Store",
    "StoreUnavailable",
    "Totals",
    "UnitOfWork",
]
