"""The ledger's database: tables, transactions, migrations. Only this package knows SQLAlchemy.

The tables follow the records of ``domain`` and ``ports.store`` field by field. ``jobs`` own ``leases``, these own
``lease_spans`` and ``bids``; a job's newest row in ``checkpoints`` is its checkpoint; ``ledger_entries`` only grow.
"""
