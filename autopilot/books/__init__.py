"""What the ledger says: spend, budgets, bills, prices, the lives of jobs and machines. No HTTP."""
