"""How a store fails."""


class StoreUnavailable(Exception):
    """The database cannot serve now; the message says why."""


class CommitUnknown(StoreUnavailable):
    """The connection broke while the database committed: all of the transaction was written, or nothing of it."""


class LeadershipLost(StoreUnavailable):
    """Another daemon has taken the ledger over: this one may neither write nor act any more."""


class ConstraintViolated(Exception):
    """A write breaks a rule of the ledger (a slot held twice, an entry changed, a row that names nothing): a defect."""
