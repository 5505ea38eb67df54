"""Policies on recorded or synthetic markets, on virtual time: exact models, baselines, the optimum, scores, report.

Amounts in here are research numbers in float dollars; the ledger never sees them.
"""
