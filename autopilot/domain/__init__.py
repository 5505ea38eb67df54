"""Values and rules without I/O: money, time, jobs, leases, offers, ledger entries. Imports nothing above itself."""
